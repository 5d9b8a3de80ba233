//! Apache Kafka: the whole suite on one server, outages on another, then what only Kafka has.

#![expect(clippy::panic, reason = "in tests, to stop is how a failure is told")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dlo_brokers::kafka::KafkaConfig;
use dlo_brokers::{BrokerConfig, connect};
use dlo_core::broker::{Broker, Delivery, Destination, Outgoing, Settlement, Source};
use dlo_core::message::{Message, Payload};
use dlo_core::units::HumanDuration;
use dlo_testkit::clock::TokioClock;
use dlo_testkit::conformance::{Lab, Outages, Patience};
use dlo_testkit::harness::kafka::Kafka;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::{Mutex, MutexGuard, OnceCell};

mod doors;
mod foreign;
mod logs;
mod rebalances;
mod replays;

/// Partitions of a fresh topic.
const PARTITIONS: i32 = 2;

/// A cluster with a broker on it.
struct KafkaLab {
    kafka: &'static Kafka,
    broker: Arc<dyn Broker>,
    /// Whoever stops the server has it alone.
    _alone: Option<MutexGuard<'static, ()>>,
}

async fn lab() -> KafkaLab {
    KafkaLab::on(Kafka::shared().await, None).await
}

async fn fragile() -> KafkaLab {
    static OWN: OnceCell<Kafka> = OnceCell::const_new();
    static ALONE: Mutex<()> = Mutex::const_new(());
    let alone = ALONE.lock().await;
    KafkaLab::on(OWN.get_or_init(Kafka::own).await, Some(alone)).await
}

async fn broker_of(config: KafkaConfig) -> Arc<dyn Broker> {
    connect(&BrokerConfig::Kafka(Box::new(config)), Arc::new(TokioClock::new())).await.unwrap()
}

fn settings(kafka: &Kafka) -> KafkaConfig {
    KafkaConfig {
        publish_timeout: HumanDuration(Duration::from_secs(10)),
        ..KafkaConfig::at(&kafka.bootstrap)
    }
}

impl KafkaLab {
    async fn on(kafka: &'static Kafka, alone: Option<MutexGuard<'static, ()>>) -> Self {
        Self { kafka, broker: broker_of(settings(kafka)).await, _alone: alone }
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        ClientConfig::new().set("bootstrap.servers", &self.kafka.bootstrap).create().unwrap()
    }

    /// A fresh topic with settings of its own.
    async fn topic(&self, partitions: i32, settings: &[(&str, &str)]) -> String {
        let name = self.fresh_name();
        self.create(&name, partitions, settings).await;
        name
    }

    /// Creates a topic, after a deletion of the same name is through.
    async fn create(&self, name: &str, partitions: i32, settings: &[(&str, &str)]) {
        let admin = self.admin();
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (setting, value) in settings {
            topic = topic.set(setting, value);
        }
        for _ in 0..300 {
            let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
            match admin.create_topics([&topic], &options).await.unwrap().remove(0) {
                Ok(_) => return self.await_topic(name, true).await,
                Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                Err((_, error)) => panic!("creating {name}: {error}"),
            }
        }
        panic!("{name} could not be created");
    }

    async fn delete(&self, name: &str) {
        let options = AdminOptions::new().operation_timeout(Some(Duration::from_secs(30)));
        self.admin().delete_topics(&[name], &options).await.unwrap().remove(0).unwrap();
        self.await_topic(name, false).await;
    }

    async fn await_topic(&self, name: &str, there: bool) {
        for _ in 0..300 {
            if self.broker.partitions(name).await.is_ok() == there {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("{name}: expected it there: {there}");
    }
}

#[async_trait]
impl Lab for KafkaLab {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    async fn another(&self) -> Arc<dyn Broker> {
        broker_of(settings(self.kafka)).await
    }

    async fn fresh_queue(&self) -> String {
        self.topic(PARTITIONS, &[]).await
    }

    fn fresh_name(&self) -> String {
        static NAMES: AtomicU32 = AtomicU32::new(0);
        format!("q{}-{}", std::process::id(), NAMES.fetch_add(1, Ordering::Relaxed))
    }

    async fn recreate(&self, queue: &str) {
        self.delete(queue).await;
        self.create(queue, PARTITIONS, &[]).await;
    }

    fn patience(&self) -> Patience {
        Patience {
            arrival: Duration::from_secs(40),
            silence: Duration::from_millis(2_500),
            delay: Duration::from_secs(5),
        }
    }
}

#[async_trait]
impl Outages for KafkaLab {
    async fn stop(&self) {
        self.kafka.stop();
    }

    async fn start(&self) {
        self.kafka.start().await;
    }

    async fn cut(&self) {
        self.kafka.cut();
    }
}

dlo_testkit::broker_conformance! { #[tokio::test(flavor = "multi_thread", worker_threads = 2)] lab }

mod outages {
    use super::fragile;

    dlo_testkit::broker_outages! { #[tokio::test(flavor = "multi_thread", worker_threads = 2)] fragile }
}

fn message(key: &str, body: &str) -> Message {
    Message {
        key: Some(Payload::from(key.to_owned())),
        payload: Payload::from(body.to_owned()),
        ..Message::default()
    }
}

fn to(queue: &str, partition: Option<i32>, message: Message) -> Outgoing {
    Outgoing { to: Destination { partition, ..Destination::queue(queue) }, message, delay: None }
}

async fn publish(broker: &Arc<dyn Broker>, all: Vec<Outgoing>) {
    for result in broker.publisher().publish(all).await {
        result.unwrap();
    }
}

fn body(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.message.payload.0).into_owned()
}

async fn done(source: &dyn Source, deliveries: Vec<Delivery>) {
    let settled = deliveries.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
    source.settler().settle(settled).await.unwrap();
}
