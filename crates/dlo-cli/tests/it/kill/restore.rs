//! The office is killed at random instants while a backup is restored. The next start finds the old office or the new one, whole.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use rand::RngExt;
use serde_json::{Value, json};

use crate::office::Office;

fn store(office: &Office, source: &str, count: u64) {
    for first in (0..count).step_by(500) {
        let letters = (first..(first + 500).min(count)).map(|offset| {
            json!({
                "source": source, "queue": source, "partition": 0, "offset": offset, "error_class": "KeyError",
                "error_message": format!("pin {offset} not found"), "payload": {"order": offset, "text": "fox ".repeat(200)},
            })
        });
        office.post(&Value::Array(letters.collect()));
    }
}

/// The sources with their number of letters, and whether the restore is in the audit log.
fn found(office: &Office) -> (Vec<(String, u64)>, bool) {
    office.dlo(&["audit", "verify"]).ok();
    let stats = office.get("/api/v1/stats");
    let source =
        |entry: &Value| (entry["source"].as_str().unwrap().to_string(), entry["captured"].as_u64().unwrap());
    let sources = stats["sources"].as_array().unwrap().iter().map(source).collect();
    (sources, office.get("/api/v1/audit").to_string().contains("\"restored\""))
}

fn left_of_restores(data: &Path) -> usize {
    let names = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().file_name());
    names.filter(|name| name.to_string_lossy().starts_with("restoring-")).count()
}

#[test]
fn a_restore_that_is_killed_leaves_the_old_office_or_the_new_one_whole() {
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("new.backup"));
    let path = file.to_str().unwrap();
    let other = Office::start();
    store(&other, "new", 3_000);
    other.dlo(&["backup", "--to", path]).ok();
    let (new, _) = found(&other);
    let office = Office::at(&data, &[]);
    store(&office, "old", 1_000);
    let (old, _) = found(&office);
    let old_file = dir.path().join("old.backup");
    office.dlo(&["backup", "--to", old_file.to_str().unwrap()]).ok();
    // How long a whole restore takes here: a kill comes within it.
    let begun = std::time::Instant::now();
    office.dlo(&["restore", old_file.to_str().unwrap(), "--yes", "--reason", "drill"]).ok();
    let whole = begun.elapsed() * 2;
    drop(office);
    let mut outcomes = BTreeSet::new();
    for round in 0..super::rounds() {
        let office = Office::at(&data, &[]);
        let mut client = office.command(&["restore", path, "--yes", "--reason", "drill"]);
        let mut client =
            client.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null()).spawn().unwrap();
        std::thread::sleep(rand::rng().random_range(Duration::ZERO..whole));
        office.kill();
        let answered = client.wait().unwrap().success();
        let office = Office::at(&data, &[]);
        assert_eq!(left_of_restores(&data), 0, "round {round}");
        let (sources, audited) = found(&office);
        assert!(sources == old || sources == new, "round {round}: {sources:?}");
        assert!(!answered || sources == new, "round {round}: the restore was answered and is not there");
        assert!(audited, "round {round}: a restore is in the audit log");
        outcomes.insert(sources == new);
        office.dlo(&["restore", old_file.to_str().unwrap(), "--yes", "--reason", "again"]).ok();
        drop(office);
    }
    println!("{} rounds, new offices: {outcomes:?}", super::rounds());
}
