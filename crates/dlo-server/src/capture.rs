//! Capture: a dead-letter queue is drained into the store.
//!
//! The order is the promise: receive, admit, insert, and only when the letters are durable is the broker told.
//! A crash between the last two leaves a second delivery, which the dedupe key recognises. Nothing is refused here, because
//! nobody else would keep it. When store or broker are away, capture waits; the letters are safe in the queue.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dlo_core::broker::{BrokerError, Delivery, Settlement, Settler, Source, Unsettled};
use dlo_core::envelope;
use dlo_core::letter::NewLetter;
use dlo_core::message::Headers;
use dlo_core::time::Timestamp;
use dlo_store::{Inserted, StoreError};
use serde::Serialize;
use tokio_util::sync::CancellationToken;

use crate::admit::{Draft, Manner, Refusal};
use crate::ingest::chunk;
use crate::office::Office;

/// Deliveries taken at once.
const BATCH: usize = 500;
/// How long one question to the broker may wait for a message.
const WAIT: Duration = Duration::from_secs(1);
/// Pauses while store or broker are away: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// How the capture of one source stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CaptureStatus {
    pub source: String,
    pub state: CaptureState,
    /// Why it waits or ended.
    pub problem: Option<String>,
    pub captured: u64,
    pub duplicates: u64,
    pub last_captured: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum CaptureState {
    Running,
    /// Store or broker are away; it goes on by itself.
    Waiting,
    /// It cannot go on by itself, or the office is closing.
    Ended,
}

/// The live status of every capture.
#[derive(Debug, Default)]
pub(crate) struct CaptureBoard(Mutex<BTreeMap<String, CaptureStatus>>);

impl CaptureBoard {
    pub(crate) fn all(&self) -> Vec<CaptureStatus> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).values().cloned().collect()
    }

    fn update(&self, source: &str, change: impl FnOnce(&mut CaptureStatus)) {
        let mut board = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(board.entry(source.to_string()).or_insert_with(|| CaptureStatus {
            source: source.to_string(),
            state: CaptureState::Running,
            problem: None,
            captured: 0,
            duplicates: 0,
            last_captured: None,
        }));
    }

    fn set(&self, source: &str, state: CaptureState, problem: Option<String>) {
        self.update(source, |status| {
            status.state = state;
            status.problem = problem;
        });
    }
}

/// Drains `queue` as letters of `source` until `stop`.
pub(crate) async fn run(
    office: Arc<Office>,
    source: String,
    mut queue: Box<dyn Source>,
    stop: CancellationToken,
) {
    let settler = queue.settler();
    let mut pause = FIRST_PAUSE;
    office.captures.set(&source, CaptureState::Running, None);
    while let Some(received) = stop.run_until_cancelled(queue.receive(BATCH, WAIT)).await {
        let outcome = match received {
            Ok(deliveries) => take_in(&office, &source, deliveries, &*settler, &stop).await,
            Err(error) => Err(error),
        };
        match outcome {
            Ok(()) => {
                office.captures.set(&source, CaptureState::Running, None);
                pause = FIRST_PAUSE;
            }
            Err(BrokerError::Closed) => break,
            Err(error) => {
                tracing::warn!(source, %error, "capture waits for the broker");
                office.captures.set(&source, CaptureState::Waiting, Some(error.to_string()));
                if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                    break;
                }
                pause = (pause * 2).min(LAST_PAUSE);
            }
        }
    }
    office.captures.set(&source, CaptureState::Ended, None);
    if let Err(error) = queue.close().await {
        tracing::warn!(source, %error, "the source did not close cleanly; what was not settled is delivered again");
    }
}

/// Makes deliveries durable, then tells the broker.
async fn take_in(
    office: &Office,
    source: &str,
    deliveries: Vec<Delivery>,
    settler: &dyn Settler,
    stop: &CancellationToken,
) -> Result<(), BrokerError> {
    let mut letters = Vec::with_capacity(deliveries.len());
    let mut held: Vec<Unsettled> = Vec::with_capacity(deliveries.len());
    for delivery in deliveries {
        match admit(office, source, delivery) {
            Ok((letter, unsettled)) => {
                letters.push(letter);
                held.push(unsettled);
            }
            // Dropped, and so delivered again: whoever mends the configuration finds it in the queue.
            Err(refusal) => tracing::error!(source, code = refusal.code, "a delivery cannot become a letter"),
        }
    }
    let Some(inserted) = insert(office, source, letters, stop).await else { return Ok(()) };
    let settled = held.into_iter().map(|unsettled| unsettled.settle(Settlement::Done)).collect();
    let duplicates = inserted.iter().filter(|one| matches!(one, Inserted::Duplicate(_))).count() as u64;
    let new = inserted.len() as u64 - duplicates;
    let now = office.now();
    office.captures.update(source, |status| {
        status.captured += new;
        status.duplicates += duplicates;
        if new > 0 {
            status.last_captured = Some(now);
        }
    });
    settler.settle(settled).await
}

