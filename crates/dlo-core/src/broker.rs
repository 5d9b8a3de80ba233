//! The port to brokers: what an adapter promises, batch-shaped, and what it may not be able to do.
//!
//! A [`Delivery`] is settled by value, so twice does not compile. Dropping one is legal and means that the broker
//! delivers it again, as if the process had died. Adapters translate; they have no opinions on retry or parking.
//! What a broker cannot do is declared in [`Capabilities`], and the conformance suite asserts the weaker behaviour.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::message::Message;
use crate::origin::{BrokerKind, Origin};
use crate::time::Timestamp;

/// What a broker can do. Declared truthfully; the suite checks each line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    pub kind: BrokerKind,
    pub order: Order,
    /// Each group gets every message. Otherwise all consumers of a queue share one, whatever group they name.
    pub groups: bool,
    /// The broker counts deliveries by itself.
    pub delivery_count: bool,
    /// The broker can put off a redelivery or a publish by itself.
    pub delay: Option<DelayLimits>,
    /// Reading leaves messages, counts and positions of others as they were, so that mirroring is possible.
    pub looking_is_free: bool,
    /// Messages have a partition and an offset that never change.
    pub offsets: bool,
    /// A settled batch may be told as one position, so acknowledgements may be coalesced.
    pub cumulative_ack: bool,
    /// Sends with the same id inside this window are one message.
    pub dedupe_window: Option<Duration>,
    pub headers: HeaderRules,
    /// Bytes of a whole message, headers included.
    pub max_message: usize,
}

/// In which order messages come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    None,
    /// In order inside a partition; equal keys share one.
    PerPartition,
    /// One order for the whole queue, as long as nothing is redelivered.
    WholeQueue,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DelayLimits {
    pub longest: Duration,
    /// How many messages may wait at once; `None`: no limit but the broker's disk.
    pub outstanding: Option<u64>,
}

/// What survives of headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeaderRules {
    pub binary_values: bool,
    pub repeated_names: bool,
    pub absent_values: bool,
    pub keeps_order: bool,
}

/// One message in our hands, not yet settled.
#[derive(Debug)]
#[must_use = "a delivery that is dropped is delivered again"]
pub struct Delivery {
    pub message: Message,
    pub origin: Origin,
    /// Which delivery this is by the broker's count, from one; `None` where it does not count.
    pub delivery_count: Option<u32>,
    /// The broker's clock, or the producer's where the broker passes it on.
    pub published_at: Option<Timestamp>,
    tag: DeliveryTag,
}

/// The adapter's handle on one delivery. Not `Clone`: who holds it may settle it, once.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DeliveryTag(pub u64);

impl Delivery {
    pub fn new(message: Message, origin: Origin, tag: DeliveryTag) -> Self {
        Self { message, origin, delivery_count: None, published_at: None, tag }
    }

    /// Decides what the broker is told. Nothing is told before [`Settler::settle`].
    pub fn settle(self, how: Settlement) -> Settled {
        Settled { tag: self.tag, how }
    }

    /// Takes message and origin out and leaves the right to settle.
    pub fn split(self) -> (Message, Origin, Unsettled) {
        (self.message, self.origin, Unsettled(self.tag))
    }
}

/// The right to settle one delivery whose message was taken out.
#[derive(Debug)]
#[must_use = "a delivery that is dropped is delivered again"]
pub struct Unsettled(DeliveryTag);

impl Unsettled {
    pub fn settle(self, how: Settlement) -> Settled {
        Settled { tag: self.0, how }
    }
}

/// What the broker is told of a delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settlement {
    /// Handled, or safe elsewhere: forget it.
    Done,
    /// Deliver it again, not before `after`. Where the broker has no delay of its own, at once.
    Again { after: Duration },
    /// Do not deliver it again; the broker's own dead-lettering applies, where it has any.
    Refuse,
}

/// A delivery with its settlement, on the way to the broker.
#[derive(Debug)]
#[must_use = "a settlement that is not passed to a settler is not told to the broker"]
pub struct Settled {
    pub tag: DeliveryTag,
    pub how: Settlement,
}

/// Messages of one queue, for one consumer group.
#[async_trait]
pub trait Source: Send + std::fmt::Debug {
    fn capabilities(&self) -> &Capabilities;

