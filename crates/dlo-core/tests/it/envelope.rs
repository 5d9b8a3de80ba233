//! Our headers, version 1, as files: what others have written and must be able to read for ever.
//!
//! `<case>.json` holds headers, `<case>.expected.json` what they mean. Files are added to, never edited: a change that
//! needs an edit is a new version of the headers.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use dlo_core::envelope::{Envelope, decode, decode_hop, encode, replay_mark, strip_for_replay};
use dlo_core::message::{Headers, Message};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/envelope/v1")
}

fn read(path: &Path) -> Value {
    let text = std::fs::read_to_string(path).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|cause| panic!("{}: {cause}", path.display()))
}

/// Headers by the name of their case.
fn cases() -> BTreeMap<String, Headers> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let inputs = files.filter(|path| !path.to_string_lossy().ends_with(".expected.json"));
    inputs
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), headers(&read(&path))))
        .collect()
}

/// `[["name", "text"], ["name", null], ["name", [255, 0]]]`
fn headers(written: &Value) -> Headers {
    let mut headers = Headers::new();
    for pair in written.as_array().unwrap() {
        let value = match &pair[1] {
            Value::Null => None,
            Value::String(text) => Some(Bytes::from(text.clone())),
            bytes => Some(Bytes::from(serde_json::from_value::<Vec<u8>>(bytes.clone()).unwrap())),
        };
        headers.push(pair[0].as_str().unwrap(), value);
    }
    headers
}

fn meaning(headers: &Headers) -> Value {
    let mut replayed = headers.clone();
    strip_for_replay(&mut replayed);
    let left: Vec<&str> = replayed.iter().map(|header| header.name.as_str()).collect();
    let mut meaning = json!({
        "death": decode(headers),
        "hop": decode_hop(headers),
        "replay": replay_mark(headers),
        "left_for_replay": left,
    });
    drop_absent(&mut meaning);
    meaning
}

/// What is absent is left out, so that a field that is added later changes no file.
fn drop_absent(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(drop_absent);
            fields.retain(|_, field| {
                !matches!(field, Value::Null) && *field != json!([]) && *field != json!({})
            });
        }
        Value::Array(items) => items.iter_mut().for_each(drop_absent),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[test]
fn headers_of_version_one_mean_what_they_always_meant() {
    let cases = cases();
    assert!(cases.len() >= 8, "{}", cases.len());
    for (name, headers) in &cases {
        let expected = read(&folder().join(format!("{name}.expected.json")));
        let found = meaning(headers);
        assert_eq!(found, expected, "{name}, found {found:#}");
    }
}

#[test]
fn what_we_write_is_byte_for_byte_what_the_files_hold() {
    for name in ["full", "minimal", "truncated", "discarded"] {
        let written = headers(&read(&folder().join(format!("{name}.json"))));
        let story: Envelope = decode(&written).unwrap();
        let mut original = Message { headers: written.clone(), ..Message::default() };
        strip_for_replay(&mut original.headers);
        assert_eq!(encode(&original, &story, 1 << 20).unwrap().headers, written, "{name}");
    }
}
