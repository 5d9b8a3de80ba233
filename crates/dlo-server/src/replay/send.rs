//! Letters become messages again: the story of their death is taken off, the mark of the replay put on.
//!
//! The payload is what was captured, byte for byte, or the repair that stands in its place. Where it goes is where it
//! came from, unless the replay names another queue.

use std::time::Duration;

use dlo_core::broker::{Destination, Outgoing};
use dlo_core::envelope::{ReplayMark, mark_replayed, strip_for_replay};
use dlo_core::message::{Message, Payload};
use dlo_core::replay::{Settings, Target, send_id};
use dlo_core::time::Timestamp;
use dlo_store::replays::{SendEnd, ToSend};

use super::calls::Prepared;
use super::hand::Hand;
use crate::repair::{Facts, Mended, RepairError, Subject};

/// How often a repair on the way is tried while its worker does not start, and how long it waits in between.
const TRIES: u32 = 3;
const PAUSE: Duration = Duration::from_secs(1);

/// An item that may be published.
#[derive(Debug)]
pub(super) struct Ready {
    pub(super) number: u64,
    pub(super) key: Option<Payload>,
    pub(super) outgoing: Outgoing,
    /// It was in doubt before: it may be in the queue, whatever becomes of this send.
    pub(super) again: bool,
    /// Only before this is sending it again safe.
    pub(super) before: Option<Timestamp>,
    /// Which generation of intents it belongs to.
    pub(super) generation: u64,
}

/// Why an item is not sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unfit {
    /// It never can be: it is refused.
    Letter(String),
    /// None can be now, whichever letter it is: it stays as it was, and a person is asked.
    Any(String),
}

impl Ready {
    /// What it is when it did not go out this time.
    pub(super) fn unsent(&self) -> SendEnd {
        if self.again { SendEnd::Doubtful } else { SendEnd::Unsent }
    }
}

impl Hand {
    /// The message of each item, or why it cannot be sent. A repair on the way is laid over what would be sent.
    pub(super) async fn prepare(
        &self,
        items: Vec<ToSend>,
        settings: &Settings,
    ) -> Vec<Result<Message, Unfit>> {
        let Some(repair) = &settings.repair else {
            return items.into_iter().map(|item| Ok(item.message)).collect();
        };
        let ids: Vec<String> = items.iter().map(|item| item.letter.to_string()).collect();
        let subjects: Vec<Subject<'_>> = items
            .iter()
            .zip(&ids)
            .map(|(item, id)| Subject { message: &item.message, facts: facts(item, id) })
            .collect();
        match self.mend(&repair.expression, &subjects).await {
            Ok(mended) => mended
                .into_iter()
                .zip(&items)
                .map(|(mended, item)| match mended {
                    Ok(mended) => Ok(mended.repaired.or(&item.message)),
                    Err(why) => Err(Unfit::Letter(why)),
                })
                .collect(),
            Err(error) => items.iter().map(|_| Err(Unfit::Any(error.to_string()))).collect(),
        }
    }

    /// A worker that does not start may start a moment later; an expression that is not understood never is.
    async fn mend(
        &self,
        expression: &str,
        subjects: &[Subject<'_>],
    ) -> Result<Vec<Result<Mended, String>>, RepairError> {
        let mut tries = 1;
        loop {
            match self.engine.repairs.apply(expression, subjects).await {
                Err(RepairError::Worker(error)) if tries < TRIES => {
                    tracing::warn!(%error, "a repair on the way waits for its worker");
                    tokio::time::sleep(PAUSE).await;
                    tries += 1;
                }
                other => return other,
            }
        }
    }

    /// Where an item goes.
    pub(super) fn destination(&self, item: &ToSend, target: &Target) -> Destination {
        let able = self.broker().capabilities();
        if let Target::Queue(queue) = target {
            return Destination::queue(queue.clone());
        }
        // A letter that came in over HTTP, or from another broker, has no queue here but that of its source.
        if item.origin.broker != able.kind {
            return Destination::queue(self.target.queue.clone());
        }
        Destination { queue: item.origin.queue.clone(), partition: item.origin.partition }
    }

    /// What is sent of an item; the marks say which letter, which send, the how-manieth.
    pub(super) async fn outgoing(&self, items: Vec<ToSend>, settings: &Settings) -> Prepared {
        let frames: Vec<(u64, Destination, ReplayMark)> = items
            .iter()
            .map(|item| {
                let group = match settings.target {
                    Target::FailedGroup => item.consumer.clone().or_else(|| self.target.group.clone()),
                    Target::Original | Target::Queue(_) => None,
                };
                let mark = ReplayMark {
                    letter: Some(item.letter),
                    replay_id: send_id(self.id, item.number),
                    count: item.replays.saturating_add(1),
                    target_group: group,
                };
                (item.number, self.destination(item, &settings.target), mark)
            })
            .collect();
        let messages = self.prepare(items, settings).await;
        frames
            .into_iter()
            .zip(messages)
            .map(|((number, to, mark), message)| {
                let outgoing = message.map(|mut message| {
                    strip_for_replay(&mut message.headers);
                    mark_replayed(&mut message.headers, &mark);
                    Outgoing { to, message, delay: None }
                });
                (number, outgoing)
            })
            .collect()
    }
}

/// What an expression may know of the letter.
fn facts<'a>(item: &'a ToSend, id: &'a str) -> Facts<'a> {
    Facts {
        id,
        source: &item.source,
        event_type: item.event_type.as_deref(),
        error_class: item.error_class.as_deref(),
        consumer: item.consumer.as_deref(),
    }
}
