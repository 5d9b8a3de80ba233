//! AMQP 1.0, `kind = "amqp1"`: ActiveMQ Artemis, ActiveMQ Classic, Azure Service Bus, and whoever else speaks it.
//!
//! The standard covers receiving, settling and sending. Delays, depth and topology are extensions of single brokers, and
//! only those of the configured [`Flavour`] are used and declared.

mod config;
mod connection;
mod decode;
mod encode;
mod errors;
mod inspect;
mod management;
mod publisher;
mod pump;
mod shelf;
mod source;
mod topology;
mod value;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, DelayLimits, HeaderRules, Inspect, LostConfirm, Order, Position,
    Publisher, Reader, Seen, Source, Topology,
};
use dlo_core::origin::{BrokerKind, Origin};

pub use config::{Amqp1Config, Flavour, Sasl};
use connection::Connector;
use inspect::Amqp1Inspector;
use management::Management;
use publisher::Amqp1Publisher;
use source::Amqp1Source;
use topology::Amqp1Topology;

const NOT_FREE: &str =
    "AMQP 1.0 has no positions in a queue, so it cannot be read without taking; use mode `drain`";

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &Amqp1Config) -> Result<Arc<dyn Broker>, BrokerError> {
    let connector = Arc::new(Connector::new(config)?);
    let capabilities = Arc::new(capabilities(config));
    let publisher: Arc<dyn Publisher> = Arc::new(Amqp1Publisher::new(&connector, &capabilities));
    let management = Arc::new(Management::new(&connector));
    Ok(Arc::new(Amqp1Broker { connector, capabilities, publisher, management }))
}

fn capabilities(config: &Amqp1Config) -> Capabilities {
    let delay = match config.flavour {
        Flavour::Artemis | Flavour::Activemq | Flavour::ServiceBus => {
            Some(DelayLimits { longest: Duration::from_secs(365 * 24 * 3_600), outstanding: None })
        }
        Flavour::Generic => None,
    };
    Capabilities {
        kind: BrokerKind::Amqp1,
        order: Order::WholeQueue,
        groups: false,
        delivery_count: true,
        delay,
        delayed_publish: delay,
        again_carries: delay.is_some(),
        waiting_keeps_order: false,
        looking_is_free: false,
        drain_removes: true,
        offsets: false,
        cumulative_ack: false,
        dedupe_window: None,
        lost_confirm: LostConfirm::Unknown,
        headers: HeaderRules {
            binary_values: true,
            repeated_names: false,
            absent_values: true,
            keeps_order: true,
        },
        max_message: config.max_message(),
    }
}

#[derive(Debug)]
struct Amqp1Broker {
    connector: Arc<Connector>,
    capabilities: Arc<Capabilities>,
    publisher: Arc<dyn Publisher>,
    management: Arc<Management>,
}

#[async_trait]
impl Broker for Amqp1Broker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        match self.connector.config.flavour {
            Flavour::Artemis => {
                let version = self.management.call("broker", "getVersion", &serde_json::json!([])).await?;
                Ok(version.as_str().map(|version| format!("ActiveMQ Artemis {version}")))
            }
            Flavour::Generic | Flavour::Activemq | Flavour::ServiceBus => {
                self.connector.open().await?.close().await;
                Ok(None)
            }
        }
    }

    async fn source(&self, queue: &str, _group: &str) -> Result<Box<dyn Source>, BrokerError> {
        let joined = Amqp1Source::join(&self.connector, &self.capabilities, &self.publisher, queue);
        Ok(Box::new(joined.await?))
    }

    async fn partitions(&self, _queue: &str) -> Result<Vec<i32>, BrokerError> {
        Ok(vec![0])
    }

    async fn reader(
        &self,
        _queue: &str,
        _partition: i32,
        _from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        Err(BrokerError::Refused(NOT_FREE.to_owned()))
    }

    async fn fetch(&self, _origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        Err(BrokerError::Refused(NOT_FREE.to_owned()))
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::clone(&self.publisher)
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(Amqp1Inspector {
            connector: Arc::clone(&self.connector),
            management: Arc::clone(&self.management),
        })
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::new(Amqp1Topology {
            connector: Arc::clone(&self.connector),
            management: Arc::clone(&self.management),
        })
    }
}
