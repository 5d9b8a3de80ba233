//! `dlo check`: it tells what is missing, changes nothing, and works with and without an office.

use crate::office::{Office, Said, dlo};

#[test]
fn before_the_first_start_everything_is_told_and_nothing_is_created() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("dlo.toml"), "[server]\nlisten = \"127.0.0.1:0\"\n").unwrap();
    let mut command = dlo();
    command.args(["check", "--server", "http://127.0.0.1:1"]).current_dir(dir.path());
    let said = Said::new(&command.output().unwrap());
    let report = said.ok();
    for line in
        ["✓ config", "✓ door", "✓ store    dlo-data is not there yet", "✓ port", "! office", "! owners"]
    {
        assert!(report.contains(line), "{line} in\n{report}");
    }
    assert!(!dir.path().join("dlo-data").exists());
}

#[test]
fn a_running_office_is_looked_at() {
    let office = Office::start();
    let dir = tempfile::tempdir().unwrap();
    let text = format!(
        "[server]\nlisten = \"{}\"\ndata = \"{}\"\n[[sources]]\nname = \"orders\"\nowner = \"payments\"\n",
        office.address.trim_start_matches("http://"),
        office.data.display()
    );
    std::fs::write(dir.path().join("dlo.toml"), text).unwrap();
    let said = Said::new(&office.command(&["check", "--json"]).current_dir(dir.path()).output().unwrap());
    let report = said.json();
    assert_eq!(report["ok"], true);
    let states: Vec<&str> =
        report["checks"].as_array().unwrap().iter().map(|check| check["state"].as_str().unwrap()).collect();
    assert!(states.iter().all(|state| *state == "ok"), "{report:#}");
}

#[test]
fn what_is_missing_fails_the_check_with_directions() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(
        dir.path().join("dlo.toml"),
        "[server]\nlisten = \"0.0.0.0:0\"\ndata = \"/proc/no/such\"\n",
    )
    .unwrap();
    let mut command = dlo();
    command.args(["check", "--server", "http://127.0.0.1:1"]).current_dir(dir.path());
    let said = Said::new(&command.output().unwrap());
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("✗ door") && said.out.contains("DLO_TOKEN"), "{said:?}");
    assert!(said.out.contains("✗ store") && said.out.contains("`server.data`"), "{said:?}");
    std::fs::write(dir.path().join("dlo.toml"), "[sever]\n").unwrap();
    let said = Said::new(&dlo().arg("check").current_dir(dir.path()).output().unwrap());
    assert_eq!(said.code, 1);
    assert!(said.out.contains("✗ config   dlo.toml, line 1: `sever` is not a setting"), "{said:?}");
}
