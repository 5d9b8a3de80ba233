//! `dlo serve`: how it starts, whom it lets in, how it stops.

use std::net::TcpListener;
use std::time::Duration;

use serde_json::json;

use crate::office::{Office, Said, dlo, run};

#[test]
fn beyond_this_machine_a_token_is_demanded_first() {
    let said = run(&["serve", "--listen", "0.0.0.0:0", "--data", "no-such-data"]);
    assert_eq!(said.code, 4, "{said:?}");
    assert!(said.err.contains("reachable from other machines") && said.err.contains("DLO_TOKEN"), "{said:?}");
    let weak = run(&["serve", "--token", "hunter2"]);
    assert_eq!(weak.code, 2);
    assert!(!weak.err.contains("hunter2"), "{weak:?}");
}

#[test]
fn with_a_token_nobody_gets_in_without_it() {
    let dir = tempfile::tempdir().unwrap();
    let token = "0123456789abcdef0123456789abcdef";
    let office = Office::at(&dir.path().join("data"), &["--token", token]);
    let without = office.dlo(&["letters", "list"]);
    assert_eq!(without.code, 4, "{without:?}");
    assert!(without.err.contains("--token or DLO_TOKEN"), "{without:?}");
    let wrong = office.dlo(&["letters", "list", "--token", "not-the-token-of-the-office"]);
    assert_eq!(wrong.code, 4, "{wrong:?}");
    let with = office.command(&["letters", "list", "--json"]).env("DLO_TOKEN", token).output().unwrap();
    assert_eq!(Said::new(&with).json()["letters"], json!([]));
}

#[test]
fn a_second_office_on_the_same_data_is_refused_with_the_way_out() {
    let first = Office::start();
    let second = Said::new(
        &dlo().args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(&first.data).output().unwrap(),
    );
    assert_eq!(second.code, 4, "{second:?}");
    assert!(second.err.contains("in use by another dlo process"), "{second:?}");
    assert!(second.err.contains("server.database"), "{second:?}");
    first.letter(&json!({"source": "orders", "payload": 1}));
}

#[test]
fn a_port_that_is_taken_is_named_with_the_way_out() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let dir = tempfile::tempdir().unwrap();
    let said =
        Said::new(&dlo().args(["serve", "--listen", &address, "--data"]).arg(dir.path()).output().unwrap());
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.err.contains(&address) && said.err.contains("--listen"), "{said:?}");
}

#[test]
fn a_signal_stops_the_office_and_what_was_answered_is_there_after_a_restart() {
    for signal in ["-TERM", "-INT"] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let office = Office::at(&data, &[]);
        let id = office.letter(&json!({"source": "orders", "payload": {"order": 1}}));
        office.signal(signal);
        let (status, log) = office.ended();
        assert!(status.success(), "{signal}: {status}: {log}");
        let again = Office::at(&data, &[]);
        assert_eq!(again.dlo(&["letters", "show", &id, "--json"]).json()["id"], id.as_str());
    }
}

#[test]
fn a_request_in_flight_is_finished_and_a_second_signal_does_not_wait_for_it() {
    use std::io::Write;
    let office = Office::start();
    // A body that never ends keeps its request in flight.
    let mut slow = std::net::TcpStream::connect(office.address.trim_start_matches("http://")).unwrap();
    let head = "POST /api/v1/letters HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\ncontent-length: 99\r\n\r\n{";
    slow.write_all(head.as_bytes()).unwrap();
    // Answered behind it on another connection: the office has seen the first.
    office.dlo(&["letters", "list"]).ok();
    office.signal("-TERM");
    // It has heard the first signal when it takes no new guests; two at once would be one.
    let until = std::time::Instant::now() + Duration::from_secs(60);
    while std::net::TcpStream::connect(office.address.trim_start_matches("http://")).is_ok() {
        assert!(std::time::Instant::now() < until, "the office goes on taking requests");
        std::thread::sleep(Duration::from_millis(20));
    }
    office.signal("-TERM");
    let begun = std::time::Instant::now();
    let (status, _) = office.ended();
    assert_eq!(status.code(), Some(1));
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn each_stored_letter_is_one_json_line_in_the_log_without_its_payload() {
    let dir = tempfile::tempdir().unwrap();
    let office = Office::at(&dir.path().join("data"), &["--log-format", "json"]);
    let letter =
        json!({"source": "orders", "payload": {"card": "4111-secret"}, "error_message": "secret text"});
    let id = office.letter(&letter);
    office.signal("-TERM");
    let (_, log) = office.ended();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("message.dead_lettered")).collect();
    assert_eq!(lines.len(), 1, "{log}");
    let line: serde_json::Value = serde_json::from_str(lines[0]).unwrap();
    assert!(line.to_string().contains(&id) && line["source"] == "orders", "{line}");
    assert!(!log.contains("secret"), "{log}");
}

#[test]
fn owners_of_the_config_own_the_letters() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dlo.toml");
    std::fs::write(&file, "[[sources]]\nname = \"orders\"\nowner = \"${TEAM:-payments}\"\n").unwrap();
    let office = Office::at(&dir.path().join("data"), &["--config", file.to_str().unwrap()]);
    let id = office.letter(&json!({"source": "orders", "payload": 1}));
    assert_eq!(office.dlo(&["letters", "show", &id, "--json"]).json()["owner"], "payments");
}

#[test]
fn on_sighup_owners_and_redaction_are_read_anew_and_a_wrong_file_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dlo.toml");
    std::fs::write(&file, "[[sources]]\nname = \"orders\"\nowner = \"payments\"\n").unwrap();
    let office = Office::at(&dir.path().join("data"), &["--config", file.to_str().unwrap()]);
    let id = office.letter(&json!({"source": "orders", "payload": {"card": "4111"}}));
    let owner = || office.dlo(&["letters", "show", &id, "--json"]).json()["owner"].clone();
    assert_eq!(owner(), "payments");
    let text = "[[sources]]\nname = \"orders\"\nowner = \"tax\"\n[redact]\nfields = [\"card\"]\n";
    std::fs::write(&file, text).unwrap();
    office.signal("-HUP");
    let until = std::time::Instant::now() + Duration::from_secs(30);
    while owner() != "tax" {
        assert!(std::time::Instant::now() < until, "the rules were not taken up");
    }
    assert!(!office.dlo(&["letters", "payload", &id]).ok().contains("4111"));
    std::fs::write(&file, "[[sources]]\nname = \"orders\"\nowenr = \"crm\"\n").unwrap();
    office.signal("-HUP");
    let next = office.letter(&json!({"source": "orders", "payload": 2}));
    assert_eq!(office.dlo(&["letters", "show", &next, "--json"]).json()["owner"], "tax");
    office.signal("-TERM");
    let (status, log) = office.ended();
    assert!(status.success() && log.contains("did you mean `owner`?"), "{log}");
}
