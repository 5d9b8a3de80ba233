//! `dlo repair` on a running office: preview, apply, list; what is refused, and what stays as it was.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::office::{Office, Said};

const CENTS: &str = ".amount = (.amount * 100 | round)";

fn order(number: u64, payload: &str) -> Value {
    json!({
        "source": "orders", "queue": "orders", "partition": 0, "offset": number, "key": format!("C-{number}"),
        "payload_base64": base64(payload), "content_type": "application/json", "event_type": "order.placed",
        "consumer": "billing", "error_class": "SchemaError", "error_message": "amount is not an integer",
    })
}

fn base64(text: &str) -> String {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.encode(text)
}

/// An office whose orders have to be in cents.
fn office() -> (Office, TempDir) {
    let dir = TempDir::new().unwrap();
    let schema = r#"{"type":"object","properties":{"amount":{"type":"integer","maximum":100000}}}"#;
    std::fs::write(dir.path().join("order.json"), schema).unwrap();
    let config = dir.path().join("dlo.toml");
    std::fs::write(&config, "[[sources]]\nname = \"orders\"\nschema = \"order.json\"\n").unwrap();
    let office = Office::at(&dir.path().join("data"), &["--config", config.to_str().unwrap()]);
    (office, dir)
}

fn refused(said: Said, exit: i32, words: &str) {
    assert!(said.code == exit && said.err.contains(words), "{said:?}");
}

