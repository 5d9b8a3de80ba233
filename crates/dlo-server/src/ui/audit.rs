//! The audit log: who did what, when and why, newest first; and the proof that every letter is accounted for.

use std::collections::HashMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::id::GroupId;
use dlo_core::replay::parse_send_id;
use dlo_core::time::Timestamp;
use dlo_store::AuditEntry;

use super::show::When;
use super::{Failed, Shell, names, render, words};
use crate::api::audit::AuditParams;
use crate::office::Office;
use crate::query_text::Params;

struct Line {
    seq: i64,
    at: When,
    what: &'static str,
    phrase: String,
    author: String,
    reason: String,
    reference: String,
    replay: Option<String>,
    source: String,
    /// A letter, and the end of its id.
    letter: Option<(String, String)>,
    /// Id and title of the group that it was done with.
    group: Option<(String, String)>,
    count: String,
}

/// What the groups of a page are called.
async fn titles(office: &Office, entries: &[AuditEntry]) -> Result<HashMap<GroupId, String>, Failed> {
    let mut titles = HashMap::new();
    for id in entries.iter().filter_map(group) {
        if titles.contains_key(&id) {
            continue;
        }
        titles.insert(id, names::group(office, id).await?);
    }
    Ok(titles)
}

/// The group of a row; looking into its payloads names it in a query.
fn group(entry: &AuditEntry) -> Option<GroupId> {
    let meant = || entry.reference.as_deref()?.strip_prefix("group:")?.parse().ok();
    entry.group.or_else(meant)
}

impl Line {
    fn new(entry: &AuditEntry, titles: &HashMap<GroupId, String>, now: Timestamp) -> Self {
        let group = group(entry);
        let named = |text: &String| !text.starts_with("group:");
        let reference = entry.reference.clone().filter(named).unwrap_or_default();
        let is_replay = entry.what.as_str().starts_with("replay_");
        let replay = parse_send_id(&reference)
            .map(|(replay, _)| replay.to_string())
            .or_else(|| is_replay.then(|| reference.clone()));
        Self {
            seq: entry.seq,
            at: When::new(entry.at, now),
            what: entry.what.as_str(),
            phrase: words::phrase(entry.what.as_str()),
            author: entry.author.clone(),
            reason: entry.reason.clone().unwrap_or_default(),
            reference,
            replay,
            source: entry.source.clone().unwrap_or_default(),
            group: group.and_then(|id| Some((id.to_string(), titles.get(&id)?.clone()))),
            letter: entry.letter.map(|id| (id.to_string(), names::short(&id.to_string()))),
            count: words::number(entry.count),
        }
    }
}

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    shell: Shell,
    q: String,
    author: String,
    what: String,
    letter: String,
    filtered: bool,
    /// Words that can be asked for, beside others.
    known: [&'static str; 12],
    lines: Vec<Line>,
    next: Option<String>,
}

/// What people look for most; any other word of the log can be typed.
const KNOWN: [&str; 12] = [
    "captured",
    "died_again",
    "payload_read",
    "repaired",
    "discard",
    "compensate",
    "exported",
    "replay_planned",
    "replay_approved",
    "replay_stopped",
    "replay_completed",
    "replay_cancelled",
];

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Params(params): Params<AuditParams>,
) -> Result<Response, Failed> {
    let found = params.find(&office).await?;
    let now = office.now();
    let titles = titles(&office, &found.entries).await?;
    Ok(render(&Audit {
        shell,
        q: String::new(),
        filtered: !(params.author.is_empty() && params.what.is_empty() && params.letter.is_empty()),
        author: params.author,
        what: params.what,
        letter: params.letter,
        known: KNOWN,
        lines: found.entries.iter().map(|entry| Line::new(entry, &titles, now)).collect(),
        next: found.next.map(|cursor| cursor.0),
    }))
}
