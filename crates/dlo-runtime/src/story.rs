//! What a message remembers of its failures, and where that is kept between two deliveries.
//!
//! Four places, the most exact first: the headers of a retry hop; our own memory of what we put off, bounded; the journal,
//! for what is held here; and the broker's count. The broker also counts deliveries that our own restarts interrupted, so its count alone never
//! makes an attempt the last one: a deployment must not dead-letter anything.

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use dlo_core::attempt::{Attempt, AttemptRecord, History};
use dlo_core::broker::Delivery;
use dlo_core::envelope::{OriginHeaders, RetryHop, decode_hop, replay_mark};
use dlo_core::failure::Failure;
use dlo_core::id::DeathId;
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use dlo_core::poison::Mark;
use dlo_core::policy::RetryPolicy;
use dlo_core::time::Timestamp;
use dlo_core::verdict::{Situation, Verdict};

/// Stories kept while their messages wait at the broker. Beyond, the oldest is forgotten and the broker's count serves.
const MOST: usize = 50_000;

/// What came by less than this before its time is not sent round again.
const EARLY: Duration = Duration::from_millis(50);

/// One message's failures so far.
#[derive(Debug, Clone)]
pub(crate) struct Story {
    /// Where it was read first, over all hops.
    pub(crate) origin: Origin,
    pub(crate) published_at: Option<Timestamp>,
    /// An earlier copy of its dead letter may be there: see [`Story::of`].
    pub(crate) redelivered: bool,
    /// The attempt that is next, or under way.
    pub(crate) attempt: Attempt,
    /// When that attempt is due, if the broker may bring it earlier.
    pub(crate) due: Option<Timestamp>,
    pub(crate) first_failed_at: Option<Timestamp>,
    pub(crate) last_failed_at: Option<Timestamp>,
    pub(crate) history: History,
}

impl Story {
    /// The story of a delivery that is not remembered here. `carried`: attempts travel in headers, so the broker's count,
    /// which grows with each restart, says nothing of them.
    pub(crate) fn of(delivery: &Delivery, policy: &RetryPolicy, carried: bool) -> Self {
        if let Some(hop) = decode_hop(&delivery.message.headers) {
            return Self::of_hop(hop, delivery);
        }
        let counted = delivery.delivery_count.filter(|_| !carried).unwrap_or(1);
        let last_but_one = policy.attempts.get().saturating_sub(1).max(1);
        Self {
            origin: delivery.origin.clone(),
            published_at: delivery.published_at,
            redelivered: is_redelivered(&delivery.origin, delivery),
            attempt: Attempt::new(counted.min(last_but_one)).unwrap_or(Attempt::FIRST),
            due: None,
            first_failed_at: None,
            last_failed_at: None,
            history: History::default(),
        }
    }

    fn of_hop(hop: RetryHop, delivery: &Delivery) -> Self {
        let origin = hop.origin.origin().unwrap_or_else(|| delivery.origin.clone());
        Self {
            redelivered: hop.redelivered || is_redelivered(&origin, delivery),
            origin,
            published_at: hop.origin.timestamp.or(delivery.published_at),
            attempt: hop.attempt,
            due: hop.due,
            first_failed_at: hop.first_failed_at,
            last_failed_at: hop.history.records().last().map(|record| record.at),
            history: hop.history,
        }
    }

    /// The situation in which the attempt under way has failed.
    pub(crate) fn situation(&self, now: Timestamp) -> Situation {
        Situation {
            attempt: self.attempt,
            first_failed_at: self.first_failed_at.unwrap_or(now),
            now,
            previous_delay: self.history.records().last().and_then(AttemptRecord::delay),
        }
    }

    /// Writes down the attempt that failed and what was decided.
    pub(crate) fn failed(&mut self, failure: &Failure, verdict: &Verdict, now: Timestamp) {
        let delay_ms = match verdict {
            Verdict::Retry { after, .. } => u64::try_from(after.as_millis()).ok(),
            Verdict::DeadLetter { .. } | Verdict::Discard { .. } => None,
        };
        self.first_failed_at.get_or_insert(now);
        self.last_failed_at = Some(now);
        self.history.push(AttemptRecord {
            number: self.attempt.number(),
            at: now,
            error_class: Some(failure.class.clone()).filter(|class| !class.is_empty()),
            message: Some(failure.message.clone()),
            verdict: Some(verdict.kind()),
            delay_ms,
        });
    }

    pub(crate) fn next_attempt(&mut self) {
        self.attempt = self.attempt.next();
    }

    /// How long it has still to wait for its attempt, if it came too early.
    pub(crate) fn early(&self, now: Timestamp) -> Option<Duration> {
        self.due.map(|due| due.since(now)).filter(|early| *early > EARLY)
    }

    /// The deterministic id of this message's death: its place, or where it has none, its bytes.
    pub(crate) fn death_id(&self, message: &Message, group: &str) -> DeathId {
        let replays = replay_mark(&message.headers).map_or(0, |mark| mark.count);
        if has_coordinates(&self.origin) {
            return self.origin.death_id(Some(group), replays);
        }
        let bytes = format!("bytes:{:016x}", digest(message));
        let named = Origin { message_id: Some(bytes), ..self.origin.clone() };
        named.death_id(Some(group), replays)
    }

