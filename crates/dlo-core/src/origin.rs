//! Where a message came from, in its broker's own coordinates, and what makes two deaths the same one.
//!
//! The unique key of a death is (source, broker, incarnation, coordinates, consumer group, replay id). It is laid out
//! so that deaths read from a log in order are also neighbours in the index: a hash of everything that stays
//! the same along a partition, then partition and offset as big-endian numbers. A random key would cost a page write
//! a row at a million letters.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::codes::coded;
use crate::id::DeathId;

coded! {
    /// The brokers and doors through which letters come. The word is the feature, the module, the config tag and the docs page.
    pub enum BrokerKind as "broker" {
        Kafka = 1 => "kafka",
        Rabbitmq = 2 => "rabbitmq",
        Sqs = 3 => "sqs",
        Nats = 4 => "nats",
        Redis = 5 => "redis",
        Amqp1 = 6 => "amqp1",
        Stomp = 7 => "stomp",
        Pubsub = 8 => "pubsub",
        Sql = 9 => "sql",
        Http = 10 => "http",
        Memory = 11 => "memory",
    }
}

/// The place a message was read from before it died.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    pub broker: BrokerKind,
    /// Queue, topic, stream or subject.
    pub queue: String,
    /// Which life of that queue: a topic deleted and created again is another one.
    pub incarnation: Option<String>,
    pub partition: Option<i32>,
    /// Offset, stream sequence, or whatever number orders messages inside a partition.
    pub offset: Option<i64>,
    /// The broker's name of the message, or else the id that its producer wrote: [`Origin::has_coordinates`] tells which.
    pub message_id: Option<String>,
}

impl Origin {
    /// A queue of which nothing more is known.
    pub fn queue(broker: BrokerKind, queue: impl Into<String>) -> Self {
        Self {
            broker,
            queue: queue.into(),
            incarnation: None,
            partition: None,
            offset: None,
            message_id: None,
        }
    }

    /// A record of a partitioned log: Kafka, or our own memory broker.
    pub fn log(broker: BrokerKind, queue: impl Into<String>, partition: i32, offset: i64) -> Self {
        Self { partition: Some(partition), offset: Some(offset), ..Self::queue(broker, queue) }
    }

    /// A message of a stream with one sequence: JetStream.
    pub fn sequence(broker: BrokerKind, queue: impl Into<String>, sequence: i64) -> Self {
        Self { offset: Some(sequence), ..Self::queue(broker, queue) }
    }

    /// A message known by its id only: RabbitMQ, SQS, Pub/Sub, a Redis entry, a table row.
    pub fn message(broker: BrokerKind, queue: impl Into<String>, id: impl Into<String>) -> Self {
        Self { message_id: Some(id.into()), ..Self::queue(broker, queue) }
    }

    #[must_use]
    pub fn in_incarnation(mut self, incarnation: impl Into<String>) -> Self {
        self.incarnation = Some(incarnation.into());
        self
    }

    /// The id that the producer wrote; the message keeps it when it is sent again.
    pub fn producer_id(&self) -> Option<&str> {
        self.message_id.as_deref().filter(|_| !self.is_named_by_broker())
    }

    fn is_named_by_broker(&self) -> bool {
        match self.broker {
            BrokerKind::Sqs | BrokerKind::Redis | BrokerKind::Pubsub | BrokerKind::Sql | BrokerKind::Http => {
                true
            }
            BrokerKind::Rabbitmq | BrokerKind::Amqp1 | BrokerKind::Stomp => false,
            BrokerKind::Kafka | BrokerKind::Nats | BrokerKind::Memory => false,
        }
    }

    /// Whether the broker gave this message a place or a name that no other message will ever have. The id that a producer
    /// wrote is neither: every copy of the message carries it.
    pub fn has_coordinates(&self) -> bool {
        self.offset.is_some() || (self.is_named_by_broker() && self.message_id.is_some())
    }

    /// The unique key of a death here, or `None` where the broker gave no coordinates: then each is a new letter.
    pub fn dedupe_key(
        &self,
        source: &str,
        consumer: Option<&str>,
        replay_id: Option<&str>,
    ) -> Option<DedupeKey> {
        if !self.has_coordinates() {
            return None;
        }
        let context = digest(&[
            Some(source),
            Some(self.broker.as_str()),
            Some(&self.queue),
            self.incarnation.as_deref(),
            consumer,
            replay_id,
        ]);
        let mut key = Vec::with_capacity(33);
        key.extend_from_slice(&context[..16]);
        match (self.offset, &self.message_id) {
            (Some(offset), _) => {
                key.push(1);
                key.extend_from_slice(&self.partition.unwrap_or(-1).to_be_bytes());
                key.extend_from_slice(&offset.to_be_bytes());
            }
            (None, Some(id)) => {
                key.push(2);
                key.extend_from_slice(&digest(&[Some(id.as_str())])[..16]);
            }
            (None, None) => return None,
        }
        Some(DedupeKey(key))
    }

