//! A message that a replay sent and that comes back without our headers: how it is recognised, and for how long.
//!
//! The same message id proves it, because we have just sent that message: if the letter failed after the send, and not in
//! another consumer. The same payload and key only suggest it. Stores keep two hashes for each sent item and compare them
//! with the letters that arrive.

use std::time::Duration;

use sha2::{Digest, Sha256};

use super::run::LONGEST_DEATH;
use super::{Item, ItemState};
use crate::envelope;
use crate::message::Message;
use crate::origin::Origin;
use crate::time::Timestamp;

/// A return may be stored a little after the window in which it died.
const LATE: Duration = Duration::from_secs(10);
/// A consumer's clock may be behind ours, and a send is recorded a little after it.
const CLOCK_SLACK: Duration = Duration::from_secs(5);

/// Hashes by which a message is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SentMarks {
    /// Of the message id, if a producer wrote one: it stays the same when the message is sent again.
    pub id: Option<i64>,
    /// Of payload and key; none for an empty payload.
    pub body: Option<i64>,
}

impl SentMarks {
    /// The marks of a letter's message.
    pub fn of(origin: &Origin, message: &Message) -> Self {
        Self { id: Self::id(origin), body: Self::body(message) }
    }

    pub fn id(origin: &Origin) -> Option<i64> {
        origin.producer_id().map(|id| hash(1, &[Some(id.as_bytes())]))
    }

    pub fn body(message: &Message) -> Option<i64> {
        let (payload, key) = (&message.payload.0, message.key.as_ref().map(|key| &key.0[..]));
        (!payload.is_empty()).then(|| hash(2, &[key, Some(payload)]))
    }

    /// The marks that there are.
    pub fn iter(self) -> impl Iterator<Item = i64> {
        self.id.into_iter().chain(self.body)
    }
}

/// Whether a letter may be a return without our headers. Our runtime keeps the headers of a replay, so a letter with our
/// headers and without a replay was never sent by one.
pub fn is_foreign(message: &Message) -> bool {
    envelope::decode(&message.headers).is_none() && envelope::replay_mark(&message.headers).is_none()
}

/// Whether a message of this item may still come back. An item without an outcome still waits; one with a presumed
/// outcome is recognised for its window and a little longer.
pub fn may_come_back(item: &Item, window: Duration, now: Timestamp) -> bool {
    let since = item.sent_at.or(item.at).map(|sent| now.since(sent));
    let within = |longest: Duration| since.is_none_or(|since| since <= longest);
    match item.state {
        ItemState::Intended | ItemState::Sent | ItemState::InDoubt => within(window.max(LONGEST_DEATH)),
        ItemState::Passed | ItemState::Presumed | ItemState::Unknown => within(window + LATE),
        ItemState::Frozen
        | ItemState::Claimed
        | ItemState::Confirmed
        | ItemState::Returned
        | ItemState::SuspectedReturn
        | ItemState::Routed
        | ItemState::Short
        | ItemState::Released
        | ItemState::Refused => false,
    }
}

/// Whether a letter of its own may be suspected to be the message of this item. An equal payload proves no send: what is in
/// doubt stays in doubt. An item that the consumer group passed is recovered.
pub fn may_be_suspected(item: &Item, window: Duration, now: Timestamp) -> bool {
    match item.state {
        ItemState::InDoubt | ItemState::Passed => false,
        _ => may_come_back(item, window, now),
    }
}

/// Whether a letter with the message id of an item failed after the item was sent. An earlier failure is one of another
/// copy of the message.
pub fn failed_after(item: &Item, failed_at: Timestamp) -> bool {
    item.sent_at.or(item.at).is_none_or(|sent| failed_at.plus(CLOCK_SLACK) >= sent)
}

/// Whether two letters may have failed in one consumer: several consumers get copies with one message id.
pub fn may_be_one_consumer(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_none() || other.is_none() || one == other
}

