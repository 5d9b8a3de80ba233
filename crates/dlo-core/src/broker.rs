//! The port to brokers: what an adapter promises, batch-shaped, and what it may not be able to do.
//!
//! A [`Delivery`] is settled by value, so twice does not compile. Dropping one is legal and means that the broker
//! delivers it again, as if the process had died. Adapters translate; they have no opinions on retry or parking.
//! What a broker cannot do is declared in [`Capabilities`], and the conformance suite asserts the weaker behaviour.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::message::{Headers, Message};
use crate::origin::{BrokerKind, Origin};
use crate::time::Timestamp;

mod destination;
mod reading;
mod sends;
mod topology;

pub use destination::{Destination, Outgoing, Route};
pub use reading::{Look, Position, Reader, Seen};
pub use sends::{Calls, LostConfirm, Publisher, SENDS_REMEMBERED, Written};
pub use topology::{Gravity, Inspect, QueueState, Topology, TopologyChange, TopologySpec};

/// What a broker can do. Declared truthfully; the suite checks each line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capabilities {
    pub kind: BrokerKind,
    pub order: Order,
    /// Each group gets every message. Otherwise all consumers of a queue share one, whatever group they name.
    pub groups: bool,
    /// The broker counts deliveries by itself.
    pub delivery_count: bool,
    /// The broker, or the adapter by the broker's means, can put off a redelivery.
    pub delay: Option<DelayLimits>,
    /// As `delay`, for a publish. `None` where only redeliveries can wait.
    pub delayed_publish: Option<DelayLimits>,
    /// What is settled by [`Unsettled::again`] comes again with the headers that were given to it, whoever gets it.
    /// Elsewhere they are ignored.
    pub again_carries: bool,
    /// What is put off by [`Settlement::Again`] holds back what is behind it in its partition, until it is settled.
    /// Elsewhere the rest goes on.
    pub waiting_keeps_order: bool,
    /// Reading leaves messages, counts and positions of others as they were: [`Broker::reader`] works, and mirroring
    /// is possible.
    pub looking_is_free: bool,
    /// What is done through [`Broker::drain`] is gone from the queue. Otherwise it stays until the broker's retention
    /// removes it, as in a log, and the way to capture it is a reader with a position.
    pub drain_removes: bool,
    /// Messages have an offset that never changes, in a partition where there is more than one.
    pub offsets: bool,
    /// A settled batch may be told as one position, so acknowledgements may be coalesced.
    pub cumulative_ack: bool,
    /// Sends with the same id inside this window are one message.
    pub dedupe_window: Option<Duration>,
    /// What can be known of a send whose confirmation was lost, to any queue; [`Broker::lost_confirm`] says it of one.
    pub lost_confirm: LostConfirm,
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
    /// How often this copy came back to its queue, where the broker gives up after a number of times; else zero.
    pub returned: u32,
    /// The broker says that somebody may have had it before. Only such a message may be taken for a known one by its
    /// bytes, where there are no coordinates.
    pub redelivered: bool,
    /// The broker's clock, or the producer's where the broker passes it on.
    pub published_at: Option<Timestamp>,
    tag: DeliveryTag,
}

/// The adapter's handle on one delivery. Not `Clone`: who holds it may settle it, once.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct DeliveryTag(pub u64);

impl Delivery {
    pub fn new(message: Message, origin: Origin, tag: DeliveryTag) -> Self {
        let (delivery_count, published_at) = (None, None);
        Self { message, origin, delivery_count, returned: 0, redelivered: false, published_at, tag }
    }

    /// Its number among the deliveries of its source: the same as that of its tag, without the right to settle. Where
    /// [`Capabilities::cumulative_ack`] is true a later delivery has a larger one.
    pub fn number(&self) -> u64 {
        self.tag.0
    }

    /// Decides what the broker is told. Nothing is told before [`Settler::settle`].
    pub fn settle(self, how: Settlement) -> Settled {
        Settled { tag: self.tag, how, carry: None }
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
        Settled { tag: self.0, how, carry: None }
    }

    /// As [`Settlement::Again`], with headers of ours to stand on the message when it comes again, in place of those
    /// of the same names. What they say reaches whoever gets it next, where [`Capabilities::again_carries`] is true.
    ///
    /// They are part of a copy: it must not be larger than [`Capabilities::max_message`], and it may take the shortest
    /// delay that the adapter has even if `after` is zero.
    pub fn again(self, after: Duration, carry: Headers) -> Settled {
        let carry = (!carry.is_empty()).then(|| Box::new(carry));
        Settled { tag: self.0, how: Settlement::Again { after }, carry }
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
    /// What stands on the message when it comes again: see [`Unsettled::again`]. Boxed, as most have none.
    pub carry: Option<Box<Headers>>,
}

/// Messages of one queue, for one consumer group.
#[async_trait]
pub trait Source: Send + std::fmt::Debug {
    fn capabilities(&self) -> &Capabilities;

