//! One letter: what failed, who owns it, where it stands, and everything it carries.
//!
//! The payload is shown when it is asked for, because looking at it is written down.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::id::LetterId;
use dlo_core::letter::LetterDetail;
use dlo_core::message::Header;
use dlo_core::time::Timestamp;
use dlo_store::TimelineEntry;
use serde::Deserialize;

use super::show::{Shown, When, size};
use super::{Failed, SHOWN, Shell, render};
use crate::office::Office;
use crate::query_text::{Author, Id, Params};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LetterParams {
    /// `show`: with its payload.
    payload: Option<String>,
}

struct Attempt {
    number: u32,
    at: When,
    class: String,
    message: String,
    verdict: String,
    delay: String,
}

struct Entry {
    at: When,
    what: String,
    author: String,
    reason: String,
    reference: String,
}

#[derive(Template)]
#[template(path = "letter.html")]
struct LetterPage {
    shell: Shell,
    q: String,
    id: String,
    group: String,
    status: String,
    title: String,
    message: String,
    failed: When,
    /// Name and value of everything that is known.
    facts: Vec<(&'static str, String)>,
    stack: Option<String>,
    attempts: Vec<Attempt>,
    headers: Vec<(String, String)>,
    timeline: Vec<Entry>,
    payload_size: String,
    payload: Option<Shown>,
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Id(id): Id<LetterId>,
    author: Author,
    Params(params): Params<LetterParams>,
) -> Result<Response, Failed> {
    let mut detail = office.store.letter(id).await?;
    office.mask.detail(&mut detail);
    let timeline = office.store.timeline(id).await?;
    let now = office.now();
    let payload = match params.payload.as_deref() {
        Some("show") => {
            let mut payload = office.store.payload(id, Some((&author.looks(), now))).await?;
            office.mask.payload(&mut payload);
            Some(Shown::of(&payload.bytes, SHOWN))
        }
        _ => None,
    };
    let letter = &detail.letter;
    Ok(render(&LetterPage {
        shell,
        q: String::new(),
        id: id.to_string(),
        group: letter.group_id.to_string(),
        status: letter.status.to_string(),
        title: letter.error_class.clone().unwrap_or_else(|| letter.reason.to_string()),
        message: letter.error_message.clone(),
        failed: When::new(letter.failed_at, now),
        facts: facts(&detail),
        stack: detail.error_stack.clone(),
        attempts: attempts(&detail, now),
        headers: detail.headers.iter().map(header).collect(),
        timeline: timeline.iter().map(|entry| Entry::new(entry, now)).collect(),
        payload_size: size(letter.payload_size),
        payload,
    }))
}

/// Everything that is known and fits one line, in the order in which it is asked at night.
fn facts(detail: &LetterDetail) -> Vec<(&'static str, String)> {
    let letter = &detail.letter;
    let origin = &letter.origin;
    let time = |time: Option<Timestamp>| time.map(|time| time.to_string());
    let key = letter.key.as_deref().map(|key| Shown::of(key, 4_096).text);
    let all = [
        ("Owner", letter.owner.clone().or_else(|| Some("nobody yet".to_string()))),
        ("Reason", Some(letter.reason.to_string())),
        ("Verdict", Some(letter.verdict.to_string())),
        ("Rule", letter.rule.clone()),
        ("Attempts", Some(letter.attempts.to_string())),
        ("Deaths", (letter.deaths > 1).then(|| letter.deaths.to_string())),
        ("Replays", (letter.replays > 0).then(|| letter.replays.to_string())),
        ("Source", Some(letter.source.clone())),
        ("Consumer", letter.consumer.clone()),
        ("Consumer id", letter.consumer_id.clone()),
        ("Consumer version", letter.consumer_version.clone()),
        ("Event type", letter.event_type.clone()),
        ("Event version", letter.event_version.clone()),
        ("Error code", letter.error_code.clone()),
        ("Broker", Some(origin.broker.to_string())),
        ("Queue", Some(origin.queue.clone())),
        ("Partition", origin.partition.map(|number| number.to_string())),
        ("Offset", origin.offset.map(|number| number.to_string())),
        ("Message id", origin.message_id.clone()),
        ("Key", key),
        ("Correlation id", letter.correlation_id.clone()),
        ("Trace id", letter.trace_id.clone()),
        ("Published", time(letter.published_at)),
        ("Received", time(letter.received_at)),
        ("First failed", time(letter.first_failed_at)),
        ("Failed", Some(letter.failed_at.to_string())),
        ("Captured", Some(letter.captured_at.to_string())),
        ("Content type", letter.content_type.clone()),
    ];
    all.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
}

fn attempts(detail: &LetterDetail, now: Timestamp) -> Vec<Attempt> {
    let attempt = |record: &dlo_core::attempt::AttemptRecord| Attempt {
        number: record.number,
        at: When::new(record.at, now),
        class: record.error_class.clone().unwrap_or_default(),
        message: record.message.clone().unwrap_or_default(),
        verdict: record.verdict.map(|verdict| verdict.to_string()).unwrap_or_default(),
        delay: record.delay_ms.map(|millis| format!("{millis} ms")).unwrap_or_default(),
    };
    detail.history.records().iter().map(attempt).collect()
}

fn header(header: &Header) -> (String, String) {
    let value = match &header.value {
        None => "(no value)".to_string(),
        Some(bytes) => Shown::of_line(bytes, 1_024),
    };
    (header.name.clone(), value)
}

impl Entry {
    fn new(entry: &TimelineEntry, now: Timestamp) -> Self {
        Self {
            at: When::new(entry.at, now),
            what: entry.what.as_str().replace('_', " "),
            author: entry.author.clone(),
            reason: entry.reason.clone().unwrap_or_default(),
            reference: entry.reference.clone().unwrap_or_default(),
        }
    }
}
