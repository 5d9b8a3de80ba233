//! Each client command against a real office: what people read, and what machines read.

use serde_json::{Value, json};

use crate::office::Office;

fn order(number: u64) -> Value {
    json!({
        "source": "orders", "queue": "orders", "partition": 0, "offset": number, "key": format!("C-{number}"),
        "headers": [["x-tenant", "acme"]], "payload": {"order": number}, "event_type": "order.placed",
        "consumer": "pricing", "attempts": 3, "error_class": "KeyError",
        "error_message": format!("pin {number} not in tax table"), "reason": "processing_error",
    })
}

fn office_with(letters: u64) -> (Office, Vec<String>) {
    let office = Office::start();
    let ids = (0..letters).map(|number| office.letter(&order(number))).collect();
    (office, ids)
}

#[test]
fn letters_are_listed_for_people_and_for_machines() {
    let (office, ids) = office_with(3);
    let table = office.dlo(&["letters", "list", "source:orders"]).ok();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(lines[0].starts_with("ID ") && lines[1].contains("KeyError: pin"), "{table}");
    assert!(!table.contains('\u{1b}'), "no colour where nobody looks");
    let json = office.dlo(&["letters", "list", "--json"]).json();
    assert_eq!(json["letters"].as_array().unwrap().len(), 3);
    // The machine's output is the API's own.
    let first = office.dlo(&["letters", "list", "--json", "--limit", "1"]).json();
    assert_eq!(first["letters"].as_array().unwrap().len(), 1);
    let cursor = first["next_cursor"].as_str().unwrap();
    let rest = office.dlo(&["letters", "list", "--json", "--cursor", cursor]).json();
    assert_eq!(rest["letters"].as_array().unwrap().len(), 2);
    let none = office.dlo(&["letters", "list", "source:other"]);
    assert_eq!((none.code, none.out.as_str(), none.err.as_str()), (0, "", "no letter matches\n"));
    assert_eq!(
        office.dlo(&["letters", "list", &format!("id:{}", ids[0]), "--json"]).json()["letters"][0]["id"],
        ids[0].as_str()
    );
}

#[test]
fn one_letter_is_shown_whole() {
    let (office, ids) = office_with(1);
    let text = office.dlo(&["letters", "show", &ids[0]]).ok();
    for part in [
        "What failed",
        "KeyError",
        "pin 0 not in tax table",
        "Who failed on it",
        "pricing",
        "x-tenant: acme",
        "Timeline",
        "captured",
    ] {
        assert!(text.contains(part), "{part} in\n{text}");
    }
    let json = office.dlo(&["letters", "show", &ids[0], "--json"]).json();
    assert_eq!(json["timeline"][0]["what"], "captured");
}

#[test]
fn text_of_strangers_cannot_drive_the_terminal() {
    let office = Office::start();
    let id = office.letter(&json!({"source": "orders", "payload": 1, "error_message": "\u{1b}[2Jgone", "error_class": "\u{1b}]0;title\u{7}"}));
    for args in [&["letters", "list"][..], &["letters", "show", &id], &["groups", "list"]] {
        assert!(!office.dlo(args).ok().contains('\u{1b}'), "{args:?}");
    }
}

#[test]
fn a_payload_comes_byte_for_byte_and_its_reading_is_audited() {
    let office = Office::start();
    let bytes: Vec<u8> = (0..=255).collect();
    let id = office.letter(&json!({"source": "orders", "payload_base64": encode(&bytes)}));
    let output = office.command(&["letters", "payload", &id, "--author", "ann"]).output().unwrap();
    assert_eq!(output.stdout, bytes);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("body.bin");
    office.dlo(&["letters", "payload", &id, "--to", file.to_str().unwrap()]).ok();
    assert_eq!(std::fs::read(&file).unwrap(), bytes);
    assert_eq!(office.dlo(&["letters", "payload", &id, "--to", file.to_str().unwrap()]).code, 4);
    let audit = office.dlo(&["audit", "list", "--json"]).json();
    let reads: Vec<&Value> =
        audit["entries"].as_array().unwrap().iter().filter(|entry| entry["what"] == "payload_read").collect();
    assert_eq!(reads.len(), 2, "{audit:#}");
    assert_eq!(reads[1]["author"], "ann");
}

#[test]
fn a_decision_is_a_dry_run_until_yes_and_keeps_its_reason() {
    let (office, ids) = office_with(3);
    let dry = office.dlo(&["letters", "discard", "source:orders", "--reason", "test orders"]).ok();
    assert!(dry.contains("3 letters would be discarded: test orders") && dry.contains("--yes"), "{dry}");
    let open = || {
        office.dlo(&["letters", "list", "status:open", "--json"]).json()["letters"].as_array().unwrap().len()
    };
    assert_eq!(open(), 3);
    let done = office
        .dlo(&["letters", "discard", &ids[0], "--reason", "test order", "--author", "ann", "--yes"])
        .ok();
    assert_eq!(done, "1 letter discarded\n");
    let timeline = office.dlo(&["letters", "show", &ids[0], "--json"]).json()["timeline"].clone();
    assert_eq!((&timeline[1]["reason"], &timeline[1]["author"]), (&json!("test order"), &json!("ann")));
    // The same letter again: a guard says no.
    let again = office.dlo(&["letters", "discard", &ids[0], "--reason", "x", "--yes"]);
    assert_eq!(again.code, 4, "{again:?}");
    // A query decides on what is open and says what it left.
    let rest = office
        .dlo(&[
            "letters",
            "compensate",
            "source:orders",
            "--reason",
            "refunded",
            "--reference",
            "R-1",
            "--yes",
        ])
        .ok();
    assert!(
        rest.contains("2 letters compensated")
            && rest.contains("left as they are, being discarded: 1 letter"),
        "{rest}"
    );
    assert_eq!(open(), 0);
    assert_eq!(office.dlo(&["letters", "compensate", &ids[1], "--reason", "x"]).code, 2);
}