    /// Up to `max` deliveries, as soon as there is one; none when `wait` is over.
    ///
    /// After [`BrokerError::Unavailable`] the same call reconnects, with growing pauses inside `wait`; the caller needs
    /// no new source. What was in hand when the connection went may be delivered again.
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
    /// them: each may be delivered again. So a delivery that was `Done` and that the broker had taken back with a lost
    /// connection is [`BrokerError::Unavailable`]: whoever kept it must know that it comes again. After its source was
    /// closed a settlement tells nothing, and is no error.
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError>;
}

/// Where a confirmed message stands now, as far as the broker says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Confirmed {
    pub partition: Option<i32>,
    pub offset: Option<i64>,
}

/// How far a group is in one partition: everything before `next` was settled by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Passed {
    pub partition: i32,
    pub next: i64,
}

/// The group under which the office reads, where a broker wants one.
pub const OFFICE: &str = "dlo-office";

/// One broker: where its ends come from. Whoever loses a source makes a new one here.
///
/// Making one reaches for no server: connections are opened when they are first needed, and again when they broke.
#[async_trait]
pub trait Broker: Send + Sync + std::fmt::Debug {
    fn capabilities(&self) -> &Capabilities;

    /// Asks the server for something small. `Ok` with what it calls itself (product and version) where it says so.
    async fn ping(&self) -> Result<Option<String>, BrokerError>;

    /// Joins `group` on `queue`. A group that is new begins with the oldest message that is still there.
    async fn source(&self, queue: &str, group: &str) -> Result<Box<dyn Source>, BrokerError>;

    /// Joins `queue` to empty it into the office: as [`Broker::source`], but what is done is gone from the queue for
    /// everybody, where [`Capabilities::drain_removes`] says so.
    async fn drain(&self, queue: &str) -> Result<Box<dyn Source>, BrokerError> {
        self.source(queue, OFFICE).await
    }

    /// The partitions of `queue` that [`Broker::reader`] takes; one, `0`, where the broker has no partitions.
    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError>;

    /// Reads a partition from `from`, or from the oldest record that is there. [`BrokerError::Refused`] where looking
    /// is not free, with the reason.
    async fn reader(
        &self,
        queue: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError>;

    /// The record at these coordinates, if it is still there. For letters that are only pointers, and to see whether a
    /// send arrived. [`BrokerError::Refused`] where single records cannot be looked at.
    async fn fetch(&self, origin: &Origin) -> Result<Option<Seen>, BrokerError>;

    fn publisher(&self) -> Arc<dyn Publisher>;

    /// A publisher for sends that are recorded one by one, of a replay called `name`. Where [`LostConfirm::ReadBack`] is
    /// declared, whoever had a publisher of this name before cannot publish through it any more when this returns, and
    /// what it had under way is either in the queue by then or never will be. Where [`LostConfirm::SendAgain`] is
    /// declared, a message with a send id that was published already is confirmed and not added again.
    /// Where [`LostConfirm::ReadBack`] is declared each call of `publish` is all or nothing, but for what is refused for
    /// its own sake, and after an [`PublishError::Unconfirmed`] the publisher is over: making another one of its name
    /// decides what was under way, and reading back tells how.
    async fn fenced_publisher(&self, name: &str) -> Result<Arc<dyn Publisher>, BrokerError> {
        let _ = name;
        Ok(self.publisher())
    }

    /// Where each partition of `queue` ends now: a reader opened there sees what is published from now on.
    /// [`BrokerError::Refused`] where queues have no positions.
    async fn ends(&self, queue: &str) -> Result<Vec<Position>, BrokerError> {
        Err(BrokerError::Refused(format!("`{queue}` has no positions")))
    }

    /// What can be known of a send to `queue` whose confirmation was lost, where the broker has queues of several kinds.
    fn lost_confirm(&self, queue: &str) -> LostConfirm {
        let _ = queue;
        self.capabilities().lost_confirm
    }

    /// How long after the first send `queue` knows its id, so that sending again is one message. Zero where it does not.
    async fn remembers_sends(&self, queue: &str) -> Result<Duration, BrokerError> {
        Ok(match self.lost_confirm(queue) {
            LostConfirm::SendAgain => SENDS_REMEMBERED,
            LostConfirm::SendAgainInWindow => self.capabilities().dedupe_window.unwrap_or_default(),
            LostConfirm::ReadBack | LostConfirm::Unknown => Duration::ZERO,
        })
    }

    /// Whether [`Broker::ends`] grows by one for each message of that queue: its positions are no times, and not shared.
    fn ends_count(&self) -> bool {
        false
    }

    /// Up to which offset `group` is done with each partition of `queue` (the next one that it would get).
    /// [`BrokerError::Refused`] where the broker keeps no such positions.
    async fn passed(&self, queue: &str, group: &str) -> Result<Vec<Passed>, BrokerError> {
        let _ = group;
        Err(BrokerError::Refused(format!("`{queue}` keeps no positions of groups")))
    }

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
    /// It is certainly not there, and the same call may succeed later.
    #[error("the message was not sent: {0}")]
    NotSent(String),
    /// This publisher is over: another one of its name may have taken over. Whoever holds it must stop; whether the
    /// message is there is found out as for one that was not confirmed.
    #[error("the publisher was fenced: {0}")]
    Fenced(String),
}
