//! A replay on paper: the plan as it was frozen, and how far it is.

use dlo_core::id::ReplayId;
use serde_json::Value;

use super::super::now;
use super::{number, path};
use crate::client::{Client, age_of, text_of};
use crate::exit::Outcome;
use crate::output::{Align, Out, Table, Tone, bar, clean, count, cut, letters, say};

/// Items that are listed of a state.
const LISTED: u64 = 20;

pub(super) fn run(client: &Client, out: Out, id: ReplayId) -> Outcome {
    let replay = client.get(&path(id, ""), &[])?;
    if out.json {
        return out.value(&replay);
    }
    plan(out, &replay)?;
    progress(out, &replay)?;
    for child in children(&replay) {
        out.line(format!("  part {}  {}", text_of(child, "id"), standing(child)))?;
    }
    for (state, words) in [
        ("in_doubt", "in doubt: nobody knows whether they were sent; decide by `dlo replay settle`"),
        ("returned", "came back"),
        ("suspected_return", "probably died again; their new letters: dlo letters list is:suspected_return"),
        ("refused", "could not be sent"),
    ] {
        if number(&replay, state) > 0 {
            items(client, out, &replay, state, words)?;
        }
    }
    Ok(())
}

fn children(replay: &Value) -> &[Value] {
    replay.get("children").and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// What the plan says: letters by cause, what is left out, what is doubtful.
pub(super) fn plan(out: Out, replay: &Value) -> Outcome {
    let mut table = Table::new(&[
        ("LETTERS", Align::Right),
        ("", Align::Left),
        ("SOURCE", Align::Left),
        ("EVENT", Align::Left),
        ("CLASS", Align::Left),
        ("OLDEST", Align::Right),
        ("NEWEST", Align::Right),
        ("OWNER", Align::Left),
    ]);
    let now = now();
    let kinds = list(replay, "by_class");
    let largest = kinds.iter().map(|kind| number(kind, "count")).max().unwrap_or(0);
    for kind in kinds {
        let text = |key| cut(&clean(&text_of(kind, key)), 40);
        table.row([
            count(number(kind, "count")),
            bar(number(kind, "count"), largest),
            text("source"),
            text("event_type"),
            text("error_class"),
            age_of(kind, "oldest", now),
            age_of(kind, "newest", now),
            text("owner"),
        ]);
        table.tone(1, Tone::Warn);
    }
    if !table.is_empty() {
        out.table(&table)?;
    }
    for left_out in list(replay, "excluded") {
        let why = match text_of(left_out, "why").as_str() {
            "not_open" => "sent, in doubt, or closed already".to_string(),
            "held" => held(left_out),
            "exhausted" => "replayed as often as allowed (exhausted)".to_string(),
            "pointer_only" => "only a pointer, the message itself is not here".to_string(),
            "too_large" => "too large".to_string(),
            "superseded" => "a later message of the same key was sent or handled".to_string(),
            "key_spans_classes" => "another failure of the same key must go first".to_string(),
            "no_target" => "their source has no queue to send to; name its broker in the config".to_string(),
            "suspected" => "suspected duplicates; --include-suspected sends them too".to_string(),
            other => clean(other),
        };
        out.line(format!("left out: {} ({why})", letters(number(left_out, "count"))))?;
    }
    for doubt in list(replay, "doubts").iter().filter_map(Value::as_str) {
        out.line(out.paint(&format!("doubtful: {}", clean(doubt)), Tone::Warn))?;
    }
    for difference in list(replay, "differences") {
        out.line(format!("differs: {}", clean(&text_of(difference, "text"))))?;
    }
    if number(replay, "total") == 0 {
        return Ok(());
    }
    let parts = children(replay).len();
    let apart =
        if parts > 1 { format!(", in {parts} parts, one cause after the other") } else { String::new() };
    out.line(format!("{}{apart}, {}", letters(number(replay, "total")), how(replay)))
}

/// Who has them, and how they get free: a replay that was stopped keeps what it did not send.
fn held(left_out: &Value) -> String {
    let replay = clean(&text_of(left_out, "held_by"));
    let resume =
        format!("send them by: dlo replay resume {replay}, or free them by: dlo replay cancel {replay}");
    format!("in the hand of replay {replay}, which has not ended; {resume}")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// Pace, canary and target in words.
fn how(replay: &Value) -> String {
    let settings = &replay["settings"];
    let pace = match &settings["pace"] {
        Value::String(_) => "as fast as possible".to_string(),
        pace => match (pace["rate"].as_f64(), pace["share"].as_f64()) {
            (Some(rate), _) => format!("{rate}/s"),
            (None, Some(share)) => format!("{}% of the normal traffic", share * 100.0),
            (None, None) => "at an unknown pace".to_string(),
        },
    };
    let canary = match settings["canary"].as_u64() {
        Some(0) | None => "without a canary".to_string(),
        Some(few) => format!("{few} first"),
    };
    let target = match &settings["target"] {
        Value::String(word) if word == "failed_group" => "to the consumer group that failed".to_string(),
        Value::Object(target) => {
            format!("to {}", clean(target.get("queue").and_then(Value::as_str).unwrap_or("?")))
        }
        _ => "to where they came from".to_string(),
    };
    let repair = match settings["repair"]["expression"].as_str() {
        Some(expression) => format!(", repaired by {}", cut(&clean(expression), 60)),
        None => String::new(),
    };
    format!("{pace}, {canary}, {target}{repair}")
}

/// State and outcomes in one line.
pub(super) fn standing(replay: &Value) -> String {
    let mut words = vec![text_of(replay, "state")];
    words.push(format!("{} of {} sent", count(number(replay, "sent")), count(number(replay, "total"))));
    for (key, word) in [
        ("confirmed", "confirmed"),
        ("passed", "passed by the consumer"),
        ("presumed", "probably handled"),
        ("routed", "routed"),
        ("returned", "came back"),
        ("suspected_return", "suspected to have come back"),
        ("unknown", "unknown"),
        ("in_doubt", "in doubt"),
        ("short", "taken by others"),
        ("refused", "refused"),
        ("released", "given back"),
    ] {
        let many = number(replay, key);
        if many > 0 {
            words.push(format!("{} {word}", count(many)));
        }
    }
    words.join(", ")
}

fn progress(out: Out, replay: &Value) -> Outcome {
    out.line("")?;
    let tone = match text_of(replay, "state").as_str() {
        "stopped" => Tone::Bad,
        "paused" | "awaiting_approval" => Tone::Warn,
        "completed" => Tone::Good,
        _ => Tone::Strong,
    };
    out.line(out.paint(&standing(replay), tone))?;
    if let Some(why) = replay.get("stop_reason").and_then(Value::as_str) {
        out.line(out.paint(&format!("because {}", clean(why)), tone))?;
    }
    if let Some(why) = replay.get("waits").and_then(Value::as_str) {
        out.line(out.paint(&format!("waits: {}", clean(why)), Tone::Warn))?;
    }
    if let Some(rate) = replay.get("success_rate").and_then(Value::as_f64) {
        out.line(format!("of those whose outcome is known {:.1}% were handled", rate * 100.0))?;
    }
    Ok(())
}

/// Replays that have letters of their own: this one, or its parts.
pub(super) fn with_letters(replay: &Value) -> Vec<String> {
    match children(replay) {
        [] => vec![text_of(replay, "id")],
        parts => parts.iter().map(|part| text_of(part, "id")).collect(),
    }
}

fn items(client: &Client, out: Out, replay: &Value, state: &str, words: &str) -> Outcome {
    out.line("")?;
    out.line(words)?;
    for item in super::items::of(client, replay, Some(state), LISTED)? {
        let note =
            item.get("note").and_then(Value::as_str).map(|note| format!("  {}", cut(&clean(note), 80)));
        out.line(format!("  {}{}", text_of(&item, "letter"), note.unwrap_or_default()))?;
    }
    if number(replay, state) > LISTED {
        let id = text_of(replay, "id");
        say(format!(
            "… the first {LISTED}; all of them: dlo replay items {id} --state {state} --limit 100000"
        ));
    }
    Ok(())
}
