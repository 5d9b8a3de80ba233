//! Sources: each dead-letter queue under the office's care, and whoever sends letters over HTTP.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;
use dlo_store::SourceStats;

use super::show::When;
use super::{Failed, Shell, render, words};
use crate::capture::{CaptureState, CaptureStatus};
use crate::office::Office;

/// A source as a line; also the head of its own page.
#[derive(Debug)]
pub(crate) struct SourceLine {
    pub(crate) name: String,
    pub(crate) broker: &'static str,
    pub(crate) queue: String,
    pub(crate) dlq: String,
    pub(crate) mode: &'static str,
    pub(crate) state: &'static str,
    pub(crate) state_words: &'static str,
    pub(crate) problem: Option<String>,
    pub(crate) last_error: Option<(When, String)>,
    pub(crate) depth: String,
    pub(crate) lag: String,
    pub(crate) rate: String,
    pub(crate) waiting: Option<When>,
    pub(crate) partitions: String,
    pub(crate) open: String,
    pub(crate) captured: String,
    pub(crate) oldest_open: Option<When>,
    pub(crate) last_captured: Option<When>,
    pub(crate) skipped: u64,
    pub(crate) duplicates: u64,
}

impl SourceLine {
    pub(crate) fn new(
        name: &str,
        kept: Option<&SourceStats>,
        capture: Option<&CaptureStatus>,
        now: Timestamp,
    ) -> Self {
        // What a broker does not say stays empty: a zero would be a lie.
        let number = |count: Option<u64>| count.map(words::number).unwrap_or_default();
        let when = |at: Option<Timestamp>| at.map(|at| When::new(at, now));
        let (state, state_words) = capture.map_or(HTTP, |capture| state(capture.state));
        let held = |capture: &CaptureStatus| {
            capture.partitions.map(|all| format!("{} of {all}", capture.held)).unwrap_or_default()
        };
        Self {
            name: name.to_string(),
            broker: capture.map_or("http", |capture| capture.broker),
            queue: capture.map(|capture| capture.queue.clone()).unwrap_or_default(),
            dlq: capture.map(|capture| capture.dlq.clone()).unwrap_or_default(),
            mode: capture.map_or("", |capture| mode(capture.mode)),
            state,
            state_words,
            problem: capture.and_then(|capture| capture.problem.clone()),
            last_error: capture
                .and_then(|capture| capture.last_error.clone())
                .map(|error| (When::new(error.at, now), error.what)),
            depth: number(capture.and_then(|capture| capture.depth)),
            lag: number(capture.and_then(|capture| capture.lag)),
            rate: capture.map(|capture| words::number(capture.captured_last_minute)).unwrap_or_default(),
            waiting: when(capture.and_then(|capture| capture.oldest)),
            partitions: capture.map(held).unwrap_or_default(),
            open: words::number(kept.map_or(0, |kept| kept.counts.get(Status::Open))),
            captured: words::number(kept.map_or(0, |kept| kept.captured)),
            oldest_open: when(kept.and_then(|kept| kept.oldest_open)),
            last_captured: when(
                kept.and_then(|kept| kept.last_captured)
                    .or_else(|| capture.and_then(|capture| capture.last_captured)),
            ),
            skipped: capture.map_or(0, |capture| capture.skipped),
            duplicates: capture.map_or(0, |capture| capture.duplicates),
        }
    }
}

/// Whoever sends by itself has no capture that could stand still.
const HTTP: (&str, &str) = ("http", "Letters are sent to the office over HTTP; nothing is captured.");

const fn state(state: CaptureState) -> (&'static str, &'static str) {
    match state {
        CaptureState::Starting => ("starting", "The broker was not asked yet."),
        CaptureState::Running => ("running", "The dead-letter queue is being read."),
        CaptureState::Standby => {
            ("standby", "Another server reads it; this one takes over when that one is gone.")
        }
        CaptureState::Waiting => ("waiting", "Capture is interrupted and retries automatically."),
        CaptureState::Ended => ("ended", "Capture has ended and does not retry."),
    }
}

const fn mode(mode: crate::capture::Mode) -> &'static str {
    match mode {
        crate::capture::Mode::Drain => "drain: what is stored is taken out of the queue",
        crate::capture::Mode::Mirror => "mirror: the queue stays as it is for others",
    }
}

#[derive(Template)]
#[template(path = "sources.html")]
struct Sources {
    shell: Shell,
    q: String,
    sources: Vec<SourceLine>,
}

pub(crate) async fn page(State(office): State<Arc<Office>>, shell: Shell) -> Result<Response, Failed> {
    let now = office.now();
    let stats = office.store.stats().await?;
    let captures = office.capture_status();
    let mut names: Vec<&str> = stats.sources.iter().map(|kept| kept.source.as_str()).collect();
    names.extend(captures.iter().map(|capture| capture.source.as_str()));
    names.sort_unstable();
    names.dedup();
    let line = |name: &&str| {
        let kept = stats.sources.iter().find(|kept| kept.source == *name);
        let capture = captures.iter().find(|capture| capture.source == *name);
        SourceLine::new(name, kept, capture, now)
    };
    Ok(render(&Sources { shell, q: String::new(), sources: names.iter().map(line).collect() }))
}
