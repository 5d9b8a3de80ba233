//! Replays, newest first: what each is about, where it stands, and how far it is by outcome.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::replay::{ItemCounts, ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;
use serde::Deserialize;

use super::draw::Svg;
use super::show::When;
use super::{Failed, Shell, draw, render, words};
use crate::api::error::Problem;
use crate::office::Office;
use crate::query_text::{Params, page as page_of};
use crate::replay::ReplayDesk;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReplaysParams {
    state: Option<String>,
    cursor: Option<String>,
}

/// A replay as a line.
#[derive(Debug)]
pub(crate) struct ReplayLine {
    pub(crate) id: String,
    pub(crate) state: &'static str,
    pub(crate) phrase: String,
    /// What it is about: its query, or the cause of a part.
    pub(crate) about: String,
    pub(crate) author: String,
    pub(crate) reason: String,
    pub(crate) created: When,
    pub(crate) total: String,
    pub(crate) sent: String,
    pub(crate) handled: String,
    pub(crate) returned: u64,
    pub(crate) in_doubt: u64,
    pub(crate) stop: Option<String>,
    pub(crate) bar: Svg,
}

impl ReplayLine {
    pub(crate) fn new(replay: &Replay, desk: &ReplayDesk, now: Timestamp) -> Self {
        let of = |state| replay.counts.get(state);
        let (state, phrase) = badge(replay, desk);
        Self {
            id: replay.id.to_string(),
            state,
            phrase,
            about: about(replay),
            author: replay.author.clone(),
            reason: replay.reason.clone(),
            created: When::new(replay.created_at, now),
            total: words::number(replay.counts.total()),
            sent: words::number(replay.counts.sent()),
            handled: words::number(replay.counts.handled()),
            returned: replay.counts.failed_again(),
            in_doubt: of(ItemState::InDoubt),
            stop: replay.stop_reason.clone(),
            bar: draw::progress(&replay.counts),
        }
    }
}

/// How its state looks and is said. One that waits for a broker or a consumer says so.
pub(crate) fn badge(replay: &Replay, desk: &ReplayDesk) -> (&'static str, String) {
    match desk.standing(replay.id).is_some_and(|standing| standing.stalled.is_some()) {
        true => ("waiting", format!("{}, waiting", words::phrase(replay.state.as_str()))),
        false => ended(replay.state, &replay.counts),
    }
}

/// What is completed is good news only where nothing came back.
fn ended(state: ReplayState, counts: &ItemCounts) -> (&'static str, String) {
    let phrase = words::phrase(state.as_str());
    let (returned, in_doubt) = (counts.failed_again(), counts.get(ItemState::InDoubt));
    match state {
        ReplayState::Completed if returned > 0 => {
            ("completed partly", format!("{phrase}, {} came back", words::number(returned)))
        }
        ReplayState::Completed if in_doubt > 0 => {
            ("completed partly", format!("{phrase}, {} in doubt", words::number(in_doubt)))
        }
        state => (state.as_str(), phrase),
    }
}

/// What letters of a replay have in common, else how they were asked for.
pub(crate) fn about(replay: &Replay) -> String {
    if let (Some(source), Some(class)) = (&replay.source, &replay.error_class) {
        return format!("{source}: {class}");
    }
    match (&replay.query, &replay.source) {
        (Some(query), _) => query.clone(),
        (None, Some(source)) => format!("{source}: no error class"),
        (None, None) => "letters named by their ids".to_string(),
    }
}

#[derive(Template)]
#[template(path = "replays.html")]
struct Replays {
    shell: Shell,
    q: String,
    /// The states one can choose from: code, words, whether chosen.
    states: Vec<(&'static str, String, bool)>,
    state: Option<&'static str>,
    replays: Vec<ReplayLine>,
    next: Option<String>,
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Params(params): Params<ReplaysParams>,
) -> Result<Response, Failed> {
    let wanted = params.state.as_deref().filter(|state| !state.is_empty());
    let state = wanted
        .map(str::parse::<ReplayState>)
        .transpose()
        .map_err(|unknown| Problem::bad_request("bad_parameter", unknown.to_string()).field("state"))?;
    let found = office.shown().replays(state, &page_of(None, params.cursor)?).await?;
    let now = office.now();
    let choice = |one: &ReplayState| (one.as_str(), words::phrase(one.as_str()), state == Some(*one));
    Ok(render(&Replays {
        shell,
        q: String::new(),
        states: ReplayState::ALL.iter().map(choice).collect(),
        state: state.map(ReplayState::as_str),
        replays: found.replays.iter().map(|replay| ReplayLine::new(replay, &office.replays, now)).collect(),
        next: found.next.map(|cursor| cursor.0),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_completed_is_good_news_only_where_nothing_came_back() {
        let mut counts = ItemCounts::default();
        counts.set(ItemState::Confirmed, 6);
        assert_eq!(ended(ReplayState::Completed, &counts), ("completed", "completed".to_string()));
        counts.set(ItemState::InDoubt, 1);
        assert_eq!(ended(ReplayState::Completed, &counts).1, "completed, 1 in doubt");
        counts.set(ItemState::Returned, 6);
        let told = ("completed partly", "completed, 6 came back".to_string());
        assert_eq!(ended(ReplayState::Completed, &counts), told);
        assert_eq!(ended(ReplayState::Stopped, &counts), ("stopped", "stopped".to_string()));
    }
}