/// Eight bytes of SHA-256 over parts that cannot run into each other. `kind` tells ids from bodies.
fn hash(kind: u8, parts: &[Option<&[u8]>]) -> i64 {
    let mut hash = Sha256::new();
    hash.update([kind]);
    for part in parts {
        hash.update((part.map_or(0, |part| part.len() as u64 + 1)).to_be_bytes());
        hash.update(part.unwrap_or_default());
    }
    hash.finalize().iter().take(8).fold(0, |mark, byte| (mark << 8) | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;
    use crate::id::LetterId;
    use crate::message::Payload;
    use crate::origin::BrokerKind;

    const WINDOW: Duration = Duration::from_secs(30);
    const SENT: Timestamp = Timestamp::from_millis(1_793_534_400_000);

    fn item(state: ItemState) -> Item {
        Item {
            number: 0,
            letter: LetterId(Uuid::nil()),
            state,
            at: Some(SENT),
            sent_at: Some(SENT),
            partition: None,
            offset: None,
            note: None,
        }
    }

    fn message(key: Option<&str>, payload: &str) -> Message {
        Message {
            key: key.map(|key| Payload::from(key.to_owned())),
            payload: Payload::from(payload.to_owned()),
            ..Message::default()
        }
    }

    #[test]
    fn payload_and_key_make_one_mark_and_an_empty_payload_none() {
        let body = |key, payload| SentMarks::body(&message(key, payload));
        assert_eq!(body(Some("C-1"), "{}"), body(Some("C-1"), "{}"));
        assert_ne!(body(Some("C-1"), "{}"), body(Some("C-2"), "{}"));
        assert_ne!(body(None, "ab"), body(Some("a"), "b"));
        assert_ne!(body(None, "{}"), body(Some(""), "{}"));
        assert_eq!(body(Some("C-1"), ""), None);
    }

    #[test]
    fn only_the_id_of_a_producer_makes_a_mark() {
        let id = |broker| SentMarks::id(&Origin::message(broker, "orders", "m-1"));
        assert!(id(BrokerKind::Rabbitmq).is_some());
        assert_eq!((id(BrokerKind::Redis), id(BrokerKind::Sqs)), (None, None));
        let marks =
            SentMarks::of(&Origin::message(BrokerKind::Rabbitmq, "orders", "m-1"), &message(None, "m-1"));
        assert_eq!(marks.iter().count(), 2);
        assert_ne!(marks.id, marks.body);
    }

    #[test]
    fn an_item_comes_back_while_it_has_no_outcome_or_is_within_its_window() {
        let until = |state| {
            let seconds = (0..=4_000)
                .rev()
                .find(|s| may_come_back(&item(state), WINDOW, SENT.plus(Duration::from_secs(*s))));
            seconds.unwrap_or(u64::MAX)
        };
        assert_eq!((until(ItemState::Sent), until(ItemState::InDoubt)), (3_600, 3_600));
        assert_eq!(
            (until(ItemState::Presumed), until(ItemState::Unknown), until(ItemState::Passed)),
            (40, 40, 40)
        );
        for state in [ItemState::Sent, ItemState::Intended, ItemState::Presumed, ItemState::Unknown] {
            assert!(may_be_suspected(&item(state), WINDOW, SENT), "{state}");
        }
        for state in [ItemState::InDoubt, ItemState::Passed, ItemState::Confirmed] {
            assert!(!may_be_suspected(&item(state), WINDOW, SENT), "{state}");
        }
        for over in [ItemState::Frozen, ItemState::Confirmed, ItemState::Returned, ItemState::SuspectedReturn]
        {
            assert_eq!(until(over), u64::MAX, "{over}");
        }
    }

    #[test]
    fn consumers_differ_only_where_both_are_known() {
        assert!(may_be_one_consumer(Some("pricing"), Some("pricing")));
        assert!(may_be_one_consumer(None, Some("pricing")) && may_be_one_consumer(Some("pricing"), None));
        assert!(!may_be_one_consumer(Some("pricing"), Some("mail")));
    }

    #[test]
    fn a_failure_long_before_the_send_is_none_of_the_sent_message() {
        let after = |sent_at, at, seconds: u64| {
            let item = Item { sent_at, at, ..item(ItemState::Sent) };
            failed_after(&item, SENT.minus(Duration::from_secs(seconds)))
        };
        assert!(after(Some(SENT), None, 5) && !after(Some(SENT), None, 6));
        assert!(after(None, Some(SENT), 0) && !after(None, Some(SENT), 6));
        assert!(after(None, None, 3_600));
    }

    #[test]
    fn what_our_runtime_parked_is_no_foreign_return() {
        assert!(is_foreign(&message(None, "{}")));
        let mut ours = message(None, "{}");
        ours.headers.push_text("dlo-version", "1");
        assert!(!is_foreign(&ours));
    }
}
