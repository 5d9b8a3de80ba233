//! Letters become messages again: the story of their death is taken off, the mark of the replay put on.
//!
//! The payload is what was captured, byte for byte, or the repair that stands in its place. Where it goes is where it
//! came from, unless the replay names another queue.

use dlo_core::broker::{Destination, Outgoing};
use dlo_core::envelope::{ReplayMark, mark_replayed, strip_for_replay};
use dlo_core::message::{Message, Payload};
use dlo_core::replay::{Settings, Target, send_id};
use dlo_core::time::Timestamp;
use dlo_store::replays::{SendEnd, ToSend};

use super::hand::Hand;

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

impl Ready {
    /// What it is when it did not go out this time.
    pub(super) fn unsent(&self) -> SendEnd {
        if self.again { SendEnd::Doubtful } else { SendEnd::Unsent }
    }
}

impl Hand {
    /// The message of each item, or why it cannot be sent.
    pub(super) async fn prepare(
        &self,
        items: Vec<ToSend>,
        settings: &Settings,
    ) -> Vec<Result<Message, String>> {
        let refusal = settings.repair.as_ref().map(|repair| {
            format!(
                "this office cannot apply a repair on the way yet (`{}`): repair the letters first",
                repair.expression
            )
        });
        items.into_iter().map(|item| refusal.clone().map_or(Ok(item.message), Err)).collect()
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
    pub(super) async fn outgoing(
        &self,
        items: Vec<ToSend>,
        settings: &Settings,
    ) -> Vec<(u64, Result<Outgoing, String>)> {
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