/// Inserts, for as long as it takes. `None`: the office closes and nothing was stored.
async fn insert(
    office: &Office,
    source: &str,
    letters: Vec<NewLetter>,
    stop: &CancellationToken,
) -> Option<Vec<Inserted>> {
    let mut pause = FIRST_PAUSE;
    loop {
        let error = match chunk::insert(office, letters.clone(), office.now()).await {
            Ok(inserted) => return Some(inserted),
            Err(error) => error,
        };
        match &error {
            StoreError::Overloaded => tracing::debug!(source, "capture waits for the store"),
            _ => tracing::warn!(source, %error, "capture waits for the store"),
        }
        office.captures.set(source, CaptureState::Waiting, Some(error.to_string()));
        stop.run_until_cancelled(tokio::time::sleep(pause)).await?;
        pause = (pause * 2).min(LAST_PAUSE);
    }
}

fn admit(office: &Office, source: &str, delivery: Delivery) -> Result<(NewLetter, Unsettled), Refusal> {
    let published_at = delivery.published_at;
    let counted = delivery.delivery_count;
    let (message, parked, unsettled) = delivery.split();
    let story = envelope::decode(&message.headers).unwrap_or_default();
    let mut draft =
        Draft::new(source.to_string(), story.origin.origin().unwrap_or_else(|| parked.clone()), message);
    follow_well_known(&mut draft);
    draft.reason = story.reason;
    draft.verdict = story.verdict;
    draft.rule = story.rule;
    draft.error_class = story.error_class;
    draft.error_message = story.error_message.unwrap_or_default();
    draft.error_code = story.error_code;
    draft.error_stack = story.error_stack;
    // Deliveries of a dead-letter queue count our own reading; they are better than nothing only at the first.
    draft.attempts = story.attempts.or(counted.filter(|count| *count > 1));
    draft.history = story.history;
    draft.first_failed_at = story.first_failed_at;
    draft.failed_at = story.dead_at.or(story.last_failed_at);
    draft.published_at = story.origin.timestamp.or(published_at);
    draft.consumer = story.consumer_group;
    draft.consumer_id = story.consumer_id;
    draft.consumer_version = story.consumer_version;
    if let Some(mark) = envelope::replay_mark(&draft.message.headers) {
        draft.replay_of = mark.letter;
        draft.replay_id = Some(mark.replay_id);
    }
    // Where the story names no coordinates, the place in the dead-letter queue still tells a second delivery.
    let otherwise = parked.dedupe_key(source, draft.consumer.as_deref(), draft.replay_id.as_deref());
    let letter = office.admission.admit(draft, Manner::Mend, otherwise, office.now())?;
    Ok((letter, unsettled))
}

/// Names under which the field writes what our own headers do not carry.
const EVENT_TYPE: &[&str] = &["event-type", "event_type", "x-event-type", "ce_type", "ce-type"];
const EVENT_VERSION: &[&str] = &["event-version", "event_version", "x-event-version"];
const CORRELATION: &[&str] = &["correlation-id", "correlation_id", "x-correlation-id"];

fn follow_well_known(draft: &mut Draft) {
    let first = |headers: &Headers, names: &[&str]| {
        names.iter().find_map(|name| headers.text(name)).map(String::from)
    };
    let headers = &draft.message.headers;
    draft.event_type = first(headers, EVENT_TYPE);
    draft.event_version = first(headers, EVENT_VERSION);
    draft.correlation_id = first(headers, CORRELATION);
    // `traceparent` is version-trace-span-flags.
    draft.trace_id =
        headers.text("traceparent").and_then(|parent| parent.split('-').nth(1)).map(String::from);
}
