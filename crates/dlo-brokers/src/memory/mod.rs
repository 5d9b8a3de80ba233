//! The broker that needs no server: queues in this process, `kind = "memory"`.
//!
//! It behaves like the real ones, and is the reference for them. A queue is a set of append-only partitions; equal
//! keys share one. Each consumer group has its own place in every partition and divides the partitions among its
//! consumers; one partition is never in two hands, so order inside it is kept. A message lives until every group has
//! settled it. What waits for a delay does not hold up what is behind it. What is refused, delivered too often or
//! kept too long goes to the queue's dead-letter queue with its story.
//!
//! Bounded: a full queue makes publishers wait or refuses them, as its [`Overflow`] says. Nothing survives the process.

use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, DelayLimits, HeaderRules, Inspect, LostConfirm, Order, Passed,
    Position, Publisher, Reader, Seen, Source, Topology,
};
use dlo_core::limits;
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::time::Clock;
use serde::Deserialize;

mod dead;
mod group;
mod log;
mod publisher;
mod queue;
mod reader;
mod sent;
mod source;
mod topology;

use queue::Queue;
pub use source::MemorySource;

/// The longest delay of a redelivery or a publish.
const LONGEST_DELAY: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// Room for the largest letter with the largest headers and the story of its death.
const MAX_MESSAGE: usize = limits::PAYLOAD + 2 * limits::HEADERS_SIZE;
const PARTITIONS: NonZeroU16 = match NonZeroU16::new(8) {
    Some(eight) => eight,
    None => NonZeroU16::MIN,
};

/// What `[brokers.<name>]` may say of a memory broker: the defaults of the queues that are created in it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MemoryConfig {
    /// Which life of the queues this is. Unset: every start is another one, as nothing survives the process. Set by
    /// whoever publishes the same messages in the same order at every start, so that they are known again.
    pub incarnation: Option<String>,
    pub partitions: NonZeroU16,
    /// Messages of one queue, over all partitions.
    pub capacity: usize,
    /// Bytes of one queue, over all partitions.
    pub capacity_bytes: usize,
    pub overflow: Overflow,
}

impl Default for MemoryConfig {
    fn default() -> Self {
        Self {
            incarnation: None,
            partitions: PARTITIONS,
            capacity: 1_000_000,
            capacity_bytes: 256 * 1024 * 1024,
            overflow: Overflow::Wait,
        }
    }
}

/// What a publisher meets at a full queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overflow {
    /// Back-pressure: the publish waits until consumers have made room.
    Wait,
    /// The message is refused, and the publisher knows.
    Refuse,
}

/// One queue, as it is declared.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueOptions {
    pub partitions: NonZeroU16,
    pub capacity: usize,
    pub capacity_bytes: usize,
    pub overflow: Overflow,
    /// How long a message may wait for its first delivery. Past that it is dead-lettered as expired; `None`: for ever.
    pub retention: Option<Duration>,
    /// Without it a refused message is gone, as on any broker, and deliveries are not limited.
    pub dead_letters: Option<DeadLetters>,
}

/// The broker's own dead-lettering of one queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetters {
    pub queue: String,
    /// Deliveries after which a message is not delivered again.
    pub delivery_limit: Option<u32>,
}

impl From<&MemoryConfig> for QueueOptions {
    fn from(config: &MemoryConfig) -> Self {
        Self {
            partitions: config.partitions,
            capacity: config.capacity,
            capacity_bytes: config.capacity_bytes,
            overflow: config.overflow,
            retention: None,
            dead_letters: None,
        }
    }
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self::from(&MemoryConfig::default())
    }
}

/// A handle on the broker. Clones are the same broker; it lives as long as one of them, or of its sources, does.
#[derive(Debug, Clone)]
pub struct MemoryBroker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    config: MemoryConfig,
    capabilities: Capabilities,
    clock: Arc<dyn Clock>,
    /// One lock for all queues: held for a batch at a time and never over an await, and it makes
    /// the move from a queue to its dead-letter queue a single step.
    queues: Mutex<Queues>,
}

#[derive(Debug, Default)]
struct Queues {
    by_name: HashMap<String, Queue>,
    members: u32,
    created: u64,
}

