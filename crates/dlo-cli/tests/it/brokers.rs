//! `dlo topology`, `dlo check` and `dlo drill` against a real broker: Redis, because it starts in a blink.

use std::path::Path;

use dlo_testkit::harness::redis::{OwnRedis, Redis};

use crate::office::{Office, Said, dlo};

/// A directory with a config of one source on that server.
fn house(redis: &OwnRedis) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\n[brokers.shop]\nkind = \"redis\"\nurl = \"{}\"\n\
         [[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"orders\"\ndlq = \"orders:dlq\"\nowner = \"payments\"\n",
        redis.url()
    );
    std::fs::write(dir.path().join("dlo.toml"), text).unwrap();
    dir
}

fn run(dir: &Path, args: &[&str]) -> Said {
    Said::new(&dlo().args(args).current_dir(dir).output().unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn topology_is_planned_without_a_change_then_applied_and_then_nothing_is_left_to_do() {
    let redis = Redis::own().await;
    let dir = house(&redis);
    let planned = run(dir.path(), &["topology", "plan"]).ok();
    assert!(planned.contains("orders") && planned.contains("orders:dlq"), "{planned}");
    let dry = run(dir.path(), &["topology", "apply"]);
    assert!(dry.err.contains("--yes"), "{dry:?}");
    assert_eq!(dry.ok(), planned, "a dry run changes nothing");
    run(dir.path(), &["topology", "apply", "--yes"]).ok();
    let left = run(dir.path(), &["topology", "plan", "orders", "--json"]).json();
    let changes = left["sources"][0]["changes"].as_array().unwrap();
    assert!(changes.iter().all(|change| change["appliable"] == false), "{left:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_says_what_is_missing_at_a_broker_and_the_command_that_mends_it() {
    let redis = Redis::own().await;
    let dir = house(&redis);
    let office = ["--server", "http://127.0.0.1:1"];
    let before = run(dir.path(), &[&["check"][..], &office].concat());
    assert_eq!(before.code, 1, "{before:?}");
    assert!(before.out.contains("✓ broker   shop"), "{before:?}");
    assert!(before.out.contains("✗ topology orders"), "{before:?}");
    assert!(before.out.contains("dlo topology apply orders --yes"), "{before:?}");
    run(dir.path(), &["topology", "apply", "--yes"]).ok();
    let after = run(dir.path(), &[&["check"][..], &office].concat()).ok();
    assert!(after.contains("✓ source   orders: dead letters are captured from orders:dlq"), "{after}");
    redis.kill().await;
    let gone = run(dir.path(), &[&["check"][..], &office].concat());
    assert_eq!(gone.code, 1);
    assert!(gone.out.contains("✗ broker   shop: the broker is out of reach"), "{gone:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_drill_sends_poison_finds_its_letter_and_cleans_up() {
    let redis = Redis::own().await;
    let dir = house(&redis);
    run(dir.path(), &["topology", "apply", "--yes"]).ok();
    let mut command = dlo();
    command.args(["serve", "--log-level", "warn"]).current_dir(dir.path());
    let office = Office::spawn(command, &dir.path().join("dlo-data"));
    let drill = |more: &[&str]| {
        let args = [&["drill", "orders"][..], more].concat();
        Said::new(&office.command(&args).current_dir(dir.path()).output().unwrap())
    };
    let dry = drill(&[]).ok();
    assert!(dry.contains("would send") && dry.contains("orders:dlq"), "{dry}");
    let said = drill(&["--yes"]).ok();
    for step in ["sent to `orders:dlq`", "captured as letter", "owned by payments", "discarded"] {
        assert!(said.contains(step), "{step} in\n{said}");
    }
    let letters = office.dlo(&["letters", "list", "--json"]).json();
    assert_eq!(letters["letters"].as_array().unwrap().len(), 1, "the dry run sent nothing: {letters:#}");
    assert_eq!(letters["letters"][0]["status"], "discarded");
    let report = drill(&["--yes", "--json"]).json();
    assert_eq!(report["ok"], true, "{report:#}");
    // Without a consumer nobody parks what goes into the work queue: the drill says so and fails.
    let lost = drill(&["--yes", "--via", "queue", "--wait", "1s"]);
    assert_eq!(lost.code, 1, "{lost:?}");
    assert!(lost.err.contains("no letter came"), "{lost:?}");
    let unknown =
        Said::new(&office.command(&["drill", "ordres", "--yes"]).current_dir(dir.path()).output().unwrap());
    assert_eq!(unknown.code, 3, "{unknown:?}");
}
