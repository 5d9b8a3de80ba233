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

/// A config whose office listens on a port that nobody else has, with its data beside the file.
fn own(dir: &std::path::Path, name: &str, port: u16) -> std::path::PathBuf {
    let file = dir.join(format!("{name}.toml"));
    let text = format!(
        "[server]\nlisten = \"127.0.0.1:{port}\"\ndata = \"{name}\"\n[[sources]]\nname = \"orders\"\nowner = \"shop\"\n"
    );
    std::fs::write(&file, text).unwrap();
    file
}

fn checked(dir: &std::path::Path, file: &std::path::Path, more: &[&str]) -> Said {
    let mut command = dlo();
    command.arg("check").args(more).arg("--config").arg(file).current_dir(dir);
    Said::new(&command.output().unwrap())
}

#[test]
fn the_office_of_the_config_is_recognised_without_naming_its_address() {
    let dir = tempfile::tempdir().unwrap();
    let file = own(dir.path(), "ours", dlo_testkit::harness::free_port());
    let mut command = dlo();
    command.arg("--config").arg(&file).arg("serve").current_dir(dir.path());
    let office = Office::spawn(command, dir.path());
    let said = checked(dir.path(), &file, &[]);
    assert_eq!(said.code, 0, "{said:?}");
    for line in ["✓ store", "is in use by this office", "✓ port", "✓ office"] {
        assert!(said.out.contains(line), "{line} in {said:?}");
    }
    let mut status = dlo();
    status.arg("status").arg("--config").arg(&file).current_dir(dir.path());
    let said = Said::new(&status.output().unwrap());
    assert!(said.code == 0 && said.out.contains(&office.address), "{said:?}");
}

#[test]
fn a_port_that_another_office_uses_fails_the_check_as_it_fails_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let port = dlo_testkit::harness::free_port();
    let (other, ours) = (own(dir.path(), "other", port), own(dir.path(), "ours", port));
    let mut command = dlo();
    command.arg("--config").arg(&other).arg("serve").current_dir(dir.path());
    let _office = Office::spawn(command, dir.path());
    let said = checked(dir.path(), &ours, &[]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("✗ port") && said.out.contains("another office"), "{said:?}");
}

#[test]
fn a_data_directory_of_an_office_that_cannot_be_found_fails_the_check_as_it_fails_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let file = own(dir.path(), "ours", dlo_testkit::harness::free_port());
    let _office = Office::at(&dir.path().join("ours"), &[]);
    let said = checked(dir.path(), &file, &["--server", "http://127.0.0.1:1"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("✗ store") && said.out.contains("in use by another dlo process"), "{said:?}");
}
