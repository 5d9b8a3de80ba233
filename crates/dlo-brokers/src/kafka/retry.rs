//! Retries that wait: a topic for each delay, beside the queue, for one group.
//!
//! Kafka cannot put off a record. What should come again later is therefore copied to `<queue>.retry.<group>.<delay>`,
//! and the original is done when the copy is confirmed. Every record of such a topic waits equally long, so the
//! first one is always the first one due, and nothing overtakes. The members of the group read these topics as they
//! read the queue, and hold each record until its time. The copy carries where the message first stood, so it is the
//! same message to everybody.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use dlo_core::message::Headers;
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::time::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::lanes::Record;

/// The delays for which there are topics; others are rounded up.
const TIERS: [(Duration, &str); 5] = [
    (Duration::from_secs(1), "1s"),
    (Duration::from_secs(5), "5s"),
    (Duration::from_secs(30), "30s"),
    (Duration::from_secs(120), "2m"),
    (Duration::from_secs(600), "10m"),
];
/// The longest delay that is kept without holding up what waits beside it.
pub(super) const LONGEST: Duration = Duration::from_secs(600);
/// Records of one retry partition that are fetched before their time.
pub(super) const AHEAD: usize = 100;
/// Kafka's longest name of a topic.
const NAME: usize = 249;

/// The header on the wire. No client writes such a name by itself.
pub(super) const HEADER: &str = "kafka:retry";

/// What a copy says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ticket {
    /// Not to be delivered before, in milliseconds since 1970.
    due: i64,
    queue: String,
    incarnation: Option<String>,
    partition: Option<i32>,
    offset: Option<i64>,
    published: Option<i64>,
}

fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Ticket {
    /// For `record`, which should wait for `after`.
    pub(super) fn new(record: &Record, after: Duration) -> Self {
        let wait = i64::try_from(after.max(tier(after).0).as_millis()).unwrap_or(i64::MAX);
        Self {
            due: now().saturating_add(wait),
            queue: record.origin.queue.clone(),
            incarnation: record.origin.incarnation.clone(),
            partition: record.origin.partition,
            offset: record.origin.offset,
            published: record.published_at.map(Timestamp::as_millis),
        }
    }

    pub(super) fn to_bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Takes the ticket out of a record that was read from a retry topic, and makes it what it was before.
    pub(super) fn redeem(record: &mut Record) {
        let ticket = record.message.headers.last(HEADER).and_then(|header| header.value.clone());
        let ticket = ticket.and_then(|bytes| serde_json::from_slice::<Self>(&bytes).ok());
        take_off(&mut record.message.headers);
        // A record that somebody else put there is a message of its own.
        let Some(ticket) = ticket else { return };
        let wait = u64::try_from(ticket.due.saturating_sub(now())).unwrap_or(0);
        // Nothing we write waits longer than this; a ticket that says so is not ours to obey.
        let wait = Duration::from_millis(wait).min(7 * 144 * LONGEST);
        record.due = Instant::now().checked_add(wait).filter(|_| !wait.is_zero());
        record.redelivered = true;
        record.published_at = ticket.published.map(Timestamp::from_millis);
        record.origin = Origin {
            broker: BrokerKind::Kafka,
            queue: ticket.queue,
            incarnation: ticket.incarnation,
            partition: ticket.partition,
            offset: ticket.offset,
            message_id: None,
        };
    }
}

fn take_off(headers: &mut Headers) {
    headers.remove_where(|name| name == HEADER);
}

fn tier(after: Duration) -> (Duration, &'static str) {
    let fits = TIERS.iter().find(|(delay, _)| *delay >= after);
    *fits.unwrap_or(&TIERS[TIERS.len() - 1])
}

/// The topic in which a retry after `after` waits.
pub(super) fn topic(queue: &str, group: &str, after: Duration) -> String {
    name(queue, group, tier(after).1)
}

/// All retry topics that a group may have on a queue.
pub(super) fn topics(queue: &str, group: &str) -> Vec<String> {
    TIERS.iter().map(|(_, word)| name(queue, group, word)).collect()
}

/// The names of the topics for these delays, each once.
pub(super) fn topics_for(queue: &str, group: &str, delays: &[Duration]) -> Vec<String> {
    let mut names: Vec<String> = delays.iter().map(|delay| topic(queue, group, *delay)).collect();
    names.sort();
    names.dedup();
    names
}

fn name(queue: &str, group: &str, word: &str) -> String {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    let plain = format!("{queue}.retry.{group}.{word}");
    if group.chars().all(fits) && plain.len() <= NAME {
        return plain;
    }
    // Groups may be called what topics may not: then a digest of the group's name stands for it.
    let digest: String =
        Sha256::digest(group.as_bytes()).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    format!("{queue}.retry.{digest}.{word}")
}

#[cfg(test)]
mod tests {
    use dlo_core::message::Message;

    use super::*;

    fn record(message: Message) -> Record {
        Record {
            offset: 3,
            size: 0,
            message,
            origin: Origin::log(BrokerKind::Kafka, "orders.retry.g.5s", 0, 3),
            published_at: None,
            redelivered: false,
            due: None,
        }
    }

    #[test]
    fn delays_are_rounded_up_to_a_topic() {
        assert_eq!(topic("orders", "g", Duration::from_millis(10)), "orders.retry.g.1s");
        assert_eq!(topic("orders", "g", Duration::from_secs(5)), "orders.retry.g.5s");
        assert_eq!(topic("orders", "g", Duration::from_secs(31)), "orders.retry.g.2m");
        assert_eq!(topic("orders", "g", Duration::from_secs(86_400)), "orders.retry.g.10m");
        let asked = [Duration::from_secs(2), Duration::from_secs(3), Duration::from_secs(600)];
        assert_eq!(topics_for("q", "g", &asked), ["q.retry.g.10m", "q.retry.g.5s"]);
    }

    #[test]
    fn a_group_that_is_no_name_for_a_topic_still_has_topics_of_its_own() {
        let (one, other) = (topics("q", "team a/b"), topics("q", "team a/c"));
        assert_ne!(one, other);
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        assert!(one.iter().all(|name| name.chars().all(fits)), "{one:?}");
    }

    #[test]
    fn a_copy_is_the_same_message_again_with_its_first_place() {
        let mut first = record(Message::default());
        first.origin = Origin::log(BrokerKind::Kafka, "orders", 4, 99).in_incarnation("life");
        let ticket = Ticket::new(&first, Duration::from_secs(2));
        let mut message = Message::default();
        message.headers.push_text("x-tenant", "acme");
        message.headers.push(HEADER, Some(ticket.to_bytes().into()));
        let mut copy = record(message);
        Ticket::redeem(&mut copy);
        assert_eq!(copy.origin, first.origin);
        assert_eq!(copy.message.headers.len(), 1, "the ticket was for us only");
        let wait = copy.due.unwrap().duration_since(Instant::now());
        assert!(copy.redelivered && wait > Duration::from_secs(4), "rounded up to five seconds: {wait:?}");
    }

    #[test]
    fn a_strange_record_in_a_retry_topic_is_delivered_as_it_is() {
        let mut message = Message::default();
        message.headers.push_text(HEADER, "{\"due\":");
        let mut strange = record(message);
        Ticket::redeem(&mut strange);
        assert_eq!((strange.due, strange.origin.offset), (None, Some(3)));
    }
}
