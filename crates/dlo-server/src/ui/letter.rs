//! One letter: what failed, who owns it, can it be replayed; then its whole story, what it carries, and what can be done.
//!
//! The payload is shown when it is asked for, because looking at it is written down. Differences that repairs make are
//! payload too, and are shown with it.

mod answers;
mod body;
mod facts;
mod mending;
mod replayable;
mod story;
mod suspects;

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::http::{HeaderMap, header};
use axum::response::Response;
use dlo_core::id::LetterId;
use dlo_core::letter::{LetterDetail, Status};
use dlo_core::message::Header;
use dlo_core::query::End;
use dlo_core::time::Timestamp;
use serde::Deserialize;

use super::show::{Shown, When, age, size};
use super::{Failed, Shell, cli, render, words};
use crate::automation::{Leaving, leaving};
use crate::office::Office;
use crate::query_text::{Author, Id, Params};

use answers::{Owner, WhatFailed};
use body::{Active, Body, Wanted};
use mending::{Mending, RepairLine};
use replayable::{Replayable, Standing};
use story::Chapter;
use suspects::SuspectLine;

/// Bytes of a header's value that are shown; the whole of it is copied.
const HEADER: usize = 1_024;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LetterParams {
    /// `show`: with its payload.
    payload: Option<String>,
    view: Option<body::View>,
    /// The first byte that is shown.
    from: Option<u64>,
}

/// A header: its value for reading, and whole where it is text.
struct HeaderLine {
    name: String,
    shown: String,
    whole: String,
}

/// What automation will do with it, in words.
struct Leaves {
    told: &'static str,
    when: String,
    at: String,
    rule: String,
}

impl Leaves {
    fn new(leaving: Leaving, now: Timestamp) -> Self {
        let told = match leaving.step {
            End::Discard => "It will be discarded",
            End::Archive => "It will be archived",
        };
        let when =
            if leaving.at > now { format!("in {}", age(now, leaving.at)) } else { "any moment".into() };
        Self { told, when, at: leaving.at.to_string(), rule: leaving.rule }
    }
}

#[derive(Template)]
#[template(path = "letter.html")]
struct LetterPage {
    shell: Shell,
    q: String,
    id: String,
    group: String,
    status: &'static str,
    status_phrase: String,
    status_words: String,
    title: String,
    failed_at: When,
    leaves: Option<Leaves>,
    suspects: Vec<SuspectLine>,
    failed: WhatFailed,
    owner: Owner,
    replay: Replayable,
    /// Whether a decision can be made now, and if not why.
    is_open: bool,
    closed: String,
    /// Name and value of everything that is known.
    facts: Vec<(&'static str, String)>,
    stack: Option<String>,
    headers: Vec<HeaderLine>,
    story: Vec<Chapter>,
    payload_size: String,
    body: Option<Body>,
    mending: Mending,
    repairs: Vec<RepairLine>,
    curl: Vec<(&'static str, String)>,
    cli: Vec<(&'static str, String)>,
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Id(id): Id<LetterId>,
    author: Author,
    headers: HeaderMap,
    Params(params): Params<LetterParams>,
) -> Result<Response, Failed> {
    // Where the letter stands is found by its real key and id.
    let detail = office.store.letter(id).await?;
    let timeline = office.shown().timeline(id).await?;
    let repairs = office.store.repairs(id).await?;
    let mending = Mending::of(&repairs, &detail, &timeline);
    let standing = Standing::of(&office, &detail, &timeline, mending).await?;
    let status_words = standing.words(detail.letter.status);
    let group = office.shown().group(detail.letter.group_id).await?;
    let leaves = leaving(&office, &detail.letter).await?;
    let real = detail;
    let detail = office.mask.over(real.clone());
    let now = office.now();
    let shows = params.payload.as_deref() == Some("show");
    let wanted = Wanted { view: params.view.unwrap_or_default(), from: params.from.unwrap_or(0) };
    let withdrawn = repairs.iter().filter(|repair| repair.is_as_captured()).map(|repair| repair.at);
    let withdrawn: Vec<Timestamp> = withdrawn.collect();
    let active = repairs.iter().find(|repair| repair.active && !repair.is_as_captured());
    // An expression may have put a masked header or key into the payload.
    let active = active.map(|repair| Active {
        payload: repair.message.payload.0.clone(),
        may_hold_masked: real != detail && repair.expression.is_some(),
    });
    let body =
        if shows { Some(body::read(&office, &detail.letter, &author, wanted, active).await?) } else { None };
    let repairs = mending::lines(&office, id, repairs, mending, shows).await?;
    let letter = &detail.letter;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()).unwrap_or("127.0.0.1:8404");
    Ok(render(&LetterPage {
        shell,
        q: String::new(),
        group: letter.group_id.to_string(),
        status: letter.status.as_str(),
        status_phrase: words::phrase(letter.status.as_str()),
        closed: format!(
            "Only open letters can be decided on. This one is {}: {status_words}.",
            words::phrase(letter.status.as_str())
        ),
        status_words,
        title: letter.error_class.clone().unwrap_or_else(|| words::phrase(letter.reason.as_str())),
        failed_at: When::new(letter.failed_at, now),
        leaves: leaves.map(|leaving| Leaves::new(leaving, now)),
        suspects: suspects::lines(&detail),
        failed: WhatFailed::new(letter, office.triage.known().as_deref(), mending),
        owner: Owner::new(letter, &group, &office.triage.teams()),
        replay: Replayable::new(letter, standing, now),
        is_open: letter.status == Status::Open,
        facts: facts::all(&detail),
        stack: detail.error_stack.clone(),
        headers: detail.headers.iter().map(header_line).collect(),
        story: story::tell(&detail, &timeline, &withdrawn, now),
        payload_size: size(letter.payload_size),
        body,
        mending,
        repairs,
        curl: requests(host, &id.to_string()),
        cli: commands(&detail),
        id: id.to_string(),
    }))
}

fn header_line(header: &Header) -> HeaderLine {
    let shown = match &header.value {
        None => "(no value)".to_string(),
        Some(bytes) => Shown::of_line(bytes, HEADER),
    };
    let whole = header.text().map_or_else(|| shown.clone(), str::to_string);
    HeaderLine { name: header.name.clone(), shown, whole }
}

fn requests(host: &str, id: &str) -> Vec<(&'static str, String)> {
    let letter = format!("http://{host}/api/v1/letters/{id}");
    let plan = format!(r#"{{"ids":["{id}"],"reason":"…"}}"#);
    let kind = "content-type: application/json";
    vec![
        ("This letter as JSON", cli::line(["curl", &letter])),
        ("Its payload, byte for byte", cli::line(["curl", "-o", "payload", &format!("{letter}/payload")])),
        (
            "A plan to replay it",
            cli::line(["curl", "-H", kind, "-d", &plan, &format!("http://{host}/api/v1/replays")]),
        ),
    ]
}

fn commands(detail: &LetterDetail) -> Vec<(&'static str, String)> {
    let id = detail.letter.id.to_string();
    vec![
        ("Show it", cli::line(["dlo", "letters", "show", &id])),
        ("Its payload", cli::line(["dlo", "letters", "payload", &id])),
        ("Preview a repair", cli::line(["dlo", "repair", "preview", &id, "--jq", "."])),
        ("Plan to replay it", cli::line(["dlo", "replay", "plan", &id, "--reason", "…"])),
    ]
}
