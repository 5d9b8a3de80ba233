//! RabbitMQ, against the real server: the whole suite on quorum queues and on classic ones, outages, then what is its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dlo_brokers::BrokerConfig;
use dlo_brokers::rabbitmq::{QueueType, RabbitmqConfig};
use dlo_brokers::secret::Secret;
use dlo_core::broker::{
    Broker, Confirmed, Delivery, Destination, Outgoing, PublishError, Settlement, Source,
};
use dlo_core::message::{Message, Payload};
use dlo_testkit::clock::TokioClock;
use dlo_testkit::conformance::{Lab, Outages, Patience};
use dlo_testkit::harness::proxy::Proxy;
use dlo_testkit::harness::rabbitmq::{Own, Rabbitmq};
use lapin::options::{QueueDeclareOptions, QueueDeleteOptions};
use lapin::types::{AMQPValue, FieldTable, LongString};
use lapin::{Channel, Connection, ConnectionProperties};
use tokio::sync::Mutex;

mod access;
mod dead_letters;
mod topology;
mod wire;

/// A broker under test, and a client of our own beside it.
struct RabbitmqLab {
    broker: Arc<dyn Broker>,
    queue_type: QueueType,
    channel: Channel,
}

fn config(url: String) -> RabbitmqConfig {
    RabbitmqConfig { url: Some(Secret::new(url)), ..RabbitmqConfig::default() }
}

async fn broker(config: RabbitmqConfig) -> Arc<dyn Broker> {
    dlo_brokers::connect(&BrokerConfig::Rabbitmq(config), Arc::new(TokioClock::new())).await.unwrap()
}

/// A client that knows nothing of us.
async fn client(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.unwrap();
    connection.create_channel().await.unwrap()
}

async fn lab_of(queue_type: QueueType) -> RabbitmqLab {
    let server = Rabbitmq::shared().await;
    let config = RabbitmqConfig { queue_type, ..config(server.url()) };
    RabbitmqLab { broker: broker(config).await, queue_type, channel: client(&server.url()).await }
}

/// A name that no other test has.
fn fresh(what: &str) -> String {
    static NAMES: AtomicU32 = AtomicU32::new(0);
    format!("{what}{}", NAMES.fetch_add(1, Ordering::Relaxed))
}

fn text(text: &str) -> AMQPValue {
    AMQPValue::LongString(LongString::from(text))
}

fn arguments(entries: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (name, value) in entries {
        table.insert((*name).into(), value.clone());
    }
    table
}

async fn declare(channel: &Channel, queue: &str, entries: &[(&str, AMQPValue)]) {
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), durable, arguments(entries)).await.unwrap();
}

fn message(body: &str) -> Message {
    Message { payload: Payload::from(body.to_owned()), ..Message::default() }
}

fn to(queue: &str, message: Message) -> Outgoing {
    Outgoing { to: Destination::queue(queue), message, delay: None }
}

async fn publish(broker: &Arc<dyn Broker>, queue: &str, message: Message) -> Result<Confirmed, PublishError> {
    broker.publisher().publish(vec![to(queue, message)]).await.remove(0)
}

async fn one(source: &mut Box<dyn Source>) -> Delivery {
    let mut came = source.receive(1, Duration::from_secs(20)).await.unwrap();
    assert_eq!(came.len(), 1, "nothing came");
    came.remove(0)
}

async fn settle(source: &dyn Source, delivery: Delivery, how: Settlement) {
    source.settler().settle(vec![delivery.settle(how)]).await.unwrap();
}

/// The next message of a queue, taken.
async fn take(broker: &Arc<dyn Broker>, queue: &str) -> Message {
    let mut source = broker.drain(queue).await.unwrap();
    let delivery = one(&mut source).await;
    let message = delivery.message.clone();
    settle(&*source, delivery, Settlement::Done).await;
    source.close().await.unwrap();
    message
}

impl RabbitmqLab {
    async fn declare(&self, queue: &str) {
        let kind = match self.queue_type {
            QueueType::Quorum => "quorum",
            QueueType::Classic => "classic",
        };
        declare(&self.channel, queue, &[("x-queue-type", text(kind))]).await;
    }
}

#[async_trait]
impl Lab for RabbitmqLab {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    async fn fresh_queue(&self) -> String {
        let name = self.fresh_name();
        self.declare(&name).await;
        name
    }

    fn fresh_name(&self) -> String {
        fresh("q")
    }

    async fn recreate(&self, queue: &str) {
        self.channel.queue_delete(queue.into(), QueueDeleteOptions::default()).await.unwrap();
        self.declare(queue).await;
    }

    fn patience(&self) -> Patience {
        Patience {
            arrival: Duration::from_secs(20),
            silence: Duration::from_millis(400),
            delay: Duration::from_secs(1),
        }
    }
}

mod quorum {
    //! As the topology makes queues.

    async fn lab() -> super::RabbitmqLab {
        super::lab_of(super::QueueType::Quorum).await
    }

    dlo_testkit::broker_conformance! { #[tokio::test(flavor = "multi_thread", worker_threads = 2)] lab }
}

mod classic {
    //! As many queues still are.

    async fn lab() -> super::RabbitmqLab {
        super::lab_of(super::QueueType::Classic).await
    }

    dlo_testkit::broker_conformance! { #[tokio::test(flavor = "multi_thread", worker_threads = 2)] lab }
}

/// The server that may be stopped, behind a wire that can be cut.
struct OutageLab {
    inner: RabbitmqLab,
    server: Mutex<Own>,
    proxy: Proxy,
}

async fn outage_lab() -> OutageLab {
    let server = Rabbitmq::own().await;
    let proxy = Proxy::before(server.address()).await;
    let config =
        RabbitmqConfig { queue_type: QueueType::Classic, ..config(server.url_at(proxy.address.port())) };
    let channel = client(&server.url()).await;
    let inner = RabbitmqLab { broker: broker(config).await, queue_type: QueueType::Classic, channel };
    OutageLab { inner, server: Mutex::new(server), proxy }
}

#[async_trait]
impl Lab for OutageLab {
    fn broker(&self) -> Arc<dyn Broker> {
        self.inner.broker()
    }

    async fn fresh_queue(&self) -> String {
        self.inner.fresh_queue().await
    }

    fn fresh_name(&self) -> String {
        self.inner.fresh_name()
    }

    async fn recreate(&self, queue: &str) {
        self.inner.recreate(queue).await;
    }

    fn patience(&self) -> Patience {
        self.inner.patience()
    }
}

#[async_trait]
impl Outages for OutageLab {
    async fn stop(&self) {
        self.server.lock().await.stop().await;
    }

    async fn start(&self) {
        self.server.lock().await.start().await;
    }

    async fn cut(&self) {
        self.proxy.cut();
    }
}

mod outages {
    //! One server for all of them: they take turns.

    use super::outage_lab as lab;

    dlo_testkit::broker_outages! { #[tokio::test(flavor = "multi_thread", worker_threads = 2)] lab }
}
