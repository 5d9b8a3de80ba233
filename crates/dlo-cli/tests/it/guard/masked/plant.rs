//! An office with masking rules, and letters in which every field holds a secret of its own name.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::office::{Office, dlo};

/// A card number with a valid check digit that occurs nowhere else.
pub(super) const CARD: &str = "4539578763621486";
pub(super) const BEARER: &str = "Bearer abcdefghij0123456789";
/// What every secret text begins with.
pub(super) const MARK: &str = "SECRET-";

const CONFIG: &str = r#"
[redact]
fields = ["card", "vault"]
headers = ["authorization"]
patterns = ["SECRET-[0-9a-z_]+"]
detect = ["card"]

[brokers.shop]
kind = "memory"

[[sources]]
name = "orders"
broker = "shop"
queue = "orders"
dlq = "orders.dlq"
replay = { pace = "max", window = "1s", canary = 0, ramp = 1 }
"#;

/// The office, and its directory.
pub(super) fn office() -> (Office, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("dlo.toml");
    std::fs::write(&file, CONFIG).unwrap();
    let mut command = dlo();
    command.arg("--config").arg(&file).args(["serve", "--listen", "127.0.0.1:0"]);
    command.arg("--data").arg(dir.path().join("data"));
    (Office::spawn(command, dir.path()), dir)
}

/// An office on the same data that masks nothing.
pub(super) fn without_rules(dir: &tempfile::TempDir) -> Office {
    let file = dir.path().join("plain.toml");
    std::fs::write(&file, &CONFIG[CONFIG.find("[brokers").unwrap()..]).unwrap();
    let mut command = dlo();
    command.arg("--config").arg(&file).args(["serve", "--listen", "127.0.0.1:0"]);
    command.arg("--data").arg(dir.path().join("data"));
    Office::spawn(command, dir.path())
}

pub(super) fn payload() -> String {
    format!(
        r#"{{"id":"O-1","n":1,"card":"{CARD}","vault":{{"pin":4711,"door":"{MARK}door"}},"note":"none {MARK}note_a","{MARK}name":true}}"#
    )
}

/// A payload in which names occur twice: a reader of JSON keeps one of two equal ones.
pub(super) fn twice() -> String {
    format!(r#"{{"id":"O-2","n":1,"card":"{CARD}","card":1,"note":"{MARK}note_b","note":"none"}}"#)
}

/// A letter with a secret in every field that is not an address, an id, a time or a code of ours.
pub(super) fn letter(offset: u64, payload: &str) -> Value {
    let secret = |field: &str| format!("{MARK}{field}");
    json!({
        "source": "orders", "broker": "kafka", "queue": "orders", "partition": 0, "offset": offset,
        "message_id": secret("message_id"), "key": secret("key"),
        "headers": [["authorization", BEARER], ["x-note", secret("header")], ["tenant", "eu"]],
        "content_type": format!("application/json; x={}", secret("content_type")),
        "payload_base64": STANDARD.encode(payload),
        "event_type": secret("event_type"), "event_version": secret("event_version"),
        "correlation_id": secret("correlation_id"), "trace_id": secret("trace_id"),
        "consumer": secret("consumer"), "consumer_id": secret("consumer_id"),
        "consumer_version": secret("consumer_version"), "attempts": 2,
        "attempt_history": [{
            "number": 1, "at": "2026-11-19T10:00:00Z",
            "error_class": secret("history_class"), "message": secret("history_message"),
        }],
        "error_class": secret("error_class"), "error_message": format!("no entry for {}", secret("error_message")),
        "error_code": secret("error_code"), "error_stack": format!("at main: {}", secret("error_stack")),
        "rule": secret("rule"), "replay_id": secret("replay_id"),
        "failed_at": "2026-11-19T10:00:01Z",
    })
}

/// The first secret that a text shows, as it is, as base64 or as hex.
pub(super) fn leak(text: &str) -> Option<String> {
    let shown = |needle: &str| text.contains(needle);
    if let Some(at) = text.find(MARK) {
        return Some(text[at..].chars().take(40).collect());
    }
    let parts = [CARD, &CARD[..8], &CARD[8..], &BEARER[7..]];
    let encoded = parts.iter().flat_map(|part| {
        // Base64 of a text depends on how many bytes stand in front of it.
        let aligned = (0..3).map(|front| {
            let whole = STANDARD.encode(format!("{}{part}", "x".repeat(front)));
            whole[4..whole.len() - 4].to_owned()
        });
        let hex: String = part.bytes().map(|byte| format!("{byte:02x}")).collect();
        aligned.chain([hex, (*part).to_owned()]).collect::<Vec<_>>()
    });
    encoded.into_iter().find(|needle| shown(needle))
}

pub(super) fn agent() -> ureq::Agent {
    ureq::Agent::config_builder().http_status_as_error(false).build().into()
}

/// The status and the text of an answer.
pub(super) fn ask(office: &Office, method: &str, path: &str, body: Option<&Value>) -> (u16, String) {
    let address = format!("{}{path}", office.address);
    let answer = match (method, body) {
        ("GET", _) => agent().get(address).call(),
        (_, Some(body)) => {
            agent().post(address).header("content-type", "application/json").send(body.to_string())
        }
        (_, None) => agent().post(address).send_empty(),
    };
    let mut answer = answer.unwrap();
    let bytes = answer.body_mut().with_config().limit(64 << 20).read_to_vec().unwrap();
    (answer.status().as_u16(), String::from_utf8_lossy(&bytes).into_owned())
}

pub(super) fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}
