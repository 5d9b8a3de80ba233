//! Repairs work on the real values, and nothing that is shown of them depends on a masked one.

use serde_json::{Value, json};

use super::plant::{BEARER, CARD, ask, leak, letter, office, without_rules};
use crate::office::Office;

const PAYLOAD: &str =
    r#"{"id":"O-1","n":1,"card":"4539578763621486","vault":{"pin":4711},"note":"for SECRET-note"}"#;

fn preview(office: &Office, id: &str, expression: &str) -> Value {
    let asked = json!({"ids": [id], "expression": expression});
    let (status, text) = ask(office, "POST", "/api/v1/repairs/preview", Some(&asked));
    assert_eq!(status, 200, "{expression}: {text}");
    // The expression itself may name a guess; what comes back must not.
    assert_eq!(leak(&text), None, "{expression}: {text}");
    let mut answer: Value = serde_json::from_str(&text).unwrap();
    answer["letters"][0].take()
}

/// Expressions that carry a masked value, or a part of it, to where nothing is masked.
const LEAKS: [&str; 18] = [
    ".leak = .card",
    "set_header(\"x\"; .card)",
    "set_key(.card)",
    ".[.card] = 1",
    ".leak = (.card | @base64)",
    ".leak = (.card | explode)",
    ".leak = (.card | length)",
    ".leak = (.card | tonumber)",
    ".leak = (.card | split(\"\") | reverse | join(\"-\"))",
    ".leak = .card[0:8]",
    ".leak = $headers.authorization",
    ".leak = ($headers | tojson | @base64)",
    ".leak = $key",
    ".leak = ($letter | tojson | @base64)",
    ".leak = .vault",
    ".leak = (.vault | keys)",
    ".leak = (.vault.pin + 1)",
    "tojson | @base64",
];

#[test]
fn a_preview_shows_nothing_that_stems_from_a_masked_value() {
    let (office, _dir) = office();
    let id = office.letter(&letter(1, PAYLOAD));
    for expression in LEAKS {
        let shown = preview(&office, &id, expression);
        assert_eq!(shown["outcome"], "changed", "{expression}: {shown}");
        let diff = shown["diff"].as_str().unwrap();
        assert!(diff.contains("***"), "{expression}: {shown}");
        for part in ["16", "17", "4711", "4712", "pin"] {
            let added = diff.lines().filter(|line| line.starts_with('+')).any(|line| line.contains(part));
            assert!(!added, "{expression} shows {part}: {diff}");
        }
    }
    let shown = preview(&office, &id, ".n = 2 | .copy = .id");
    let diff = shown["diff"].as_str().unwrap();
    assert!(diff.contains("+  \"n\": 2") && diff.contains("+  \"copy\": \"O-1\""), "{diff}");
    assert!(!diff.contains("-  \"card\"") && !diff.contains("-  \"vault\""), "only what changes: {diff}");
    println!("{} expressions showed no part of a masked value", LEAKS.len());
}

#[test]
fn a_decision_by_a_masked_value_tells_no_bit_of_it() {
    let (office, _dir) = office();
    let id = office.letter(&letter(1, PAYLOAD));
    let other = office.letter(&letter(2, &PAYLOAD.replace(CARD, "5105105105105100").replace("4711", "9999")));
    let questions = [
        "if (.card | startswith(\"4\")) then .yes = 1 else . end",
        "if (.card | startswith(\"4539\")) then error(\"no\") else . end",
        "if .card == \"4539578763621486\" then .n = 2 else .n = 3 end",
        "if .vault.pin > 5000 then error(\"no\") else .n = 2 end",
        ".card = \"4539578763621486\"",
        ".vault.pin = 4711",
        ".n = (.card | .[0:1] | tonumber)",
        "if ($key | test(\"key\")) then error(\"no\") else . end",
    ];
    for expression in questions {
        let mut shown = [&id, &other].map(|id| preview(&office, id, expression));
        shown.iter_mut().for_each(|one| drop(one["id"].take()));
        assert_eq!(shown[0], shown[1], "{expression} tells two letters apart by a masked value");
        let dry = [&id, &other].map(|id| {
            let asked = json!({"ids": [id], "expression": expression, "reason": "a look"});
            ask(&office, "POST", "/api/v1/repairs", Some(&asked)).1.replace(id.as_str(), "")
        });
        assert_eq!(dry[0], dry[1], "{expression}: a dry run tells two letters apart");
    }
    for payload in [PAYLOAD.to_owned(), PAYLOAD.replace(CARD, "1")] {
        let asked = json!({"ids": [id], "payload": payload});
        let (_, text) = ask(&office, "POST", "/api/v1/repairs/preview", Some(&asked));
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["letters"][0]["outcome"], "changed", "a payload that is guessed: {text}");
    }
    let shown = json!({"ids": [id], "payload": PAYLOAD.replace(CARD, "***")});
    let (_, text) = ask(&office, "POST", "/api/v1/repairs/preview", Some(&shown));
    assert!(text.contains("would replace it"), "{text}");
    println!("{} questions, two cards, no difference", questions.len());
}

#[test]
fn a_repair_works_on_the_real_value_and_is_listed_without_it() {
    let (office, dir) = office();
    let id = office.letter(&letter(1, PAYLOAD));
    let repairs = [".leak = .card | .vault.pin |= tostring", "set_header(\"x\"; $headers.authorization)"];
    for expression in repairs {
        let asked = json!({"ids": [id], "expression": expression, "reason": "move it", "dry_run": false});
        let (_, text) = ask(&office, "POST", "/api/v1/repairs", Some(&asked));
        let answer: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(answer["repaired"], 1, "{expression}: {text}");
    }
    let (_, listed) = ask(&office, "GET", &format!("/api/v1/letters/{id}/repairs"), None);
    assert_eq!(leak(&listed), None, "{listed}");
    let answer: Value = serde_json::from_str(&listed).unwrap();
    let first = &answer["repairs"].as_array().unwrap().iter().find(|one| one["number"] == 1).unwrap().clone();
    assert!(first["diff"].as_str().unwrap().contains("+  \"leak\": \"***\""), "{first}");
    assert_eq!(first["payload_size"], Value::Null, "the size would tell its length");
    let (_, page) = ask(&office, "GET", &format!("/letters/{id}?payload=show"), None);
    assert_eq!(leak(&page), None, "{page}");
    office.end();
    let unmasked = without_rules(&dir);
    let (_, stored) = ask(&unmasked, "GET", &format!("/api/v1/letters/{id}/repairs"), None);
    assert!(stored.contains(&format!("\\\"leak\\\": \\\"{CARD}\\\"")), "{stored}");
    assert!(stored.contains("\\\"pin\\\": \\\"4711\\\"") && stored.contains(BEARER), "{stored}");
}
