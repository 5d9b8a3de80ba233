//! The office is killed while it refuses a plan: nothing of the plan is there afterwards, so nobody can start it.

use std::path::Path;
use std::time::Duration;

use rand::RngExt;
use serde_json::json;

use crate::office::{Office, dlo};

const COMMON: &str = "common-token-0123456789";
const ALICE: &str = "alice-token-0123456789";
/// Enough letters that a plan takes a while.
const LETTERS: u64 = 2_000;

fn open(directory: &Path) -> Office {
    let mut command = dlo();
    command.args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn", "--config"]);
    command.arg(directory.join("dlo.toml")).current_dir(directory);
    Office::spawn(command, &directory.join("dlo-data"))
}

#[test]
fn a_refused_plan_leaves_nothing_behind_whenever_the_office_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let config = format!(
        "[server]\ntoken = \"{COMMON}\"\n[server.tokens]\nalice = \"{ALICE}\"\n[brokers.shop]\nkind = \"memory\"\n\
         [[sources]]\nname = \"orders\"\nbroker = \"shop\"\ncritical = true\n"
    );
    std::fs::write(directory.path().join("dlo.toml"), config).unwrap();
    let mut office = open(directory.path());
    let letters: Vec<_> = (0..LETTERS)
        .map(|n| json!({"source": "orders", "offset": n, "partition": 0, "payload": {"n": n}, "error_class": "KeyError"}))
        .collect();
    let import = directory.path().join("letters.ndjson");
    std::fs::write(&import, letters.iter().map(|letter| format!("{letter}\n")).collect::<String>()).unwrap();
    office.dlo(&["letters", "import", import.to_str().unwrap(), "--yes", "--token", COMMON]).ok();
    for _ in 0..super::rounds() {
        let mut planner = office
            .command(&["replay", "plan", "source:orders", "--token", COMMON, "--json"])
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(rand::rng().random_range(0..120)));
        office.strike();
        planner.wait().unwrap();
        office = open(directory.path());
        let replays = office.dlo(&["replay", "list", "--token", ALICE, "--json"]).json();
        assert_eq!(replays["replays"], json!([]), "something of a refused plan is left");
    }
    let refused = office.dlo(&["replay", "plan", "source:orders", "--token", COMMON]);
    assert!(refused.code == 4 && refused.err.contains("use a token with a name"), "{refused:?}");
    office.dlo(&["replay", "plan", "source:orders", "--token", ALICE]).ok();
}
