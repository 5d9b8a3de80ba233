//! Reading a log by position: for capture where single records cannot be let go of, and for mirroring.

use std::time::Duration;

use async_trait::async_trait;

use super::BrokerError;
use crate::message::Message;
use crate::origin::Origin;
use crate::time::Timestamp;

/// Where a reader of one partition stands: everything before `next` was handed out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Position {
    /// Which life of the queue. A reader that is opened with the position of another life begins at the beginning.
    pub incarnation: String,
    pub partition: i32,
    /// Grows with every record.
    pub next: i64,
    /// The adapter's own word for the position, where a number is not enough (a Redis entry id).
    pub mark: Option<String>,
}

/// One record that was looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    pub message: Message,
    pub origin: Origin,
    pub published_at: Option<Timestamp>,
}

/// What one look found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Look {
    pub seen: Vec<Seen>,
    /// Where the reader stands after it. Moves past markers and gaps even when nothing was seen.
    pub position: Position,
    /// Records that the broker had removed before they were read, as far as it can be told: its retention is too short.
    pub skipped: u64,
}

/// One partition of a queue, read by position. Nothing is taken, counted or hidden.
#[async_trait]
pub trait Reader: Send + std::fmt::Debug {
    /// Up to `max` records in their order, as soon as there is one; none when `wait` is over. Cancel-safe: what a
    /// dropped call had read is read again. Reconnects as [`Source::receive`](super::Source::receive) does. A queue that was deleted ends it
    /// with [`BrokerError::Missing`], one that was created anew with [`BrokerError::Closed`]: open another reader.
    async fn read(&mut self, max: usize, wait: Duration) -> Result<Look, BrokerError>;

    /// Tells the broker how far the office is, for those who watch lag there, without waiting until it has heard. The
    /// truth is what the caller keeps; a broker that has no such place ignores it.
    async fn tell(&mut self, position: &Position) -> Result<(), BrokerError>;
}
