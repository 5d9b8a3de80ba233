//! What the broker can do: the shapes of those that we serve, as their adapters declare them.

use std::time::Duration;

use dlo_core::broker::{Capabilities, DelayLimits, HeaderRules, LostConfirm, Order};
use dlo_core::origin::{BrokerKind, Origin};

use super::QUEUE;

/// After whom the broker is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Partitions with one reader each, no counts, retries as copies beside the queue.
    Kafka,
    /// No order, counts, leases, delays of its own.
    Sqs,
    /// The same with groups of messages: while one of a group is out or waits, no other of it comes.
    SqsFifo,
    /// One queue for all, no counts, delayed publish.
    RabbitClassic,
    /// The same with counts.
    RabbitQuorum,
    /// Groups, counts, delays; members renew what they hold.
    Redis,
    /// Groups, counts, leases, delays; so many may be unsettled at once.
    JetStream { outstanding: u64 },
}

/// How a message comes back from somebody who does not answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// This long after it was lent, whether its holder lives or not.
    AfterLease(Duration),
    /// At most this long after its holder went.
    WithHolder(Duration),
}

impl Shape {
    pub fn capabilities(self) -> Capabilities {
        let longest = Duration::from_secs(600);
        let delays = Some(DelayLimits { longest, outstanding: None });
        let outstanding = match self {
            Self::JetStream { outstanding } => Some(outstanding),
            Self::Sqs | Self::SqsFifo => Some(120_000),
            Self::Kafka | Self::RabbitClassic | Self::RabbitQuorum | Self::Redis => None,
        };
        let (kind, order) = match self {
            Self::Kafka => (BrokerKind::Kafka, Order::PerPartition),
            Self::Sqs => (BrokerKind::Sqs, Order::None),
            Self::SqsFifo => (BrokerKind::Sqs, Order::PerPartition),
            Self::RabbitClassic | Self::RabbitQuorum => (BrokerKind::Rabbitmq, Order::WholeQueue),
            Self::Redis => (BrokerKind::Redis, Order::WholeQueue),
            Self::JetStream { .. } => (BrokerKind::Nats, Order::WholeQueue),
        };
        Capabilities {
            kind,
            order,
            groups: matches!(self, Self::Kafka | Self::Redis | Self::JetStream { .. }),
            delivery_count: !matches!(self, Self::Kafka | Self::RabbitClassic),
            delay: Some(DelayLimits { longest, outstanding }),
            delayed_publish: match self {
                Self::Sqs | Self::RabbitClassic | Self::RabbitQuorum | Self::Redis => delays,
                Self::Kafka | Self::SqsFifo | Self::JetStream { .. } => None,
            },
            again_carries: matches!(self, Self::Kafka | Self::RabbitClassic | Self::RabbitQuorum),
            waiting_keeps_order: self == Self::SqsFifo,
            looking_is_free: false,
            drain_removes: true,
            offsets: matches!(self, Self::Kafka | Self::JetStream { .. }),
            cumulative_ack: matches!(self, Self::Kafka | Self::RabbitClassic | Self::RabbitQuorum),
            dedupe_window: None,
            lost_confirm: LostConfirm::Unknown,
            headers: HeaderRules {
                binary_values: true,
                repeated_names: true,
                absent_values: true,
                keeps_order: true,
            },
            max_message: 262_144,
        }
    }

    /// Whether messages of one key come in order whatever crashes, moves or is lost.
    pub fn keeps_order(self) -> bool {
        matches!(self, Self::Kafka | Self::SqsFifo)
    }

    pub fn has_partitions(self) -> bool {
        self == Self::Kafka
    }

    pub fn returns(self) -> Returns {
        match self {
            Self::Sqs | Self::SqsFifo | Self::JetStream { .. } => {
                Returns::AfterLease(Duration::from_secs(30))
            }
            Self::Kafka => Returns::WithHolder(Duration::from_secs(10)),
            Self::RabbitClassic | Self::RabbitQuorum => Returns::WithHolder(Duration::from_secs(1)),
            Self::Redis => Returns::WithHolder(Duration::from_secs(30)),
        }
    }

    /// The coordinates of a message here.
    pub(super) fn origin(self, partition: i32, place: u64) -> Origin {
        let kind = self.capabilities().kind;
        let offset = i64::try_from(place).unwrap_or(i64::MAX);
        match self {
            Self::Kafka => Origin::log(kind, QUEUE, partition, offset),
            Self::JetStream { .. } => Origin::sequence(kind, QUEUE, offset),
            Self::Sqs | Self::SqsFifo | Self::RabbitClassic | Self::RabbitQuorum | Self::Redis => {
                Origin::message(kind, QUEUE, format!("id-{place}"))
            }
        }
    }
}
