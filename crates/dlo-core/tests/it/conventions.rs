//! Every convention by example: `golden/conventions/<id>.json` holds messages as they were found and the reading of each.
//!
//! A header's value is a text, `{"hex": …}` for bytes, `{"json": …}` for what an adapter renders as JSON, or null. Of the
//! expected reading, what is absent must be absent. `DLO_BLESS=1` writes the readings down, to be looked at before a commit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use dlo_core::conventions::{Found, Mapper, ids, read_with};
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use serde_json::{Map, Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conventions")
}

fn files() -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn bytes(value: &Value) -> Bytes {
    match value {
        Value::String(text) => Bytes::from(text.clone()),
        Value::Object(map) if map.contains_key("hex") => {
            let digits: String = map["hex"].as_str().unwrap().split_whitespace().collect();
            (0..digits.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap())
                .collect()
        }
        Value::Object(map) => Bytes::from(map["json"].to_string()),
        other => panic!("neither text nor bytes: {other}"),
    }
}

pub(crate) fn message(value: &Value) -> Message {
    let mut headers = Headers::new();
    for pair in value["headers"].as_array().unwrap_or(&Vec::new()) {
        let value = (!pair[1].is_null()).then(|| bytes(&pair[1]));
        headers.push(pair[0].as_str().unwrap(), value);
    }
    let part = |name: &str| (!value[name].is_null()).then(|| Payload(bytes(&value[name])));
    Message { key: part("key"), headers, payload: part("payload").unwrap_or_default() }
}

/// The reading without what is absent, and with what was unwrapped.
fn shown(case: &Value) -> Value {
    let found = Found {
        broker: case["found"]["broker"].as_str().unwrap().parse::<BrokerKind>().unwrap(),
        queue: case["found"]["queue"].as_str().unwrap(),
    };
    let mapper: Mapper = match &case["mapper"] {
        Value::Null => Mapper::default(),
        given => serde_json::from_value(given.clone()).unwrap(),
    };
    let reading = read_with(&message(&case["message"]), found, &mapper);
    let mut all = serde_json::to_value(&reading).unwrap().as_object().unwrap().clone();
    if let Some(inner) = reading.unwrapped {
        let text = |payload: &Payload| String::from_utf8_lossy(&payload.0).into_owned();
        let names: Vec<&str> = inner.headers.iter().map(|header| header.name.as_str()).collect();
        let payload = text(&inner.payload);
        all.insert(
            "unwrapped".into(),
            json!({"key": inner.key.as_ref().map(text), "payload": payload, "headers": names}),
        );
    }
    bare(Value::Object(all))
}

/// Without nulls, empty lists, `false`, zero and the whole that is held.
fn bare(value: Value) -> Value {
    let Value::Object(map) = value else { return value };
    let says = |value: &Value| {
        !(value.is_null() || *value == json!([]) || *value == json!(false) || *value == json!("whole"))
    };
    let kept: Map<String, Value> = map
        .into_iter()
        .filter(|(name, value)| says(value) && !(name == "left_out" && *value == json!(0)))
        .map(|(name, value)| (name, bare(value)))
        .collect();
    Value::Object(kept)
}

#[test]
fn every_golden_letter_is_read_as_it_was_meant() {
    let bless = std::env::var_os("DLO_BLESS").is_some();
    for file in files() {
        let mut cases: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for case in &mut cases {
            let name = format!("{}: {}", file.display(), case["name"]);
            assert!(case["from"].is_string(), "{name}: say where the example is from");
            let reading = shown(case);
            if bless {
                case["expected"] = reading;
            } else {
                assert_eq!(reading, case["expected"], "{name}");
            }
        }
        if bless {
            std::fs::write(&file, serde_json::to_string_pretty(&cases).unwrap() + "\n").unwrap();
        }
    }
}

#[test]
fn every_convention_has_a_golden_letter_of_its_own() {
    let mut seen = BTreeSet::new();
    for file in files() {
        let id = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let named = |case: &Value| {
            case["expected"]["conventions"].as_array().is_some_and(|all| all.contains(&json!(id)))
        };
        if cases.iter().any(named) {
            seen.insert(id);
        }
    }
    let missing: Vec<&str> = ids().filter(|id| !seen.contains(*id)).collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn a_replay_takes_the_story_off_every_golden_letter_and_keeps_what_is_business() {
    for file in files() {
        let id = file.file_stem().unwrap().to_str().unwrap().to_owned();
        // Names that only a user knows, and names that are the task or the message itself, cannot be told from business.
        if ["custom.json", "celery", "redis"].contains(&id.as_str()) {
            continue;
        }
        let cases: Vec<Value> = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        for case in cases.iter().filter(|case| case["mapper"].is_null()) {
            let mut message = message(&case["message"]);
            message.headers.push_text("tenant", "acme");
            message.headers.push_text("x-tenant", "acme");
            dlo_core::envelope::strip_for_replay(&mut message.headers);
            message.payload = Payload::default();
            message.key = None;
            let rest =
                dlo_core::conventions::read(&message, Found { broker: BrokerKind::Kafka, queue: "orders" });
            assert_eq!(rest.conventions, Vec::<&str>::new(), "{id}: {}", case["name"]);
            assert_eq!(message.headers.text("tenant"), Some("acme"));
            assert_eq!(message.headers.text("x-tenant"), Some("acme"));
        }
    }
}
