//! Google Pub/Sub, `kind = "pubsub"`: its REST API over HTTPS, with tokens from Google's own library.
//!
//! A queue is a topic, a group on it the subscription `<topic>.<group>`. What was pulled is leased for the subscription's
//! acknowledgement deadline and comes again unless it was acknowledged; moving that deadline is how a redelivery is put
//! off (up to ten minutes). Pulling is the only way to look, and hides messages, so there is no reader. The service tells
//! no depth here; its numbers are in Cloud Monitoring.

mod attributes;
mod config;
mod connection;
mod credentials;
mod names;
mod publisher;
mod settler;
mod source;
mod subscription;
mod topology;
mod wire;

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, DelayLimits, HeaderRules, Inspect, LostConfirm, Order, Position,
    Publisher, QueueState, Reader, Seen, Source, Topology,
};
use dlo_core::origin::{BrokerKind, Origin};
use serde_json::Value;

use crate::leases::Held;
pub use config::PubsubConfig;
use connection::Connection;
use names::Queue;
use source::{PubsubSource, Seat};

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &PubsubConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    let connection = Arc::new(Connection::new(config)?);
    Ok(Arc::new(PubsubBroker { connection, capabilities: capabilities(config) }))
}

#[derive(Debug, Clone)]
struct PubsubBroker {
    connection: Arc<Connection>,
    capabilities: Capabilities,
}

impl PubsubBroker {
    async fn there(&self, queue: &str) -> Result<(), BrokerError> {
        let (Queue::Topic(path) | Queue::Subscription(path)) = self.connection.queue(queue)?;
        self.connection.get::<Value>(&path).await.map(|_| ()).map_err(|failure| failure.of(queue))
    }
}

#[async_trait]
impl Broker for PubsubBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        let project = &self.connection.config.project;
        let asked = self.connection.get::<Value>(&format!("projects/{project}/topics?pageSize=1")).await;
        asked.map(|_| None).map_err(|failure| match failure.is_missing() {
            true => BrokerError::Refused(format!("there is no project `{project}`: set `project`")),
            false => failure.of(project),
        })
    }

    async fn source(&self, queue: &str, group: &str) -> Result<Box<dyn Source>, BrokerError> {
        let joined = self.connection.join(queue, group).await?;
        let connection = Arc::clone(&self.connection);
        let seat = Seat { connection, queue: queue.to_owned(), joined, held: Held::default() };
        Ok(Box::new(PubsubSource::new(seat, self.capabilities.clone())))
    }

    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError> {
        self.there(queue).await.map(|()| vec![0])
    }

    async fn reader(
        &self,
        queue: &str,
        _partition: i32,
        _from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        Err(unlookable(queue))
    }

    async fn fetch(&self, origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        Err(unlookable(&origin.queue))
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

#[async_trait]
impl Inspect for PubsubBroker {
    /// That it is there is all that the service tells: its counts are in Cloud Monitoring, minutes late.
    async fn inspect(&self, queue: &str, _: Option<&str>) -> Result<QueueState, BrokerError> {
        self.there(queue).await.map(|()| QueueState::default())
    }
}

fn unlookable(queue: &str) -> BrokerError {
    BrokerError::Refused(format!(
        "looking at `{queue}` would hide its messages from others and count as a delivery of each, as Pub/Sub has no \
         other way; drain it instead"
    ))
}

fn capabilities(config: &PubsubConfig) -> Capabilities {
    Capabilities {
        kind: BrokerKind::Pubsub,
        order: Order::None,
        groups: true,
        // Counted only where the subscription has a dead-letter policy.
        delivery_count: false,
        delay: Some(DelayLimits { longest: config::LONGEST_DEADLINE, outstanding: None }),
        delayed_publish: None,
        again_carries: false,
        waiting_keeps_order: false,
        looking_is_free: false,
        drain_removes: true,
        offsets: false,
        cumulative_ack: false,
        dedupe_window: None,
        lost_confirm: LostConfirm::Unknown,
        headers: HeaderRules {
            binary_values: true,
            repeated_names: true,
            absent_values: true,
            keeps_order: false,
        },
        max_message: config.max_message(),
    }
}