#[test]
fn dollars_are_previewed_as_cents_applied_and_the_original_stays() {
    let (office, _dir) = office();
    let original = "{\"id\": 12345678901234567890123, \"amount\": 19.90, \"rate\": 1.10}\n";
    let id = office.letter(&order(1, original));
    let untouched = office.letter(&order(2, r#"{"amount":700}"#));

    let shown = office.dlo(&["repair", "preview", "class:SchemaError", "--jq", CENTS]).ok();
    assert!(shown.contains("-  \"amount\": 19.90,") && shown.contains("+  \"amount\": 1990,"), "{shown}");
    assert!(shown.contains("changed, fits its schema") && shown.contains("nothing was stored"), "{shown}");
    assert!(!shown.contains("12345678901234567000000"), "every digit is shown: {shown}");

    let only = "if .rate then .amount = (.amount * 100 | round) end";
    let apply = ["repair", "apply", "source:orders", "--jq", only, "--reason", "cents since 2.4"];
    let dry = office.dlo(&apply).ok();
    assert!(dry.contains("1 letter would be repaired") && dry.contains("no difference: 1 letter"), "{dry}");
    assert_eq!(office.dlo(&["repair", "list", &id, "--json"]).json(), json!({"repairs": []}));

    let done = office.dlo(&[&apply[..], &["--yes", "--author", "ada"]].concat()).ok();
    assert!(done.contains("1 letter repaired: cents since 2.4"), "{done}");
    let repairs = office.dlo(&["repair", "list", &id, "--json"]).json();
    let repair = &repairs["repairs"][0];
    assert_eq!((&repair["number"], &repair["active"]), (&json!(1), &json!(true)), "{repairs}");
    assert_eq!((&repair["author"], &repair["expression"]), (&json!("ada"), &json!(only)), "{repairs}");
    assert!(repair["diff"].as_str().unwrap().contains("+  \"amount\": 1990,"), "{repairs}");
    assert_eq!(office.dlo(&["letters", "payload", &id]).ok(), original, "the original is as it was");
    assert_eq!(office.dlo(&["letters", "payload", &untouched]).ok(), r#"{"amount":700}"#);
    let timeline = office.get(&format!("/api/v1/letters/{id}/timeline"));
    assert!(timeline.to_string().contains("repaired"), "{timeline}");
}

#[test]
fn what_does_not_fit_its_schema_is_refused_without_its_values() {
    let (office, _dir) = office();
    let id = office.letter(&order(1, r#"{"amount":19999999}"#));
    let said = office.dlo(&["repair", "preview", &id, "--jq", CENTS]);
    assert!(said.code == 4 && said.out.contains("`/amount`") && said.out.contains("maximum"), "{said:?}");
    assert!(!said.out.contains("19999999"), "{said:?}");
    let apply = ["repair", "apply", &id, "--jq", ".amount = \"x\"", "--reason", "r", "--yes"];
    let said = office.dlo(&apply);
    assert!(said.code == 4 && said.out.contains("integer"), "{said:?}");
}

#[test]
fn a_mistake_in_an_expression_is_shown_at_its_place_and_nothing_but_the_letter_is_seen() {
    let (office, _dir) = office();
    let id = office.letter(&order(1, r#"{"amount":1}"#));
    let preview = |jq: &str| office.dlo(&["repair", "preview", &id, "--jq", jq]);
    refused(preview(".amount = ("), 2, "expected closing parenthesis");
    refused(preview(".a | nosuch"), 2, "\n  .a | nosuch\n       ^");
    refused(preview("$ENV.HOME"), 2, "not available");
    refused(preview("  "), 2, "expression");
    refused(office.dlo(&["repair", "preview", "", "--jq", "."]), 2, "every letter");
    let endless = preview("last(repeat(.))");
    assert!(endless.code == 4 && endless.out.contains("took more than 1 s"), "{endless:?}");
    let same = preview(".").ok();
    assert!(same.contains("unchanged"), "{same}");
}

#[test]
fn one_letter_gets_a_payload_from_a_file_or_a_pipe() {
    let (office, dir) = office();
    let id = office.letter(&order(1, r#"{"amount":1}"#));
    let other = office.letter(&order(2, r#"{"amount":1}"#));
    let file = dir.path().join("edited.json");
    std::fs::write(&file, r#"{"amount": 5 }"#).unwrap();
    let file = file.to_str().unwrap();
    let shown = office.dlo(&["repair", "preview", &id, "--payload", file]).ok();
    assert!(shown.contains("-  \"amount\": 1") && shown.contains("+  \"amount\": 5"), "{shown}");
    let many = office.dlo(&["repair", "preview", &id, &other, "--payload", file]);
    refused(many, 2, "for one letter");

    let mut child = office
        .command(&["repair", "apply", &id, "--payload", "-", "--reason", "typed in again", "--yes"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(b"{\"amount\": 6 }").unwrap();
    Said::new(&child.wait_with_output().unwrap()).ok();
    let repairs = office.dlo(&["repair", "list", &id, "--json"]).json();
    assert_eq!(repairs["repairs"][0]["expression"], Value::Null);
    assert_eq!(repairs["repairs"][0]["payload_size"], 14, "byte for byte as it was given");

    std::fs::write(file, "{\"amount\":").unwrap();
    let said = office.dlo(&["repair", "apply", &id, "--payload", file, "--reason", "r", "--yes"]);
    assert!(said.code == 4 && said.out.contains("the letter holds JSON"), "{said:?}");
}

#[test]
fn letters_that_are_not_open_or_no_json_are_counted_and_left() {
    let (office, _dir) = office();
    let closed = office.letter(&order(1, r#"{"amount":1}"#));
    let bytes = office.letter(&order(2, "\u{0}not json"));
    office.letter(&order(3, r#"{"amount":2}"#));
    office.dlo(&["letters", "discard", &closed, "--reason", "x", "--yes"]).ok();
    let apply =
        ["repair", "apply", "source:orders", "--jq", ".amount += 1", "--reason", "r", "--yes", "--json"];
    let answer = office.dlo(&apply).json();
    for (key, expected) in [("matched", 3), ("repaired", 1), ("skipped", 1), ("failed", 1)] {
        assert_eq!(answer[key], expected, "{answer}");
    }
    assert_eq!(answer["failures"][0]["id"], json!(bytes));
    // Again: laid over the original, so it is the same repair and not the next.
    office.dlo(&apply).json();
    let open = office.dlo(&["letters", "list", "status:open", "--json"]).json();
    let letters = open["letters"].as_array().unwrap();
    let id = letters.iter().find(|letter| letter["offset"] == 3).unwrap()["id"].as_str().unwrap();
    let repairs = office.dlo(&["repair", "list", id, "--json"]).json();
    let repairs = repairs["repairs"].as_array().unwrap();
    assert_eq!(repairs.len(), 2);
    assert!(repairs.iter().all(|repair| repair["diff"].as_str().unwrap().contains("+  \"amount\": 3")));
    assert_eq!((&repairs[0]["active"], &repairs[1]["active"]), (&json!(false), &json!(true)));
}

#[test]
fn answers_fit_their_description() {
    let (office, _dir) = office();
    let id = office.letter(&order(1, r#"{"amount":1.5}"#));
    let document = office.get("/api/v1/openapi.json");
    let post = |path: &str, body: Value| -> Value {
        let request =
            ureq::post(format!("{}{path}", office.address)).header("content-type", "application/json");
        request.send(body.to_string()).unwrap().body_mut().read_json().unwrap()
    };
    let check = |name: &str, value: &Value| {
        let schema =
            json!({"$ref": format!("#/components/schemas/{name}"), "components": document["components"]});
        let validator = jsonschema::validator_for(&schema).unwrap();
        assert!(validator.is_valid(value), "{name}: {value:#}");
    };
    let asked = json!({"ids": [id], "expression": CENTS, "sample": 1});
    check("RepairPreviewAsked", &asked);
    check("RepairPreview", &post("/api/v1/repairs/preview", asked));
    let asked = json!({"query": "source:orders", "expression": CENTS, "reason": "r", "dry_run": false});
    check("RepairAsked", &asked);
    let applied = post("/api/v1/repairs", asked);
    check("RepairApplied", &applied);
    assert_eq!(applied["repaired"], 1, "{applied}");
    let repairs = office.get(&format!("/api/v1/letters/{id}/repairs"));
    check("Repairs", &repairs);
    assert_eq!(repairs["repairs"].as_array().unwrap().len(), 1);
}
