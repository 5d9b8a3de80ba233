//! Replays and their items as JSON.

use std::time::Duration;

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{
    Approval, Excluded, Item, ItemState, PlannedKind, Replay, ReplayCause, ReplayState, Settings, send_id,
};
use dlo_core::time::Timestamp;
use dlo_core::units::HumanDuration;
use serde::Serialize;

use crate::replay::{DifferenceLine, ReplayDesk};

#[derive(Debug, Serialize)]
pub(crate) struct ReplayOut<'a> {
    id: ReplayId,
    state: ReplayState,
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<ReplayId>,
    query: Option<&'a str>,
    source: Option<&'a str>,
    event_type: Option<&'a str>,
    error_class: Option<&'a str>,
    cause: Option<ReplayCause>,
    author: &'a str,
    reason: &'a str,
    created_at: Timestamp,
    expires_at: Timestamp,
    started_at: Option<Timestamp>,
    ended_at: Option<Timestamp>,
    stop_reason: Option<&'a str>,
    stop_letters: &'a [LetterId],
    /// Whether this server runs it, or a part of it.
    in_hand: bool,
    /// What it waits for, or why it is slow, where this server runs it.
    waits: Option<String>,
    approvals_needed: u8,
    approvals: &'a [Approval],
    settings: &'a Settings,
    /// How long outcomes are waited for, by the settings and by what its letters took to die; told of one replay only.
    #[serde(skip_serializing_if = "Option::is_none")]
    outcome_window: Option<HumanDuration>,
    /// Letters that are frozen in it.
    total: u64,
    #[serde(flatten)]
    counts: CountsOut,
    /// Of those that were handled or came back, the part that was handled; what is presumed is in neither.
    success_rate: Option<f64>,
    by_class: &'a [PlannedKind],
    excluded: &'a [Excluded],
    doubts: &'a [String],
    /// How its letters would differ from what was produced; told of a plan that was not started yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    differences: Option<Vec<DifferenceLine>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    children: Vec<ReplayOut<'a>>,
}

/// `sent` is everything that the broker confirmed, whatever came of it; the rest tells the outcomes apart.
#[derive(Debug, Serialize)]
struct CountsOut {
    waiting: u64,
    sent: u64,
    confirmed: u64,
    passed: u64,
    presumed: u64,
    routed: u64,
    returned: u64,
    suspected_return: u64,
    unknown: u64,
    in_doubt: u64,
    short: u64,
    refused: u64,
    released: u64,
}

impl<'a> ReplayOut<'a> {
    pub(crate) fn new(replay: &'a Replay, children: &'a [Replay], desk: &ReplayDesk) -> Self {
        let of = |state| replay.counts.get(state);
        // A plan of several parts waits where its part does.
        let parts = std::iter::once(replay).chain(children);
        let standings: Vec<_> = parts.filter_map(|one| desk.standing(one.id)).collect();
        let in_hand = standings.iter().any(|standing| standing.runs);
        let waits = standings.into_iter().find_map(|standing| standing.waits);
        Self {
            id: replay.id,
            state: replay.state,
            parent: replay.parent,
            query: replay.query.as_deref(),
            source: replay.source.as_deref(),
            event_type: replay.event_type.as_deref(),
            error_class: replay.error_class.as_deref(),
            cause: replay.cause,
            author: &replay.author,
            reason: &replay.reason,
            created_at: replay.created_at,
            expires_at: replay.expires_at,
            started_at: replay.started_at,
            ended_at: replay.ended_at,
            stop_reason: replay.stop_reason.as_deref(),
            stop_letters: &replay.stop_letters,
            in_hand,
            waits,
            approvals_needed: replay.approvals_needed,
            approvals: &replay.approvals,
            settings: &replay.settings,
            outcome_window: None,
            total: replay.counts.total(),
            counts: CountsOut {
                waiting: of(ItemState::Frozen) + of(ItemState::Claimed) + of(ItemState::Intended),
                sent: replay.counts.sent(),
                confirmed: of(ItemState::Confirmed),
                passed: of(ItemState::Passed),
                presumed: of(ItemState::Presumed),
                routed: of(ItemState::Routed),
                returned: of(ItemState::Returned),
                suspected_return: of(ItemState::SuspectedReturn),
                unknown: of(ItemState::Unknown),
                in_doubt: of(ItemState::InDoubt),
                short: of(ItemState::Short),
                refused: of(ItemState::Refused),
                released: of(ItemState::Released),
            },
            success_rate: replay.counts.success(),
            by_class: &replay.by_class,
            excluded: &replay.excluded,
            doubts: &replay.doubts,
            differences: None,
            children: children.iter().map(|child| ReplayOut::new(child, &[], desk)).collect(),
        }
    }
}

impl ReplayOut<'_> {
    pub(super) fn differs(&mut self, differences: Vec<DifferenceLine>) {
        self.differences = Some(differences);
    }

    pub(super) fn waits_for_outcomes(&mut self, window: Duration) {
        self.outcome_window = Some(HumanDuration(window));
    }
}

#[derive(Debug, Serialize)]
pub(super) struct ItemOut {
    number: u64,
    letter: LetterId,
    state: ItemState,
    /// What the sent message carries as `dlo-replay-id`.
    replay_id: String,
    at: Option<Timestamp>,
    sent_at: Option<Timestamp>,
    partition: Option<i32>,
    offset: Option<i64>,
    note: Option<String>,
}

impl ItemOut {
    pub(super) fn new(replay: ReplayId, item: &Item) -> Self {
        Self {
            number: item.number,
            letter: item.letter,
            state: item.state,
            replay_id: send_id(replay, item.number),
            at: item.at,
            sent_at: item.sent_at,
            partition: item.partition,
            offset: item.offset,
            note: item.note.clone(),
        }
    }
}
