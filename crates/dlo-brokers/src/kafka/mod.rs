//! Kafka, `kind = "kafka"`: through librdkafka, which is built in.
//!
//! A queue is a topic, a group a consumer group. Sources are members of their group and commit what is settled, in any
//! order (`offsets`); readers take a partition by position and leave no trace but the lag they tell. Sending is
//! idempotent and confirmed by all in-sync copies. A life of a topic is its topic id, so one that was deleted and
//! created again is another queue with the same name.
//!
//! A retry that should wait goes to a retry topic of its group (`retry`). Sends of a replay are transactions, so that
//! nobody publishes behind the back of a successor (`fenced`).
//!
//! Bounded: a source or reader holds `prefetch` messages or `buffer` bytes, a publisher 32 MiB that wait for their
//! confirmation. Threads: librdkafka's own per client, and one per source.

mod config;
mod connection;
mod fenced;
mod inspect;
mod lanes;
mod native;
mod offsets;
mod poller;
mod publisher;
mod reader;
mod record;
mod retry;
mod source;
mod topology;

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, DelayLimits, HeaderRules, Inspect, LostConfirm, Order, Passed,
    Position, Publisher, Reader, Seen, Source, Topology,
};
use dlo_core::origin::{BrokerKind, Origin};
use rdkafka::consumer::Consumer;

pub use config::{Bootstrap, KafkaConfig, SaslConfig, SaslMechanism};
use connection::{Cluster, PATIENCE};
use fenced::Fenced;
use inspect::KafkaInspect;
use publisher::KafkaPublisher;
use reader::KafkaReader;
use source::KafkaSource;
use topology::KafkaTopology;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &KafkaConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    let cluster = Arc::new(Cluster::new(config.clone())?);
    let capabilities = capabilities(config);
    let publisher = Arc::new(KafkaPublisher::new(Arc::clone(&cluster), capabilities.clone()));
    let topology = Arc::new(KafkaTopology::new(Arc::clone(&cluster)));
    Ok(Arc::new(KafkaBroker { office: Office { cluster, publisher, topology }, capabilities }))
}

fn capabilities(config: &KafkaConfig) -> Capabilities {
    Capabilities {
        kind: BrokerKind::Kafka,
        order: Order::PerPartition,
        groups: true,
        delivery_count: false,
        delay: Some(DelayLimits { longest: retry::LONGEST, outstanding: None }),
        delayed_publish: None,
        again_carries: true,
        waiting_keeps_order: false,
        looking_is_free: true,
        drain_removes: false,
        offsets: true,
        cumulative_ack: true,
        dedupe_window: None,
        lost_confirm: LostConfirm::ReadBack,
        headers: HeaderRules {
            binary_values: true,
            repeated_names: true,
            absent_values: true,
            keeps_order: true,
        },
        max_message: config.max_message(),
    }
}

/// What the ends of one cluster share.
#[derive(Debug)]
struct Office {
    cluster: Arc<Cluster>,
    publisher: Arc<KafkaPublisher>,
    topology: Arc<KafkaTopology>,
}

#[derive(Debug)]
struct KafkaBroker {
    office: Office,
    capabilities: Capabilities,
}

#[async_trait]
impl Broker for KafkaBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        let asked = self.office.cluster.ask(|cluster, lookout| {
            let metadata = lookout.fetch_metadata(Some("dlo-ping"), PATIENCE);
            let metadata = metadata.map_err(|error| cluster.explain(&error, "dlo-ping"))?;
            let cluster = lookout.client().fetch_cluster_id(PATIENCE);
            Ok((metadata.brokers().len(), cluster))
        });
        let (brokers, cluster) = asked.await?;
        Ok(cluster.map(|id| format!("Kafka cluster {id}, {brokers} broker(s)")))
    }

    async fn source(&self, queue: &str, group: &str) -> Result<Box<dyn Source>, BrokerError> {
        Ok(Box::new(KafkaSource::join(&self.office, &self.capabilities, queue, group).await?))
    }

    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError> {
        let queue = queue.to_owned();
        self.office.cluster.ask(move |cluster, _| Ok(cluster.describe(&queue)?.partitions)).await
    }

    async fn reader(
        &self,
        queue: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        Ok(Box::new(KafkaReader::open(&self.office.cluster, queue, partition, from).await?))
    }

    async fn fetch(&self, origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        let (Some(partition), Some(offset)) = (origin.partition, origin.offset) else { return Ok(None) };
        let origin = origin.clone();
        let fetch = move |cluster: &Arc<Cluster>, _: &_| {
            reader::fetch(cluster, origin.queue, origin.incarnation.as_deref(), partition, offset)
        };
        self.office.cluster.ask(fetch).await
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::clone(&self.office.publisher) as Arc<dyn Publisher>
    }

    async fn fenced_publisher(&self, name: &str) -> Result<Arc<dyn Publisher>, BrokerError> {
        Ok(Arc::new(Fenced::open(&self.office.publisher, &self.capabilities, name).await?))
    }

    async fn ends(&self, queue: &str) -> Result<Vec<Position>, BrokerError> {
        let queue = queue.to_owned();
        self.office.cluster.ask(move |cluster, lookout| inspect::ends(cluster, lookout, &queue)).await
    }

    fn ends_count(&self) -> bool {
        true
    }

    async fn passed(&self, queue: &str, group: &str) -> Result<Vec<Passed>, BrokerError> {
        let (queue, group) = (queue.to_owned(), group.to_owned());
        self.office
            .cluster
            .ask(move |cluster, lookout| inspect::passed(cluster, lookout, &queue, &group))
            .await
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(KafkaInspect(Arc::clone(&self.office.cluster)))
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::clone(&self.office.topology) as Arc<dyn Topology>
    }
}
