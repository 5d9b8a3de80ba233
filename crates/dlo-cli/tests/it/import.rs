//! Letters out of one office and into another: nothing is lost on the way, and nothing comes twice.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::encode;
use crate::office::{Office, Said};

/// Everything that a broker can carry.
fn strange_letters() -> Vec<Value> {
    let bytes: Vec<u8> = (0..=255).rev().collect();
    vec![
        json!({
            "source": "orders", "queue": "orders", "partition": 17, "offset": 42, "key_base64": encode(&[0, 159, 255]),
            "headers": [["a", "1"], ["a", "2"], ["absent", null], ["empty", ""], {"name": "raw", "value_base64": encode(&bytes)}],
            "content_type": "application/octet-stream", "payload_base64": encode(&bytes), "event_type": "order.placed",
            "event_version": 1, "correlation_id": "req_1", "trace_id": "t", "consumer": "pricing", "consumer_id": "pod-7",
            "attempts": 3, "error_class": "KeyError", "error_message": "pin\n\"560001\"", "error_stack": "at\nat",
            "reason": "validation_error", "received_at": "2026-11-01T12:00:00.123456Z", "first_failed_at": "2026-11-01T12:00:01Z",
            "failed_at": "2026-11-01T12:00:02.000001Z",
            "attempt_history": [{"number": 1, "at": "2026-11-01T12:00:01Z", "verdict": "retry", "delay_ms": 200}],
        }),
        json!({"source": "mail", "message_id": "m-1", "payload": {"z": 1.50, "a": [1, 2, "ü"]}, "failed_at": "2026-11-01T12:00:00Z"}),
        json!({"source": "mail", "payload_base64": "", "failed_at": "2026-11-01T12:00:00Z"}),
    ]
}

/// An export without what an office gives by itself.
fn exported(office: &Office) -> Vec<Value> {
    let text = office.dlo(&["letters", "export"]).ok();
    let mut letters: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    for letter in &mut letters {
        letter.as_object_mut().unwrap().remove("id");
    }
    letters.sort_by_key(Value::to_string);
    letters
}

#[test]
fn an_export_imported_elsewhere_exports_as_the_same_letters() {
    let office = Office::start();
    office.post(&Value::Array(strange_letters()));
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("letters.ndjson");
    let path = file.to_str().unwrap();
    office.dlo(&["letters", "export", "--to", path]).ok();
    let other = Office::start();
    let dry = other.dlo(&["letters", "import", path]).ok();
    assert!(dry.contains("3 letters would be sent") && dry.contains("--yes"), "{dry}");
    assert_eq!(exported(&other), Vec::<Value>::new());
    assert_eq!(
        other.dlo(&["letters", "import", path, "--yes"]).ok(),
        "3 stored, 0 here already, 0 refused\n"
    );
    assert_eq!(exported(&other), exported(&office));
    let body =
        &exported(&other).into_iter().find(|letter| letter["source"] == "orders").unwrap()["payload_base64"];
    assert_eq!(*body, strange_letters()[0]["payload_base64"]);
    // The same file again makes no second letter, not even of those without coordinates.
    assert_eq!(
        other.dlo(&["letters", "import", path, "--yes"]).ok(),
        "0 stored, 3 here already, 0 refused\n"
    );
}

#[test]
fn a_long_import_from_a_pipe_names_the_lines_that_were_refused_and_stores_the_others() {
    let office = Office::start();
    let mut lines: Vec<String> =
        (0..2_500).map(|n| json!({"source": "orders", "offset": n, "payload": n}).to_string()).collect();
    lines[1_200] = "{\"source\": \"orders\"".into();
    lines[2_400] = json!({"source": "orders", "ofset": 1, "payload": 1}).to_string();
    let mut command = office.command(&["letters", "import", "-", "--yes"]);
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(lines.join("\n").as_bytes()).unwrap();
    let said = Said::new(&child.wait_with_output().unwrap());
    assert_eq!(said.code, 1, "{said:?}");
    assert_eq!(said.out, "2,498 stored, 0 here already, 2 refused\n");
    assert!(said.err.contains("line 1201: ") && said.err.contains("line 2401: "), "{said:?}");
    assert!(said.err.contains("ofset"), "{said:?}");
    assert!(office.dlo(&["audit", "verify"]).ok().contains("2,498 letters"));
}