    /// The deterministic id of a death here (`dlo-death-id`).
    pub fn death_id(&self, consumer: Option<&str>, replay_count: u32) -> DeathId {
        let numbers = format!("{:?}/{:?}/{replay_count}", self.partition, self.offset);
        DeathId::from_name(&digest(&[
            Some(self.broker.as_str()),
            Some(&self.queue),
            self.incarnation.as_deref(),
            self.message_id.as_deref(),
            consumer,
            Some(&numbers),
        ]))
    }
}

/// The bytes by which a store recognises a death that it has already.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DedupeKey(pub Vec<u8>);

impl DedupeKey {
    /// The key of an item sent under an `Idempotency-Key`, for letters without coordinates.
    pub fn idempotent(source: &str, idempotency_key: &str, item: u64) -> Self {
        let mut key = digest(&[Some(source), Some(idempotency_key)])[..16].to_vec();
        key.push(3);
        key.extend_from_slice(&item.to_be_bytes());
        Self(key)
    }
}

/// SHA-256 over parts that cannot run into each other: each is preceded by its length, and absent is not empty.
pub(crate) fn digest(parts: &[Option<&str>]) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in parts {
        match part {
            Some(text) => {
                hash.update((text.len() as u64 + 1).to_be_bytes());
                hash.update(text.as_bytes());
            }
            None => hash.update(0_u64.to_be_bytes()),
        }
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(origin: &Origin) -> DedupeKey {
        origin.dedupe_key("orders", Some("pricing"), None).unwrap()
    }

    #[test]
    fn two_consumer_groups_failing_on_one_record_are_two_deaths() {
        let origin = Origin::log(BrokerKind::Kafka, "orders", 17, 42);
        assert_ne!(
            origin.dedupe_key("orders", Some("pricing"), None),
            origin.dedupe_key("orders", Some("mail"), None)
        );
        assert_ne!(origin.dedupe_key("orders", None, None), origin.dedupe_key("orders", Some(""), None));
    }

    #[test]
    fn a_topic_deleted_and_created_again_is_another_incarnation() {
        let origin = Origin::log(BrokerKind::Kafka, "orders", 17, 42);
        assert_ne!(key(&origin.clone().in_incarnation("a")), key(&origin.in_incarnation("b")));
    }

    #[test]
    fn a_replayed_message_that_dies_again_is_a_new_death() {
        let origin = Origin::log(BrokerKind::Kafka, "orders", 17, 42);
        assert_ne!(key(&origin), origin.dedupe_key("orders", Some("pricing"), Some("r-1")).unwrap());
        assert_ne!(origin.death_id(None, 0), origin.death_id(None, 1));
    }

    #[test]
    fn offsets_of_one_partition_are_neighbours_in_key_order() {
        let keys: Vec<_> = (0..300).map(|n| key(&Origin::log(BrokerKind::Kafka, "orders", 1, n))).collect();
        assert!(keys.is_sorted());
    }

    #[test]
    fn the_id_of_a_producer_makes_no_key() {
        for broker in [BrokerKind::Rabbitmq, BrokerKind::Amqp1, BrokerKind::Nats, BrokerKind::Kafka] {
            assert_eq!(Origin::message(broker, "orders", "m-1").dedupe_key("orders", None, None), None);
        }
        for broker in [BrokerKind::Sqs, BrokerKind::Redis, BrokerKind::Pubsub, BrokerKind::Sql] {
            assert!(Origin::message(broker, "orders", "m-1").dedupe_key("orders", None, None).is_some());
        }
    }

    #[test]
    fn each_coordinate_is_part_of_the_key() {
        let sequence = |number| key(&Origin::sequence(BrokerKind::Nats, "orders", number));
        let message = |id| key(&Origin::message(BrokerKind::Sqs, "orders", id));
        assert!(sequence(1) != sequence(2) && message("a") != message("b"));
        let first = key(&Origin::log(BrokerKind::Nats, "orders", 1, 1));
        assert_ne!(sequence(1), first, "no partition is none of the partitions");
    }

    #[test]
    fn without_coordinates_there_is_no_key() {
        assert_eq!(Origin::queue(BrokerKind::Http, "orders").dedupe_key("orders", None, None), None);
    }

    #[test]
    fn parts_do_not_run_into_each_other() {
        assert_ne!(digest(&[Some("ab"), Some("c")]), digest(&[Some("a"), Some("bc")]));
        assert_ne!(digest(&[None, Some("")]), digest(&[Some(""), None]));
    }
}
