//! Letters become messages again: the story of their death is taken off, the mark of the replay put on.
//!
//! The payload is what was captured, byte for byte, or the repair that stands in its place. Where it goes is where it
//! came from, unless the replay names another queue.

use std::time::Duration;

use dlo_core::broker::{Destination, Outgoing};
use dlo_core::envelope::{ReplayMark, decode, mark_replayed};
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use dlo_core::replay::planner::is_pointer;
use dlo_core::replay::produced::{self, Place, Produced};
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

    /// What is inside, where somebody wrapped an envelope around the message. Repairs are laid over the letter as it was
    /// captured, so that one expression means the same everywhere; the wrapping comes off last.
    fn unwrap(&self, message: Message, wrapped: bool) -> Result<Message, Unfit> {
        let unfit = |why: &str| Err(Unfit::Letter(why.to_owned()));
        // Plans leave these out; letters that an older version stored are not marked, and show it here.
        if is_pointer(&message.headers) {
            return unfit("it only points to a record, and that is gone: there is nothing to send");
        }
        match (self.unwrapped(&message), wrapped) {
            (Some(inside), _) => Ok(inside),
            (None, false) => Ok(message),
            (None, true) => unfit(
                "the repair left nothing to unwrap: the letter came in an envelope, which is taken off before it is sent",
            ),
        }
    }

    fn unwrapped(&self, message: &Message) -> Option<Message> {
        produced::unwrapped(message, self.target.place())
    }

    /// The message as it was produced, with the mark of this send, and its way.
    fn produced(
        &self,
        captured: &Headers,
        message: Message,
        mut to: Destination,
        mark: &ReplayMark,
        settings: &Settings,
    ) -> Result<Outgoing, Unfit> {
        let place = Place { queue: &to.queue, ..self.target.place() };
        let produced = produced::produced(captured, message, place, settings);
        let Produced { mut message, route } =
            produced.map_err(|unknown| Unfit::Letter(unknown.to_string()))?;
        mark_replayed(&mut message.headers, mark);
        to.route = route;
        Ok(Outgoing { to, message, delay: None })
    }

    /// Where an item goes.
    pub(super) fn destination(&self, item: &ToSend, target: &Target) -> Destination {
        match target.named() {
            Some(queue) => Destination::queue(queue),
            None => home(item, self.broker().capabilities().kind, &self.target.queue),
        }
    }

    /// What is sent of an item; the marks say which letter, which send, the how-manieth.
    pub(super) async fn outgoing(&self, items: Vec<ToSend>, settings: &Settings) -> Prepared {
        let frames: Vec<(u64, Destination, ReplayMark, bool, Headers)> = items
            .iter()
            .map(|item| {
                let group = match settings.target {
                    Target::FailedGroup => item.consumer.clone().or_else(|| self.target.group.clone()),
                    Target::Original | Target::Queue(_) | Target::Route(_) => None,
                };
                let mark = ReplayMark {
                    letter: Some(item.letter),
                    replay_id: send_id(self.id, item.number),
                    count: item.replays.saturating_add(1),
                    target_group: group,
                };
                let wrapped = settings.repair.is_some() && self.unwrapped(&item.message).is_some();
                let captured = self.captured(item, settings);
                (item.number, self.destination(item, &settings.target), mark, wrapped, captured)
            })
            .collect();
        let messages = self.prepare(items, settings).await;
        frames
            .into_iter()
            .zip(messages)
            .map(|((number, to, mark, wrapped, captured), message)| {
                let outgoing = message
                    .and_then(|message| self.unwrap(message, wrapped))
                    .and_then(|message| self.produced(&captured, message, to, &mark, settings));
                (number, outgoing)
            })
            .collect()
    }

    /// The headers of the letter as it was captured, where it must be known how it was published: what an envelope held
    /// may have none of them.
    fn captured(&self, item: &ToSend, settings: &Settings) -> Headers {
        match self.broker().capabilities().kind {
            BrokerKind::Rabbitmq if produced::needs_captured(settings) => item.message.headers.clone(),
            _ => Headers::new(),
        }
    }
}

/// The queue of its source, and there its partition. Another queue only where our own story of the death names it: what
/// others wrote on a letter must not choose where the office publishes, and where nobody said anything the origin is the
/// dead-letter queue itself. A queue of Pub/Sub may be a subscription, which takes no messages.
fn home(item: &ToSend, broker: BrokerKind, queue: &str) -> Destination {
    let origin = &item.origin;
    let elsewhere = || broker != BrokerKind::Pubsub && ours(&item.message).as_ref() == Some(&origin.queue);
    if origin.broker == broker && (origin.queue == queue || elsewhere()) {
        return Destination { partition: origin.partition, ..Destination::queue(&origin.queue) };
    }
    Destination::queue(queue)
}

/// The queue that our own story of the death names.
fn ours(message: &Message) -> Option<String> {
    decode(&message.headers)?.origin.queue
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

#[cfg(test)]
mod tests {
    use dlo_core::envelope::{Envelope, OriginHeaders, encode};
    use dlo_core::id::LetterId;
    use dlo_core::origin::Origin;

    use super::*;

    fn item(origin: Origin, message: Message) -> ToSend {
        ToSend {
            number: 0,
            letter: LetterId(uuid::Uuid::from_u128(1)),
            source: "orders".to_owned(),
            origin,
            consumer: None,
            error_class: None,
            event_type: None,
            message,
            repaired: false,
            replays: 0,
        }
    }

    fn told(origin: &Origin) -> Message {
        let envelope = Envelope { origin: OriginHeaders::new(origin, None), ..Envelope::default() };
        encode(&Message::default(), &envelope, 100_000).unwrap()
    }

    #[test]
    fn a_letter_goes_to_the_queue_of_its_source_unless_our_own_story_names_another() {
        use BrokerKind::{Kafka, Pubsub};
        let to = |origin: &Origin, message, broker| {
            let to = home(&item(origin.clone(), message), broker, "orders");
            (to.queue, to.partition)
        };
        let source = || ("orders".to_owned(), None);
        let own = Origin::log(Kafka, "orders", 3, 41);
        assert_eq!(to(&own, Message::default(), Kafka), ("orders".to_owned(), Some(3)));
        // Nobody said where it came from, so that the origin is where it was found.
        let found = Origin::log(Kafka, "orders.dlq", 3, 41);
        assert_eq!(to(&found, Message::default(), Kafka), source());
        let mut forged = Message::default();
        forged.headers.push_text("x-original-topic", "payments");
        let other = Origin::log(Kafka, "payments", 3, 41);
        assert_eq!(to(&other, forged, Kafka), source());
        assert_eq!(to(&other, told(&other), Kafka), ("payments".to_owned(), Some(3)));
        assert_eq!(to(&other, told(&other), BrokerKind::Nats), source());
        let subscription = Origin::message(Pubsub, "projects/p/subscriptions/s", "1");
        assert_eq!(to(&subscription, told(&subscription), Pubsub), source());
    }
}
