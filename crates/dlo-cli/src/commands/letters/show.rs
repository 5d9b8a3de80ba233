//! `dlo letters show`: what failed, where it came from, who failed on it, what happened since.

use dlo_core::id::LetterId;
use dlo_core::units::ByteSize;
use serde_json::{Value, json};

use super::super::now;
use crate::client::{Client, age_of, text_of};
use crate::exit::Outcome;
use crate::output::{Out, Tone, clean, clean_lines, cut};

/// Lines of a stack that are shown; `--json` has all.
const STACK: usize = 20;

pub(super) fn run(client: &Client, out: Out, id: LetterId) -> Outcome {
    let letter = client.get(&format!("/api/v1/letters/{id}"), &[])?;
    let timeline = client.get(&format!("/api/v1/letters/{id}/timeline"), &[])?;
    if out.json {
        let mut whole = letter;
        if let (Some(fields), Some(events)) = (whole.as_object_mut(), timeline.get("timeline")) {
            fields.insert("timeline".into(), events.clone());
        }
        return out.value(&whole);
    }
    let now = now();
    out.line(out.paint(&format!("letter {id}"), Tone::Strong))?;
    what_failed(out, &letter)?;
    fields(
        out,
        "Where it came from",
        &letter,
        &[
            ("source", "source"),
            ("broker", "broker"),
            ("queue", "queue"),
            ("partition", "partition"),
            ("offset", "offset"),
            ("message id", "message_id"),
            ("key", "key"),
            ("event", "event_type"),
            ("version", "event_version"),
            ("correlation", "correlation_id"),
            ("trace", "trace_id"),
        ],
    )?;
    fields(
        out,
        "Who failed on it",
        &letter,
        &[
            ("consumer", "consumer"),
            ("instance", "consumer_id"),
            ("version", "consumer_version"),
            ("attempts", "attempts"),
            ("reason", "reason"),
            ("verdict", "verdict"),
            ("rule", "rule"),
        ],
    )?;
    heading(out, "Where it stands")?;
    pair(out, "status", &text_of(&letter, "status"))?;
    suspects(out, &letter)?;
    pair(out, "owner", &text_of(&letter, "owner"))?;
    pair(out, "group", &text_of(&letter, "group_id"))?;
    for (name, key) in [("failed", "failed_at"), ("captured", "captured_at")] {
        pair(out, name, &format!("{} ({})", text_of(&letter, key), age_of(&letter, key, now)))?;
    }
    if let Some(leaves) = letter.get("leaves").filter(|leaves| !leaves.is_null()) {
        let (step, at, rule) = (text_of(leaves, "step"), text_of(leaves, "at"), text_of(leaves, "rule"));
        pair(out, "leaves", &format!("{at} ({step} by the rule {rule}, if nothing else becomes of it)"))?;
    }
    let size = letter.get("payload_size").and_then(Value::as_u64).unwrap_or(0);
    pair(out, "payload", &format!("{}, by `dlo letters payload {id}`", ByteSize(size).rounded()))?;
    headers(out, &letter)?;
    history(out, &letter)?;
    events(out, &timeline)
}

fn what_failed(out: Out, letter: &Value) -> Outcome {
    heading(out, "What failed")?;
    pair(out, "class", &text_of(letter, "error_class"))?;
    pair(out, "message", &text_of(letter, "error_message"))?;
    if let Some(code) = letter.get("error_code").and_then(Value::as_str) {
        pair(out, "code", code)?;
    }
    if let Some(stack) = letter.get("error_stack").and_then(Value::as_str) {
        let stack = clean_lines(stack);
        for line in stack.lines().take(STACK) {
            out.line(format!("    {}", out.paint(line, Tone::Quiet)))?;
        }
        let left = stack.lines().count().saturating_sub(STACK);
        if left > 0 {
            out.line(format!("    … {left} more lines, by --json"))?;
        }
    }
    Ok(())
}

/// The letter that it may repeat, and letters that may repeat it.
fn suspects(out: Out, letter: &Value) -> Outcome {
    if let Some(first) = letter.get("suspect").filter(|first| !first.is_null()) {
        let kind = text_of(first, "kind").replace('_', " ");
        pair(out, "suspected", &format!("{kind} of {}", text_of(first, "letter")))?;
    }
    for other in letter.get("suspects").and_then(Value::as_array).into_iter().flatten() {
        let kind = text_of(other, "kind").replace('_', " ");
        pair(out, "has", &format!("a {kind}: {}", text_of(other, "letter")))?;
    }
    Ok(())
}

fn heading(out: Out, text: &str) -> Outcome {
    out.line("")?;
    out.line(out.paint(text, Tone::Strong))
}

fn pair(out: Out, name: &str, value: &str) -> Outcome {
    out.line(format!("  {name:<12} {}", clean(value)))
}

/// The fields that are there, under a heading.
fn fields(out: Out, title: &str, letter: &Value, names: &[(&str, &str)]) -> Outcome {
    heading(out, title)?;
    for (name, key) in names {
        let text = text_of(letter, key);
        if text != "-" {
            pair(out, name, &text)?;
        }
    }
    Ok(())
}

fn headers(out: Out, letter: &Value) -> Outcome {
    let Some(list) = letter.get("headers").and_then(Value::as_array).filter(|list| !list.is_empty()) else {
        return Ok(());
    };
    heading(out, "Headers")?;
    for header in list {
        let (name, value) = header_text(header);
        out.line(format!("  {}: {}", clean(&name), cut(&clean(&value), 160)))?;
    }
    Ok(())
}

/// A header as `["name", "value"]`, `["name", null]`, or with bytes that are no text.
fn header_text(header: &Value) -> (String, String) {
    match header {
        Value::Array(pair) => {
            let text = |at: usize| pair.get(at).and_then(Value::as_str).map(String::from);
            (text(0).unwrap_or_default(), text(1).unwrap_or_else(|| "(no value)".to_string()))
        }
        other => {
            let bytes = other.get("value_base64").and_then(Value::as_str);
            (text_of(other, "name"), bytes.map_or("(no value)".to_string(), |text| format!("base64 {text}")))
        }
    }
}

fn history(out: Out, letter: &Value) -> Outcome {
    let attempts = letter.get("attempt_history").and_then(Value::as_array);
    let Some(attempts) = attempts.filter(|list| !list.is_empty()) else { return Ok(()) };
    heading(out, "Attempts")?;
    for attempt in attempts {
        let error =
            text_of(&json!({"e": attempt.get("error_class").or_else(|| attempt.get("message"))}), "e");
        let line = format!(
            "  {:>3}  {}  {}  {}",
            text_of(attempt, "number"),
            text_of(attempt, "at"),
            text_of(attempt, "verdict"),
            cut(&clean(&error), 80)
        );
        out.line(line)?;
    }
    Ok(())
}

fn events(out: Out, timeline: &Value) -> Outcome {
    heading(out, "Timeline")?;
    for event in timeline.get("timeline").and_then(Value::as_array).into_iter().flatten() {
        let why =
            ["reason", "reference"].map(|key| text_of(event, key)).into_iter().filter(|text| text != "-");
        let why: Vec<String> = why.collect();
        let line = format!(
            "  {}  {:<16} {}{}",
            text_of(event, "at"),
            text_of(event, "what"),
            clean(&text_of(event, "author")),
            if why.is_empty() { String::new() } else { format!(": {}", clean(&why.join(", "))) }
        );
        out.line(line)?;
    }
    Ok(())
}
