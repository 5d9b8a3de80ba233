//! STOMP 1.2, `kind = "stomp"`: ActiveMQ Classic.
//!
//! The protocol is small enough to be ours: frames, one task that reads and one that writes. What it lacks is made of
//! ActiveMQ's extensions: prefetch, scheduled messages, statistics. Which of the last two the broker has, the settings say.

mod config;
mod connection;
mod frame;
mod inspect;
mod message;
mod publisher;
mod source;
mod statistics;
mod topology;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, DelayLimits, HeaderRules, Inspect, LostConfirm, Order, Position,
    Publisher, Reader, Seen, Source, Topology,
};
use dlo_core::origin::{BrokerKind, Origin};
use tokio::sync::mpsc;

pub use config::StompConfig;
use connection::Connector;
use inspect::StompInspector;
use publisher::StompPublisher;
use source::StompSource;
use statistics::Statistics;
use topology::StompTopology;

const NOT_FREE: &str =
    "STOMP has no positions in a queue, so it cannot be read without taking; use mode `drain`";

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &StompConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    let connector = Arc::new(Connector::new(config)?);
    let capabilities = Arc::new(capabilities(config));
    let statistics = config.statistics.then(|| Arc::new(Statistics::new(&connector)));
    let publisher = StompPublisher::new(&connector, &capabilities, statistics.clone());
    Ok(Arc::new(StompBroker { connector, capabilities, publisher: Arc::new(publisher), statistics }))
}

fn capabilities(config: &StompConfig) -> Capabilities {
    let longest = Duration::from_secs(365 * 24 * 3_600);
    let delay = config.scheduler.then_some(DelayLimits { longest, outstanding: None });
    Capabilities {
        kind: BrokerKind::Stomp,
        order: Order::WholeQueue,
        groups: false,
        delivery_count: false,
        delay,
        delayed_publish: delay,
        again_carries: true,
        waiting_keeps_order: false,
        looking_is_free: false,
        drain_removes: true,
        offsets: false,
        cumulative_ack: false,
        dedupe_window: None,
        lost_confirm: LostConfirm::Unknown,
        headers: HeaderRules {
            binary_values: false,
            repeated_names: false,
            absent_values: false,
            keeps_order: false,
        },
        max_message: config.max_message,
    }
}

#[derive(Debug)]
struct StompBroker {
    connector: Arc<Connector>,
    capabilities: Arc<Capabilities>,
    publisher: Arc<StompPublisher>,
    statistics: Option<Arc<Statistics>>,
}

#[async_trait]
impl Broker for StompBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        let (messages, _) = mpsc::unbounded_channel();
        Ok(self.connector.open(messages).await?.server)
    }

    async fn source(&self, queue: &str, _group: &str) -> Result<Box<dyn Source>, BrokerError> {
        if let Some(statistics) = &self.statistics
            && statistics.of(queue).await?.is_none()
        {
            return Err(BrokerError::Missing(queue.to_owned()));
        }
        Ok(Box::new(StompSource::join(&self.connector, &self.capabilities, queue).await?))
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
        Arc::<StompPublisher>::clone(&self.publisher)
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(StompInspector { statistics: self.statistics.clone() })
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::new(StompTopology {
            connector: Arc::clone(&self.connector),
            statistics: self.statistics.clone(),
        })
    }
}