#[test]
fn groups_are_listed_with_their_weight_and_shown_with_their_letters() {
    let (office, _) = office_with(3);
    office
        .letter(&json!({"source": "mail", "payload": 1, "error_class": "Timeout", "error_message": "smtp"}));
    let table = office.dlo(&["groups", "list"]).ok();
    assert_eq!(table.lines().count(), 3, "{table}");
    let json = office
        .dlo(&[
            "groups",
            "list",
            "--source",
            "orders",
            "--class",
            "KeyError",
            "--holding",
            "open",
            "--owner",
            "none",
            "--json",
        ])
        .json();
    let group = &json["groups"][0];
    assert_eq!((&group["open"], &group["total"]), (&json!(3), &json!(3)));
    let shown = office.dlo(&["groups", "show", group["id"].as_str().unwrap()]).ok();
    assert!(shown.contains("KeyError") && shown.contains("3 of 3") && shown.lines().count() > 15, "{shown}");
}

#[test]
fn the_books_balance() {
    let (office, _) = office_with(2);
    let text = office.dlo(&["audit", "verify"]).ok();
    assert!(text.contains("✓ conservation holds for 2 letters"), "{text}");
    assert_eq!(office.dlo(&["audit", "verify", "--json"]).json()["problems"], json!([]));
    assert!(office.dlo(&["audit", "list"]).ok().contains("captured"));
}

#[test]
fn rules_are_tried_on_history_and_on_one_failure() {
    let (office, _) = office_with(3);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.toml");
    std::fs::write(
        &file,
        "[[rules.classify]]\nname = \"tax\"\nwhen = { class = \"KeyError\" }\nverdict = \"retry\"\n",
    )
    .unwrap();
    let rules = file.to_str().unwrap();
    let refused = office.dlo(&["rules", "test", rules]);
    assert_eq!(refused.code, 2, "a file in the place of a query: {refused:?}");
    assert!(refused.err.contains("write --rules"), "{refused:?}");
    let text = office.dlo(&["rules", "test", "--rules", rules]).ok();
    assert!(text.contains("with these rules 3 of 3 letters would have been decided otherwise"), "{text}");
    assert!(text.contains("dead_letter") && text.contains("retry") && text.contains("tax"), "{text}");
    // One failure needs no office.
    let one =
        crate::office::run(&["rules", "test", "--rules", rules, "--class", "KeyError", "--json"]).json();
    assert_eq!((&one["verdict"], &one["rule"]), (&json!("retry"), &json!("tax")));
    let known = crate::office::run(&["rules", "test", "--http-status", "503"]).ok();
    assert!(known.starts_with("retry by builtin:"), "{known}");
}

#[test]
fn a_backup_taken_while_it_runs_restores_the_whole_office() {
    let (office, ids) = office_with(3);
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("office.backup");
    let path = file.to_str().unwrap();
    office.dlo(&["backup", "--to", path]).ok();
    assert_eq!(office.dlo(&["backup", "--to", path]).code, 4, "a backup is not overwritten");
    let other = Office::start();
    other.letter(&json!({"source": "gone", "payload": 1}));
    let dry = other.dlo(&["restore", path]).ok();
    assert!(dry.contains("would replace the 1 letter of") && dry.contains("--yes"), "{dry}");
    assert_eq!(other.dlo(&["restore", path, "--yes"]).code, 2, "a reason is demanded");
    other.dlo(&["restore", path, "--yes", "--reason", "moved"]).ok();
    let listed = other.dlo(&["letters", "list", "--json"]).json();
    let mut found: Vec<&str> =
        listed["letters"].as_array().unwrap().iter().map(|letter| letter["id"].as_str().unwrap()).collect();
    found.sort_unstable();
    let mut expected: Vec<&str> = ids.iter().map(String::as_str).collect();
    expected.sort_unstable();
    assert_eq!(found, expected);
    other.dlo(&["audit", "verify"]).ok();
    std::fs::write(dir.path().join("no.backup"), "not a backup").unwrap();
    let refused =
        other.dlo(&["restore", dir.path().join("no.backup").to_str().unwrap(), "--yes", "--reason", "x"]);
    assert_ne!(refused.code, 0);
    assert_eq!(other.dlo(&["letters", "list", "--json"]).json()["letters"].as_array().unwrap().len(), 3);
}

/// Base64, small enough to have here.
pub(crate) fn encode(bytes: &[u8]) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(bytes)
}
