//! Evidence for a person who settles doubts: what the queues hold now, how far their consumer is, and what came back.
//!
//! It is read when it is asked for and proves nothing by itself: a message may be in the queue, with a consumer, or handled.
//! Page, CLI and API show the same.

use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use dlo_core::id::ReplayId;
use dlo_core::replay::{ItemState, Replay};
use dlo_core::time::Timestamp;
use dlo_store::{Page, StoreError};
use serde::Serialize;

use super::ReplayTarget;
use super::hand::group;
use super::note::Note;
use crate::office::Office;

/// How long a broker may take for one answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// Queues of one replay that are asked, and returns that are counted, at most.
const QUEUES: usize = 5;
const RETURNS: usize = 10_000;

/// What is known around the doubts of one replay.
#[derive(Debug, Serialize)]
pub(crate) struct Evidence {
    pub(crate) replay: ReplayId,
    pub(crate) source: Option<String>,
    pub(crate) in_doubt: u64,
    /// When the first and the last of them were intended.
    pub(crate) first_at: Option<Timestamp>,
    pub(crate) last_at: Option<Timestamp>,
    pub(crate) asked_at: Timestamp,
    pub(crate) queues: Vec<QueueEvidence>,
    /// Letters of this replay that a consumer confirmed.
    pub(crate) confirmed: u64,
    /// Letters of this replay that came back: all of them, and those since the first doubt, at most 10,000.
    pub(crate) came_back: u64,
    pub(crate) came_back_since: u64,
}

/// One queue to which the replay sends, as the broker describes it now; what it does not tell is left out.
#[derive(Debug, Default, Serialize)]
pub(crate) struct QueueEvidence {
    pub(crate) queue: String,
    /// The consumer group that is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) group: Option<String>,
    /// Messages that wait.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) depth: Option<u64>,
    /// Messages that consumers have and did not settle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) in_flight: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) consumers: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) oldest: Option<Timestamp>,
    /// How far the group is, by partition: everything before it is settled.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) positions: BTreeMap<i32, i64>,
    /// Why the broker told nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) problem: Option<String>,
}

/// The evidence of a replay, or of each of its parts that has letters in doubt.
pub(crate) async fn evidence(office: &Office, id: ReplayId) -> Result<Vec<Evidence>, StoreError> {
    let replay = office.store.replay(id).await?;
    let parts = office.store.children(id).await?;
    let meant = if parts.is_empty() { vec![replay] } else { parts };
    let mut all = Vec::new();
    for replay in meant.iter().filter(|replay| replay.counts.get(ItemState::InDoubt) > 0) {
        all.push(of_one(office, replay).await?);
    }
    Ok(all)
}

async fn of_one(office: &Office, replay: &Replay) -> Result<Evidence, StoreError> {
    let (first_at, last_at) = span(office, replay.id).await?;
    let since = first_at.map_or(Timestamp::EPOCH, |first| first.minus(Duration::from_micros(1)));
    let came_back_since = office.store.returns(replay.id, since, RETURNS).await?.len().min(RETURNS) as u64;
    Ok(Evidence {
        replay: replay.id,
        source: replay.source.clone(),
        in_doubt: replay.counts.get(ItemState::InDoubt),
        first_at,
        last_at,
        asked_at: office.now(),
        queues: queues(office, replay).await?,
        confirmed: replay.counts.get(ItemState::Confirmed),
        came_back: replay.counts.failed_again(),
        came_back_since,
    })
}

/// When the first and the last item in doubt were intended.
async fn span(office: &Office, id: ReplayId) -> Result<(Option<Timestamp>, Option<Timestamp>), StoreError> {
    let (mut first, mut last): (Option<Timestamp>, Option<Timestamp>) = (None, None);
    let mut page = Page::first(Page::MOST);
    loop {
        let found = office.store.items(id, Some(ItemState::InDoubt), &page).await?;
        for at in found.items.iter().filter_map(|item| item.at) {
            first = Some(first.map_or(at, |first| first.min(at)));
            last = Some(last.map_or(at, |last| last.max(at)));
        }
        let Some(next) = found.next else { return Ok((first, last)) };
        page.cursor = Some(next);
    }
}

async fn queues(office: &Office, replay: &Replay) -> Result<Vec<QueueEvidence>, StoreError> {
    let Some(target) = replay.source.as_ref().and_then(|source| office.targets.get(source)) else {
        return Ok(Vec::new());
    };
    let note = Note::read(office.store.marked(replay.id).await?.as_deref());
    let main = replay.settings.target.named().unwrap_or(&target.queue);
    let mut names: Vec<&str> = note.queues.keys().map(String::as_str).collect();
    if names.is_empty() {
        names.push(main);
    }
    let mut all = Vec::new();
    for name in names.into_iter().take(QUEUES) {
        let group = group(replay, target).filter(|_| name == main);
        all.push(of_queue(target, name, group).await);
    }
    Ok(all)
}

async fn of_queue(target: &ReplayTarget, queue: &str, group: Option<String>) -> QueueEvidence {
    let broker = &target.broker;
    let inspector = broker.inspector();
    let mut evidence = QueueEvidence { queue: queue.to_owned(), group, ..QueueEvidence::default() };
    let group = evidence.group.as_deref();
    match in_time(inspector.inspect(queue, group)).await {
        Ok(state) => {
            evidence.depth = state.depth;
            evidence.in_flight = state.in_flight;
            evidence.consumers = state.consumers;
            evidence.oldest = state.oldest;
        }
        Err(error) => {
            evidence.problem = Some(error.to_string());
            return evidence;
        }
    }
    // Where a broker keeps no positions it refuses, and that is no problem.
    if let Some(group) = group
        && let Ok(passed) = in_time(broker.passed(queue, group)).await
    {
        evidence.positions = passed.into_iter().map(|one| (one.partition, one.next)).collect();
    }
    evidence
}

async fn in_time<T>(call: impl Future<Output = Result<T, BrokerError>>) -> Result<T, BrokerError> {
    let late = || BrokerError::Unavailable(format!("no answer within {PATIENCE:?}"));
    tokio::time::timeout(PATIENCE, call).await.unwrap_or_else(|_| Err(late()))
}