impl MemoryBroker {
    pub fn new(config: MemoryConfig, clock: Arc<dyn Clock>) -> Self {
        let shared = Shared { config, capabilities: capabilities(), clock, queues: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// Creates a queue. One that is there keeps its messages and takes on the options, but for its partitions.
    pub fn declare(&self, name: &str, options: QueueOptions) {
        let born = self.shared.clock.now();
        let mut queues = self.queues();
        if let Some(queue) = queues.by_name.get_mut(name) {
            queue.reconfigure(options);
            return;
        }
        queues.created += 1;
        let incarnation = match &self.shared.config.incarnation {
            Some(incarnation) => incarnation.clone(),
            None => format!("{:x}-{}", born.as_micros(), queues.created),
        };
        queues.by_name.insert(name.to_owned(), Queue::new(name, incarnation, options));
    }

    /// Removes a queue with everything in it. Created again, it is another incarnation unless that is configured.
    pub fn delete(&self, name: &str) {
        if let Some(queue) = self.queues().by_name.remove(name) {
            queue.wake_all();
        }
    }

    /// The options that queues get when nobody says otherwise.
    pub fn defaults(&self) -> QueueOptions {
        QueueOptions::from(&self.shared.config)
    }

    /// Joins a group. As [`Broker::source`], with the type known.
    pub fn join(&self, queue: &str, group: &str) -> Result<MemorySource, BrokerError> {
        MemorySource::join(self.clone(), queue, group)
    }

    fn queues(&self) -> MutexGuard<'_, Queues> {
        // A panic while the lock was held is ours; the queues are changed message by message and stay readable.
        self.shared.queues.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queues {
    fn queue(&mut self, name: &str) -> Result<&mut Queue, BrokerError> {
        self.by_name.get_mut(name).ok_or_else(|| BrokerError::Missing(name.to_owned()))
    }
}

#[async_trait]
impl Broker for MemoryBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    async fn source(&self, queue: &str, group: &str) -> Result<Box<dyn Source>, BrokerError> {
        Ok(Box::new(self.join(queue, group)?))
    }

    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError> {
        let count = self.queues().queue(queue)?.options.partitions.get();
        Ok((0..i32::from(count)).collect())
    }

    async fn reader(
        &self,
        queue: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        Ok(Box::new(reader::MemoryReader::open(self.clone(), queue, partition, from)?))
    }

    async fn fetch(&self, origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        reader::fetch(self, origin)
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        Ok(Some("memory".to_owned()))
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(self.clone())
    }

    async fn fenced_publisher(&self, _: &str) -> Result<Arc<dyn Publisher>, BrokerError> {
        Ok(Arc::new(publisher::Once(self.clone())))
    }

    async fn ends(&self, queue: &str) -> Result<Vec<Position>, BrokerError> {
        let mut queues = self.queues();
        let queue = queues.queue(queue)?;
        let position = |(partition, log): (i32, &log::Log)| Position {
            incarnation: queue.incarnation.to_string(),
            partition,
            next: i64::try_from(log.end()).unwrap_or(i64::MAX),
            mark: None,
        };
        Ok((0..).zip(&queue.logs).map(position).collect())
    }

    fn ends_count(&self) -> bool {
        true
    }

    async fn passed(&self, queue: &str, group: &str) -> Result<Vec<Passed>, BrokerError> {
        let mut queues = self.queues();
        let queue = queues.queue(queue)?;
        let group = queue.groups.get(group);
        let next =
            |partition: usize, log: &log::Log| match group.and_then(|group| group.shares.get(partition)) {
                Some(share) => share.passed(),
                // A group that is new begins with the oldest.
                None => log.base(),
            };
        let passed = |(partition, (at, log)): (i32, (usize, &log::Log))| Passed {
            partition,
            next: i64::try_from(next(at, log)).unwrap_or(i64::MAX),
        };
        Ok((0..).zip(queue.logs.iter().enumerate()).map(passed).collect())
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(self.clone())
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::new(self.clone())
    }
}

fn capabilities() -> Capabilities {
    Capabilities {
        kind: BrokerKind::Memory,
        order: Order::PerPartition,
        groups: true,
        delivery_count: true,
        delay: Some(DelayLimits { longest: LONGEST_DELAY, outstanding: None }),
        delayed_publish: Some(DelayLimits { longest: LONGEST_DELAY, outstanding: None }),
        again_carries: true,
        waiting_keeps_order: false,
        looking_is_free: true,
        drain_removes: true,
        offsets: true,
        cumulative_ack: false,
        dedupe_window: None,
        lost_confirm: LostConfirm::SendAgain,
        headers: HeaderRules {
            binary_values: true,
            repeated_names: true,
            absent_values: true,
            keeps_order: true,
        },
        max_message: MAX_MESSAGE,
    }
}
