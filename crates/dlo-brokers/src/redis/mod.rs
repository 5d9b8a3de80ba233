//! Redis Streams, `kind = "redis"`; Valkey speaks the same.
//!
//! A queue is a stream, a group is a consumer group. Redis keeps what each consumer was given and has not acknowledged,
//! and counts deliveries; it has no dead-lettering, no delays and no hand-back. These are made of its own parts, each in
//! one atomic step ([`script`]): what is handed back is pending under the consumer [`RETURNED`], what waits for a retry
//! under [`DELAYED`] with its time in a sorted set, and what is given up is moved to `<stream>:dlq` with its story.
//! Consumers of others, in the same group, are not disturbed by any of it.
//!
//! Rooms: [`entry`] (fields ↔ message), [`source`] and [`reading`] (consume), [`settler`], [`keeper`] (renew, leave,
//! sweep), [`burial`] (dead-letter), [`publisher`], [`fenced`] (publish once), [`reader`] (look), [`inspect`], [`topology`].

mod burial;
mod config;
mod connection;
mod entry;
mod fenced;
mod id;
mod inspect;
mod keeper;
mod object;
mod publisher;
mod reader;
mod reading;
mod reply;
mod script;
mod seat;
mod settler;
mod source;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, DelayLimits, HeaderRules, Inspect, LostConfirm, OFFICE, Order,
    Position, Publisher, Reader, Seen, Source, Topology,
};
use dlo_core::origin::{BrokerKind, Origin};

pub use config::{RedisConfig, Sweep};
use connection::{Door, Link};

/// The consumer under whose name lies what was handed back: whoever looks first takes it.
const RETURNED: &str = "dlo:returned";
/// The consumer under whose name lies what waits for its retry.
const DELAYED: &str = "dlo:delayed";

/// The longest delay of a redelivery or a publish.
const LONGEST_DELAY: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &RedisConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    config.check()?;
    let link = Link::new(Arc::new(Door::new(config)?));
    let shared = Shared { config: config.clone(), capabilities: capabilities(config), link };
    Ok(Arc::new(RedisBroker { shared: Arc::new(shared) }))
}

#[derive(Debug, Clone)]
struct RedisBroker {
    shared: Arc<Shared>,
}

/// What every end of the broker has in common.
#[derive(Debug)]
struct Shared {
    config: RedisConfig,
    capabilities: Capabilities,
    /// For everything that does not block.
    link: Link,
}

/// The keys that belong to one group of one stream.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Names {
    stream: String,
    group: String,
    /// The stream of dead letters.
    dead: String,
    /// Publishes put off: a sorted set of whole messages by their time, for all groups.
    publishes: String,
    /// Retries put off: a sorted set of entry ids by their time, for this group.
    retries: String,
}

impl Names {
    fn new(config: &RedisConfig, stream: &str, group: &str) -> Self {
        Self {
            stream: stream.to_owned(),
            group: group.to_owned(),
            dead: config.dead_letters_of(stream),
            publishes: publishes_of(stream),
            retries: format!("{stream}:due:{group}"),
        }
    }
}

fn publishes_of(stream: &str) -> String {
    format!("{stream}:due")
}

#[async_trait]
impl Broker for RedisBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        inspect::ping(&self.shared).await
    }

    async fn source(&self, queue: &str, group: &str) -> Result<Box<dyn Source>, BrokerError> {
        let names = Names::new(&self.shared.config, queue, group);
        Ok(Box::new(source::RedisSource::join(Arc::clone(&self.shared), names, false).await?))
    }

    async fn drain(&self, queue: &str) -> Result<Box<dyn Source>, BrokerError> {
        let names = Names::new(&self.shared.config, queue, OFFICE);
        Ok(Box::new(source::RedisSource::join(Arc::clone(&self.shared), names, true).await?))
    }

    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError> {
        inspect::look(&self.shared, queue, None).await.map(|_| vec![0])
    }

    async fn reader(
        &self,
        queue: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        let reader = reader::RedisReader::open(Arc::clone(&self.shared), queue, partition, from).await?;
        Ok(Box::new(reader))
    }

    async fn fetch(&self, origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        reader::fetch(&self.shared, origin).await
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(self.clone())
    }

    async fn fenced_publisher(&self, _: &str) -> Result<Arc<dyn Publisher>, BrokerError> {
        Ok(Arc::new(fenced::Fenced(Arc::clone(&self.shared))))
    }

    async fn ends(&self, queue: &str) -> Result<Vec<Position>, BrokerError> {
        let facts = inspect::look(&self.shared, queue, None).await?;
        Ok(vec![reader::position(facts.last)])
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(self.clone())
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::new(self.clone())
    }
}

fn capabilities(config: &RedisConfig) -> Capabilities {
    let delay = Some(DelayLimits { longest: LONGEST_DELAY, outstanding: None });
    Capabilities {
        kind: BrokerKind::Redis,
        order: Order::WholeQueue,
        groups: true,
        delivery_count: true,
        delay,
        delayed_publish: delay,
        again_carries: false,
        waiting_keeps_order: false,
        looking_is_free: true,
        drain_removes: true,
        // An entry has an id, not a number.
        offsets: false,
        cumulative_ack: false,
        dedupe_window: None,
        lost_confirm: LostConfirm::SendAgain,
        headers: HeaderRules {
            binary_values: true,
            repeated_names: true,
            absent_values: true,
            keeps_order: true,
        },
        max_message: usize::try_from(config.max_message.0).unwrap_or(usize::MAX),
    }
}
