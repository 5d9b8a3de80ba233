//! RabbitMQ over AMQP 0-9-1, `kind = "rabbitmq"`.
//!
//! A queue is consumed by push with a bounded prefetch; every consumer of a queue shares it. Answers are told in few
//! frames and made sure of by one round trip. What is to come later waits in retry queues (see [`hops`]). Publishing
//! is confirmed and mandatory. Headers keep their AMQP types (see [`table`]). Looking at messages is never free here:
//! the server counts it as a delivery and hides the message meanwhile, so there is no reader.
//!
//! Two connections serve a whole broker, opened when needed and again when they broke.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, DelayLimits, HeaderRules, Inspect, LostConfirm, Order, Position,
    Publisher, Reader, Seen, Source, Topology,
};
use dlo_core::origin::{BrokerKind, Origin};
use lapin::options::QueueDeclareOptions;
use lapin::types::ShortString;

mod config;
mod connection;
mod hops;
mod inspect;
mod ledger;
mod management;
mod message;
mod parked;
mod probe;
mod publisher;
mod route;
mod seat;
mod settler;
mod source;
mod table;
mod topology;

pub use config::{QueueType, RabbitmqConfig};

use connection::{Link, answered};
use hops::{LONGEST, Tier};
use management::Management;
use publisher::Idle;
use seat::{Seat, short};
use source::RabbitmqSource;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &RabbitmqConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    let address = Arc::new(config.address()?);
    let management = config.management.as_ref().map(|url| Management::new(url, &address)).transpose()?;
    let shared = Shared {
        vhost: address.uri.vhost.clone(),
        user: address.uri.authority.userinfo.username.clone(),
        consuming: Link::new(Arc::clone(&address), "dlo"),
        publishing: Link::new(address, "dlo (publishing)"),
        management,
        prefetch: config.prefetch.get(),
        queue_type: config.queue_type,
        capabilities: capabilities(config),
        idle: Idle::default(),
        seats: Mutex::default(),
        retry_queues: Mutex::default(),
        exchanges: Mutex::default(),
    };
    Ok(Arc::new(RabbitmqBroker { shared: Arc::new(shared) }))
}

/// A handle on one virtual host of one server.
#[derive(Debug, Clone)]
pub(crate) struct RabbitmqBroker {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Whom the server knows us as.
    user: String,
    vhost: String,
    queue_type: QueueType,
    consuming: Link,
    publishing: Link,
    management: Option<Management>,
    prefetch: u16,
    capabilities: Capabilities,
    idle: Idle,
    /// Our own consumers, so that what they hold can be counted.
    seats: Mutex<Vec<Weak<Seat>>>,
    /// The retry queues that were declared since this process began.
    retry_queues: Mutex<HashSet<String>>,
    /// Exchanges that were there when a message was last sent through them.
    exchanges: Mutex<HashSet<String>>,
}

impl Shared {
    fn remember(&self, seat: &Arc<Seat>) {
        let mut seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.retain(|seat| seat.strong_count() > 0);
        seats.push(Arc::downgrade(seat));
    }

    fn seats(&self, queue: &str) -> Vec<Arc<Seat>> {
        let seats = self.seats.lock().unwrap_or_else(PoisonError::into_inner);
        seats.iter().filter_map(Weak::upgrade).filter(|seat| seat.queue == queue).collect()
    }

    /// The retry queue of a delay, declared when it is first needed. `queue` itself must be there.
    async fn retry_queue(&self, queue: &str, tier: &Tier) -> Result<ShortString, BrokerError> {
        let name = tier.queue(queue);
        let known = self.retry_queues.lock().unwrap_or_else(PoisonError::into_inner).contains(&name);
        if !known {
            self.look(queue).await?;
            let channel = self.consuming.channel().await?;
            let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
            answered(channel.queue_declare(short(&name)?, durable, tier.arguments(queue))).await?;
            self.retry_queues.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone());
        }
        short(&name)
    }

    /// Somebody deleted it: the next message that needs it declares it again.
    fn forget_retry_queue(&self, name: &str) {
        self.retry_queues.lock().unwrap_or_else(PoisonError::into_inner).remove(name);
    }
}

#[async_trait]
impl Broker for RabbitmqBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        self.shared.consuming.channel().await?;
        match &self.shared.management {
            Some(management) => management.version().await.map(Some),
            None => Ok(None),
        }
    }

    async fn source(&self, queue: &str, _group: &str) -> Result<Box<dyn Source>, BrokerError> {
        Ok(Box::new(RabbitmqSource::join(Arc::clone(&self.shared), queue).await?))
    }

    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError> {
        self.shared.look(queue).await?;
        Ok(vec![0])
    }

    async fn reader(
        &self,
        queue: &str,
        _partition: i32,
        _from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        Err(looking_costs(queue))
    }

    async fn fetch(&self, origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        Err(looking_costs(&origin.queue))
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(self.clone())
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(self.clone())
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::new(self.clone())
    }
}

fn looking_costs(queue: &str) -> BrokerError {
    BrokerError::Refused(format!(
        "RabbitMQ cannot show messages of `{queue}` without delivering them, which hides them from others and spends \
         the delivery limit of a quorum queue; drain it instead"
    ))
}

fn capabilities(config: &RabbitmqConfig) -> Capabilities {
    let delays = DelayLimits { longest: LONGEST, outstanding: None };
    Capabilities {
        kind: BrokerKind::Rabbitmq,
        order: Order::WholeQueue,
        groups: false,
        delivery_count: config.queue_type == QueueType::Quorum,
        delay: Some(delays),
        delayed_publish: Some(delays),
        again_carries: true,
        waiting_keeps_order: false,
        looking_is_free: false,
        drain_removes: true,
        offsets: false,
        cumulative_ack: true,
        dedupe_window: None,
        lost_confirm: LostConfirm::Unknown,
        headers: HeaderRules {
            binary_values: true,
            repeated_names: false,
            absent_values: true,
            keeps_order: false,
        },
        max_message: config.max_message,
    }
}