    /// Up to `max` deliveries, as soon as there is one; none when `wait` is over.
    ///
    /// Cancel-safe: what was taken from the broker when the call is dropped is delivered later or again.
    /// Each delivery is handed out once until it is settled as `Again`, dropped with the source, or its lease at
    /// the broker runs out.
    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError>;

    /// The way to answer, usable from other tasks while `receive` waits.
    fn settler(&self) -> Arc<dyn Settler>;

    /// Hands back what was received and not settled, and leaves the group.
    async fn close(self: Box<Self>) -> Result<(), BrokerError>;
}

#[async_trait]
pub trait Settler: Send + Sync + std::fmt::Debug {
    /// Tells the broker, and returns when it has confirmed or cannot confirm any further.
    ///
    /// After `Ok`, what was `Done` is not delivered again to this group. After an error nothing is known of any of
    /// them: each may be delivered again. Settling a delivery that the broker has taken back is no error.
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError>;
}

/// A message on its way out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outgoing {
    pub to: Destination,
    pub message: Message,
    /// Visible to consumers not before this is over. Only up to `Capabilities::delay`.
    pub delay: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    pub queue: String,
    /// Explicit where the origin had one: clients hash keys differently.
    pub partition: Option<i32>,
}

impl Destination {
    pub fn queue(queue: impl Into<String>) -> Self {
        Self { queue: queue.into(), partition: None }
    }
}

/// Where a confirmed message stands now, as far as the broker says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Confirmed {
    pub partition: Option<i32>,
    pub offset: Option<i64>,
}

#[async_trait]
pub trait Publisher: Send + Sync + std::fmt::Debug {
    fn capabilities(&self) -> &Capabilities;

    /// Sends all, pipelined, and returns one result each, in the order given.
    ///
    /// `Ok` means the broker has taken responsibility by its strongest means. Equal keys keep their order among the
    /// confirmed. Dropping the call leaves the fate of all unknown.
    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>>;
}

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
}

/// One difference between what is there and what should be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyChange {
    pub what: String,
    /// Whether `apply` can mend it; otherwise a person must.
    pub appliable: bool,
}

#[async_trait]
pub trait Topology: Send + Sync + std::fmt::Debug {
    /// What is missing or weaker than asked. Changes nothing.
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError>;

    /// Creates what is missing. Called twice, the second call finds nothing to do. Never deletes.
    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError>;
}

/// One broker that was connected to: where its ends come from. Whoever loses a source makes a new one here.
#[async_trait]
pub trait Broker: Send + Sync + std::fmt::Debug {
    fn capabilities(&self) -> &Capabilities;

    /// Joins `group` on `queue`. A group that is new begins with the oldest message that is still there.
    async fn source(&self, queue: &str, group: &str) -> Result<Box<dyn Source>, BrokerError>;

    fn publisher(&self) -> Arc<dyn Publisher>;

    fn inspector(&self) -> Arc<dyn Inspect>;

    fn topology(&self) -> Arc<dyn Topology>;
}

/// Each variant is a different thing to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BrokerError {
    /// Out of reach or restarting: the same call may succeed later.
    #[error("the broker is out of reach: {0}")]
    Unavailable(String),
    /// No such queue: create it (`dlo topology apply`), then try again.
    #[error("there is no queue `{0}`")]
    Missing(String),
    /// Not allowed, or asked in a way this broker cannot serve. Trying again won't help.
    #[error("the broker refused: {0}")]
    Refused(String),
    /// This end was closed.
    #[error("the connection was closed")]
    Closed,
}

impl BrokerError {
    pub const fn is_transient(&self) -> bool {
        match self {
            Self::Unavailable(_) => true,
            Self::Missing(_) | Self::Refused(_) | Self::Closed => false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PublishError {
    /// Not confirmed: it may or may not be there.
    #[error("the broker did not confirm: {0}")]
    Unconfirmed(String),
    /// Larger than the broker takes: make it smaller first.
    #[error("the message has {size} bytes, the broker takes {limit}")]
    TooLarge { size: usize, limit: usize },
    /// It is certainly not there, and trying again won't help.
    #[error("the broker refused the message: {0}")]
    Refused(String),
}
