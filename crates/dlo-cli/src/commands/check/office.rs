//! Whether an office answers, and is ready.

use serde_json::Value;

use super::Finding;
use crate::client::{Client, text_of};
use crate::exit::Exit;
use crate::output::{count, letters};

/// What it says, and whether it is an office at all.
pub(super) fn look(client: &Client) -> (Finding, bool) {
    let address = client.address();
    if let Err(failure) = client.get("/healthz", &[]) {
        let finding = match failure.exit {
            // Not a failure: everything above can be checked before the first start.
            Exit::Unreachable => Finding::weak(
                "office",
                format!("nothing answers at {address}\nstart it by `dlo serve`, or name another by --server"),
            ),
            Exit::Failed | Exit::Usage | Exit::NotFound | Exit::Refused | Exit::CameBack | Exit::Trouble => {
                Finding::missing("office", format!("{address} answers, but not as an office: {failure}"))
            }
        };
        return (finding, false);
    }
    (ready(client), true)
}

fn ready(client: &Client) -> Finding {
    let address = client.address();
    if let Err(failure) = client.get_raw("/readyz", &[]) {
        return Finding::missing("office", format!("{address} runs and is not ready: {failure}"));
    }
    match client.get("/api/v1/stats", &[]) {
        Ok(stats) => {
            let number = |path| stats.pointer(path).and_then(Value::as_u64).unwrap_or(0);
            let (total, open) = (letters(number("/letters/total")), count(number("/letters/open")));
            Finding::fine("office", format!("{address} is ready: {total}, {open} open"))
        }
        Err(failure) => Finding::missing("office", format!("{address} is ready and refuses us: {failure}")),
    }
}

/// How each capture of a running office stands. One that has none says nothing.
pub(super) fn captures(client: &Client) -> Vec<Finding> {
    let Ok(answer) = client.get("/api/v1/sources", &[]) else { return Vec::new() };
    let sources = answer["sources"].as_array().cloned().unwrap_or_default();
    sources.iter().filter(|source| source["dlq"].is_string()).map(capture).collect()
}

fn capture(source: &Value) -> Finding {
    let number = |key: &str| source[key].as_u64();
    let mut words = format!(
        "{}: {} from {}, {} captured since the office started, {} in the last minute",
        text_of(source, "source"),
        text_of(source, "state"),
        text_of(source, "dlq"),
        count(number("captured").unwrap_or(0)),
        count(number("captured_last_minute").unwrap_or(0)),
    );
    for (what, key) in [("waiting in the broker", "depth"), ("not read yet", "lag")] {
        if let Some(waiting) = number(key) {
            words.push_str(&format!(", {} {what}", count(waiting)));
        }
    }
    if let Some(what) = source["problem"].as_str() {
        words.push_str(&format!("\n{what}"));
    }
    let skipped = number("skipped").unwrap_or(0);
    if skipped > 0 {
        let lost = count(skipped);
        words.push_str(&format!(
            "\n{lost} were removed by the broker before they were read: raise its retention"
        ));
        return Finding::missing("capture", words);
    }
    match source["state"].as_str() {
        Some("running" | "standby" | "starting") => Finding::fine("capture", words),
        Some("waiting") => Finding::weak("capture", words),
        _ => Finding::missing("capture", words),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::commands::check::State;

    #[test]
    fn a_capture_is_told_by_how_it_stands() {
        let source = |state: &str, skipped: u64| {
            json!({ "source": "orders", "dlq": "orders.dlq", "state": state, "captured": 12, "depth": 3,
                "problem": if state == "waiting" { Some("the broker is out of reach") } else { None }, "skipped": skipped })
        };
        let fine = capture(&source("running", 0));
        assert_eq!(fine.state, State::Fine);
        assert!(fine.words.contains("12 captured") && fine.words.contains("3 waiting"), "{}", fine.words);
        let waiting = capture(&source("waiting", 0));
        assert_eq!(waiting.state, State::Weak);
        assert!(waiting.words.contains("out of reach"), "{}", waiting.words);
        assert_eq!(capture(&source("ended", 0)).state, State::Missing);
        assert_eq!(capture(&source("running", 5)).state, State::Missing);
    }
}
