//! A look at queues from outside, and what should be there: planned, created, never deleted.

use std::time::Duration;

use async_trait::async_trait;

use super::BrokerError;
use crate::time::Timestamp;

/// What a queue looks like from outside, without taking anything from it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct QueueState {
    /// Messages not yet delivered to the group, or in the queue where there are no groups.
    pub depth: Option<u64>,
    /// Delivered and not settled.
    pub in_flight: Option<u64>,
    /// When the oldest undelivered message was published.
    pub oldest: Option<Timestamp>,
    pub partitions: Option<u32>,
    pub consumers: Option<u32>,
    /// The highest delivery count among what is in flight.
    pub deliveries: Option<u32>,
}

#[async_trait]
pub trait Inspect: Send + Sync + std::fmt::Debug {
    /// Looks at one queue as `group` sees it. A queue that does not exist is [`BrokerError::Missing`].
    async fn inspect(&self, queue: &str, group: Option<&str>) -> Result<QueueState, BrokerError>;
}

/// What should be there for one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologySpec {
    pub queue: String,
    pub dlq: String,
    pub partitions: Option<u32>,
    pub retention: Option<Duration>,
    /// The broker's own delivery limit must lie above the runtime's attempts.
    pub attempts: u32,
    /// Copies of each partition, and how many must have a message before it is confirmed; where brokers replicate.
    /// Unset: as the queue has them.
    pub replication: Option<u32>,
    pub min_in_sync: Option<u32>,
    /// The delays for which retry queues should stand, where the broker delays by queues; the group whose retries they
    /// are, where queues are shared by groups.
    pub retry_delays: Vec<Duration>,
    pub group: Option<String>,
}

impl TopologySpec {
    /// A queue and its dead-letter queue, everything else left to the broker's defaults.
    pub fn new(queue: impl Into<String>, dlq: impl Into<String>, attempts: u32) -> Self {
        Self {
            queue: queue.into(),
            dlq: dlq.into(),
            partitions: None,
            retention: None,
            attempts,
            replication: None,
            min_in_sync: None,
            retry_delays: Vec::new(),
            group: None,
        }
    }
}

/// How bad a difference is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gravity {
    /// It is not there: dead letters are lost or have nowhere to go.
    Missing,
    /// It works, and is weaker than it should be.
    Weak,
}

/// One difference between what is there and what should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyChange {
    pub what: String,
    pub gravity: Gravity,
    /// Whether `apply` can mend it; otherwise a person must.
    pub appliable: bool,
    /// The command of the broker's own tools that mends it, for who may not or does not want to `apply`.
    pub command: Option<String>,
}

impl TopologyChange {
    /// Something that is not there and that `apply` creates.
    pub fn create(what: impl Into<String>) -> Self {
        Self { what: what.into(), gravity: Gravity::Missing, appliable: true, command: None }
    }

    /// Something weaker than it should be that `apply` mends.
    pub fn mend(what: impl Into<String>) -> Self {
        Self { what: what.into(), gravity: Gravity::Weak, appliable: true, command: None }
    }

    /// Something weaker than it should be that only a person can mend.
    pub fn warn(what: impl Into<String>) -> Self {
        Self { what: what.into(), gravity: Gravity::Weak, appliable: false, command: None }
    }

    #[must_use]
    pub fn by(mut self, command: impl Into<String>) -> Self {
        self.command = Some(command.into());
        self
    }
}

#[async_trait]
pub trait Topology: Send + Sync + std::fmt::Debug {
    /// What is missing or weaker than asked. Changes nothing.
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError>;

    /// Creates what is missing. Called twice, the second call finds nothing to do. Never deletes.
    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError>;
}