    /// By which this consumer knows the message again.
    pub(crate) fn mark(&self, message: &Message) -> Mark {
        let mut hasher = DefaultHasher::new();
        let origin = &self.origin;
        origin.queue.hash(&mut hasher);
        if has_coordinates(origin) {
            (&origin.incarnation, origin.partition, origin.offset, &origin.message_id).hash(&mut hasher);
        } else {
            digest(message).hash(&mut hasher);
        }
        Mark(hasher.finish())
    }

    /// What the message carries to its next attempt.
    pub(crate) fn hop(&self) -> RetryHop {
        RetryHop {
            attempt: self.attempt,
            redelivered: self.redelivered,
            due: self.due,
            first_failed_at: self.first_failed_at,
            history: self.history.clone(),
            origin: OriginHeaders::new(&self.origin, self.published_at),
        }
    }
}

/// Whether this delivery of the message is another life of it.
///
/// A message has two lives when it is delivered twice, and each may write a letter or a retry: the first one wrote it, and
/// died before the broker had the acknowledgement. The broker marks the second delivery, so of all deliveries of one copy
/// one at most has no mark. A retry is a new copy, whose first delivery has no mark of the broker's: it carries the mark
/// of the delivery that wrote it (`dlo-redelivered`, kept over all hops). So of all letters of one message one at most
/// has no mark, and a message that was delivered once, retries included, never has one.
fn is_redelivered(origin: &Origin, delivery: &Delivery) -> bool {
    delivery.redelivered && !origin.has_coordinates()
}

fn has_coordinates(origin: &Origin) -> bool {
    origin.offset.is_some() || origin.message_id.is_some()
}

/// The bytes of a message, without what we put on it ourselves. Good for this machine and this build, which is all it is
/// used for, but for the id of a death that has no place; that one need not be found again after an upgrade.
fn digest(message: &Message) -> u64 {
    let mut hasher = DefaultHasher::new();
    message.key.hash(&mut hasher);
    message.payload.hash(&mut hasher);
    for header in message.headers.on_wire().filter(|header| !header.name.starts_with("dlo-")) {
        header.hash(&mut hasher);
    }
    hasher.finish()
}

/// Stories of messages that wait at the broker, by where they are there.
#[derive(Debug, Default)]
pub(crate) struct Stories {
    by_place: HashMap<Place, Story>,
    oldest_first: VecDeque<Place>,
}

type Place = (Option<i32>, Option<i64>, Option<String>);

fn place(origin: &Origin) -> Place {
    (origin.partition, origin.offset, origin.message_id.clone())
}

impl Stories {
    pub(crate) fn len(&self) -> usize {
        self.by_place.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }

    /// `at`: where the broker will deliver it again.
    pub(crate) fn remember(&mut self, at: &Origin, story: Story) {
        let place = place(at);
        if place.1.is_none() && place.2.is_none() {
            return; // without coordinates it could not be told from its neighbours
        }
        if self.by_place.insert(place.clone(), story).is_none() {
            self.oldest_first.push_back(place);
        }
        while self.oldest_first.len() > MOST {
            if let Some(oldest) = self.oldest_first.pop_front() {
                self.by_place.remove(&oldest);
            }
        }
    }

    pub(crate) fn recall(&mut self, at: &Origin) -> Option<Story> {
        let story = self.by_place.remove(&place(at));
        // Places that were recalled are dropped from the queue when they come to its front, or when it is mostly them.
        if self.oldest_first.len() > 2 * self.by_place.len() + 16 {
            self.oldest_first.retain(|place| self.by_place.contains_key(place));
        }
        story
    }
}

#[cfg(test)]
mod tests {
    use dlo_core::broker::DeliveryTag;
    use dlo_core::message::Message;
    use dlo_core::origin::BrokerKind;

    use super::*;

    fn delivered(count: Option<u32>) -> Delivery {
        let origin = Origin::log(BrokerKind::Memory, "orders", 0, 1);
        let mut delivery = Delivery::new(Message::default(), origin, DeliveryTag(0));
        delivery.delivery_count = count;
        delivery
    }

    #[test]
    fn the_brokers_count_alone_never_makes_an_attempt_the_last_one() {
        let policy = RetryPolicy::default();
        let attempt = |count| Story::of(&delivered(count), &policy, false).attempt.number();
        assert_eq!((attempt(None), attempt(Some(1)), attempt(Some(3)), attempt(Some(99))), (1, 1, 3, 4));
        assert_eq!(
            Story::of(&delivered(Some(3)), &policy, true).attempt.number(),
            1,
            "kills are no attempts"
        );
    }

    #[test]
    fn stories_are_bounded_and_the_oldest_goes_first() {
        let mut stories = Stories::default();
        let at = |n: i64| Origin::log(BrokerKind::Memory, "orders", 0, n);
        let story = Story::of(&delivered(None), &RetryPolicy::default(), false);
        for n in 0..=MOST as i64 {
            stories.remember(&at(n), story.clone());
        }
        assert_eq!(stories.len(), MOST);
        assert!(stories.recall(&at(0)).is_none() && stories.recall(&at(1)).is_some());
    }

    #[test]
    fn remembering_and_recalling_for_ever_takes_no_memory() {
        let mut stories = Stories::default();
        let story = Story::of(&delivered(None), &RetryPolicy::default(), false);
        for n in 0..10_000 {
            let at = Origin::log(BrokerKind::Memory, "orders", 0, n);
            stories.remember(&at, story.clone());
            assert!(stories.recall(&at).is_some());
        }
        assert!(stories.is_empty() && stories.oldest_first.len() <= 17);
    }
}
