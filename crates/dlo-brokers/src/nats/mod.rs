//! NATS JetStream, `kind = "nats"`.
//!
//! A queue is a subject, or a pattern of subjects; the stream that holds it is looked up by it. A group is a durable
//! pull consumer with explicit acknowledgements, so every group gets every message. Offsets are sequences of the
//! stream, and a stream created anew is another incarnation. Redeliveries are put off by the server; publishes cannot
//! be. Looking goes by sequence and costs nothing. Draining acknowledges and then removes.
//!
//! JetStream's own dead letters are advisories that point to a sequence: [`Broker::fetch`] makes them whole.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, DelayLimits, HeaderRules, Inspect, LostConfirm, OFFICE, Order, Passed,
    Position, Publisher, Reader, Seen, Source, Topology,
};
use dlo_core::origin::{BrokerKind, Origin};

mod api;
mod config;
mod connection;
mod consumer;
mod delivery;
mod headers;
mod inspect;
mod leftovers;
mod names;
mod publisher;
mod reader;
mod records;
mod settler;
mod source;
mod topology;
mod volley;
mod wire;

use api::Api;
pub use config::NatsConfig;
use connection::Connection;
use source::NatsSource;

/// The longest delay of a redelivery.
const LONGEST_DELAY: Duration = Duration::from_secs(7 * 24 * 60 * 60);
/// How long a stream knows the id of a message: the server's default, and what our topology creates.
const DEDUPE_WINDOW: Duration = Duration::from_secs(120);

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &NatsConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    let connection = Connection::new(config.clone())?;
    let capabilities = Arc::new(capabilities(config));
    Ok(Arc::new(NatsBroker { api: Api::new(Arc::new(connection)), capabilities }))
}

#[derive(Debug)]
struct NatsBroker {
    api: Api,
    capabilities: Arc<Capabilities>,
}

#[async_trait]
impl Broker for NatsBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        let client = self.api.client().await?;
        match tokio::time::timeout(api::REACH, client.flush()).await {
            Ok(Ok(())) => Ok(Some(format!("NATS {}", client.server_info().version))),
            Ok(Err(cause)) => Err(self.api.connection.away(&cause.to_string())),
            Err(_) => Err(self.api.connection.away("no answer to a ping")),
        }
    }

    async fn source(&self, queue: &str, group: &str) -> Result<Box<dyn Source>, BrokerError> {
        Ok(Box::new(NatsSource::join(&self.api, &self.capabilities, queue, group, false).await?))
    }

    async fn drain(&self, queue: &str) -> Result<Box<dyn Source>, BrokerError> {
        Ok(Box::new(NatsSource::join(&self.api, &self.capabilities, queue, OFFICE, true).await?))
    }

    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError> {
        self.api.stream_of(queue).await.map(|_| vec![0])
    }

    async fn reader(
        &self,
        queue: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        Ok(Box::new(reader::NatsReader::open(&self.api, queue, partition, from).await?))
    }

    async fn fetch(&self, origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        records::fetch(&self.api, origin).await
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        let capabilities = Arc::clone(&self.capabilities);
        Arc::new(publisher::NatsPublisher { api: self.api.clone(), capabilities })
    }

    async fn ends(&self, queue: &str) -> Result<Vec<Position>, BrokerError> {
        let (_, info) = self.api.stream_of(queue).await?;
        let next = i64::try_from(info.state.last_seq).unwrap_or(i64::MAX).saturating_add(1);
        Ok(vec![Position { incarnation: info.created, partition: 0, next, mark: None }])
    }

    /// A stream may have a window of its own, shorter than the one that our topology asks for.
    async fn remembers_sends(&self, queue: &str) -> Result<Duration, BrokerError> {
        let (_, info) = self.api.stream_of(queue).await?;
        Ok(info.limit("duplicate_window").map_or(DEDUPE_WINDOW, Duration::from_nanos))
    }

    async fn passed(&self, queue: &str, group: &str) -> Result<Vec<Passed>, BrokerError> {
        inspect::passed(&self.api, queue, group).await
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(inspect::NatsInspector(self.api.clone()))
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::new(topology::NatsTopology(self.api.clone()))
    }
}

fn capabilities(config: &NatsConfig) -> Capabilities {
    Capabilities {
        kind: BrokerKind::Nats,
        order: Order::WholeQueue,
        groups: true,
        delivery_count: true,
        // What waits for its time counts as unsettled.
        delay: Some(DelayLimits {
            longest: LONGEST_DELAY,
            outstanding: Some(u64::from(config.max_ack_pending)),
        }),
        delayed_publish: None,
        again_carries: false,
        waiting_keeps_order: false,
        looking_is_free: true,
        drain_removes: true,
        offsets: true,
        cumulative_ack: false,
        dedupe_window: Some(DEDUPE_WINDOW),
        lost_confirm: LostConfirm::SendAgainInWindow,
        headers: HeaderRules {
            binary_values: true,
            repeated_names: true,
            absent_values: true,
            keeps_order: false,
        },
        max_message: config.max_message(),
    }
}
