//! The five-minute tour: the bug is there, the replay stops; the bug is fixed, the replay goes through.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::office::{Office, dlo};

#[tokio::test(flavor = "multi_thread")]
async fn the_demo_is_fixed_and_its_letters_are_sent_on() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = dlo();
    command.args(["demo", "--listen", "127.0.0.1:0", "--orders", "50000", "--data"]).arg(directory.path());
    let office = Office::spawn(command, directory.path());
    let until = |what: &str, fact: &dyn Fn() -> bool| {
        let deadline = Instant::now() + Duration::from_secs(90);
        while !fact() {
            assert!(Instant::now() < deadline, "it did not happen that {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let open = || {
        let causes = office.dlo(&["letters", "list", "class:KeyError status:open", "--json"]).json();
        causes["letters"].as_array().unwrap().len()
    };
    until("the bad orders are letters", &|| open() == 6);
    let plan = || office.dlo(&["replay", "plan", "class:KeyError source:orders", "--json"]).json();
    let wait =
        |plan: &Value| office.dlo(&["replay", "start", plan["id"].as_str().unwrap(), "--yes", "--wait"]);
    let stopped = wait(&plan());
    assert!(stopped.code == 4 && stopped.out.contains("KeyError"), "{stopped:?}");
    let fixed = ureq::post(format!("{}/demo/fix", office.address)).send_empty().unwrap();
    assert_eq!(fixed.status(), 200);
    let cancel = office.dlo(&["replay", "list", "--state", "stopped", "--json"]).json();
    let id = cancel["replays"][0]["id"].as_str().unwrap();
    office.dlo(&["replay", "cancel", id, "--yes"]).ok();
    until("all are open again", &|| open() == 6);
    let done = wait(&plan());
    assert!(done.code == 0 && done.out.contains("completed"), "{done:?}");
    let nothing = office.dlo(&["replay", "plan", "class:KeyError source:orders"]).ok();
    assert!(nothing.contains("there is nothing to send"), "{nothing}");
}
