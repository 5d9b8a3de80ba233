//! The worked stories of the field, end to end on real brokers, with the runtime as services embed it.
//!
//! Each prints its figures. `DLO_STORY_ORDERS` makes the shop's day longer (24,000 orders by default; 100,000 is the story as
//! it is told).

mod child;
mod ids;
mod keys;
mod orders;
mod outage;
mod overload;
mod pill;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dlo_brokers::BrokerConfig;
use dlo_core::broker::{Broker, Destination, Outgoing, Settlement, TopologySpec};
use dlo_core::message::{Message, Payload};
use dlo_runtime::{ConsumerBuilder, ConsumerConfig, Event, SystemClock, Watch};
use dlo_testkit::harness::{kafka::Kafka, nats::Nats, rabbitmq::Rabbitmq, redis::Redis, sqs::Sqs};
use tokio_util::sync::CancellationToken;

/// The broker that a section of the config describes.
pub(super) async fn broker(section: &str) -> Arc<dyn Broker> {
    let config: BrokerConfig = toml::from_str(section).unwrap();
    dlo_brokers::connect(&config, Arc::new(SystemClock)).await.unwrap()
}

pub(super) async fn redis() -> String {
    format!("kind = \"redis\"\nurl = \"{}\"\nclaim_after = \"3s\"", Redis::shared().await.url)
}

pub(super) async fn rabbitmq() -> String {
    format!("kind = \"rabbitmq\"\nurl = \"{}\"", Rabbitmq::shared().await.url())
}

pub(super) async fn nats() -> String {
    format!("kind = \"nats\"\nservers = [\"{}\"]", Nats::shared().await)
}

pub(super) async fn sqs() -> String {
    let endpoint = &Sqs::elasticmq().await.endpoint;
    format!(
        "kind = \"sqs\"\nregion = \"elasticmq\"\nendpoint = \"{endpoint}\"\naccess_key_id = \"x\"\nsecret_access_key = \"x\"\nwait = \"1s\""
    )
}

pub(super) async fn kafka() -> String {
    let bootstrap = &Kafka::shared().await.bootstrap;
    format!("kind = \"kafka\"\nbootstrap = \"{bootstrap}\"\n[properties]\n\"session.timeout.ms\" = \"6000\"")
}

/// A queue of a name that nobody else has, and its dead-letter queue.
pub(super) struct Line {
    pub(super) section: String,
    pub(super) broker: Arc<dyn Broker>,
    pub(super) queue: String,
    pub(super) dlq: String,
}

pub(super) const GROUP: &str = "pricing";

impl Line {
    /// A name that ends in `.fifo` makes FIFO queues, where the broker has such.
    pub(super) async fn open(section: String, name: &str, partitions: Option<u32>) -> Self {
        let broker = broker(&section).await;
        let (name, suffix) = name.strip_suffix(".fifo").map_or((name, ""), |name| (name, ".fifo"));
        let process = std::process::id();
        let (queue, dlq) = (format!("{name}-{process}{suffix}"), format!("{name}-{process}-dlq{suffix}"));
        let mut spec = TopologySpec::new(&queue, &dlq, 5);
        spec.partitions = partitions;
        spec.group = Some(GROUP.to_owned());
        spec.retry_delays = [1, 5, 30].map(Duration::from_secs).to_vec();
        broker.topology().apply(&spec).await.unwrap();
        Self { section, broker, queue, dlq }
    }

    pub(super) fn config(&self) -> ConsumerConfig {
        ConsumerConfig { group: GROUP.to_owned(), dlq: Some(self.dlq.clone()), ..ConsumerConfig::default() }
    }

    pub(super) async fn consumer(&self) -> ConsumerBuilder {
        let source = self.broker.source(&self.queue, GROUP).await.unwrap();
        dlo_runtime::Consumer::builder(source, self.broker.publisher()).config(self.config()).stateless()
    }

    /// Publishes messages, confirmed, in their order.
    pub(super) async fn publish(&self, messages: impl Iterator<Item = Message>) {
        let publisher = self.broker.publisher();
        let mut messages = messages.peekable();
        while messages.peek().is_some() {
            let outgoing = |message| Outgoing { to: Destination::queue(&self.queue), message, delay: None };
            let batch = messages.by_ref().take(1_000).map(outgoing).collect();
            assert!(publisher.publish(batch).await.iter().all(Result::is_ok));
        }
    }

    /// Takes every letter out of the dead-letter queue, when at least `least` are there.
    pub(super) async fn letters(&self, least: usize) -> Vec<Message> {
        let mut source = self.broker.drain(&self.dlq).await.unwrap();
        let settler = source.settler();
        let (mut letters, until) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        loop {
            let wait = if letters.len() < least { Duration::from_secs(5) } else { Duration::from_secs(1) };
            let came = source.receive(1_000, wait).await.unwrap();
            if came.is_empty() && (letters.len() >= least || Instant::now() > until) {
                break;
            }
            letters.extend(came.iter().map(|one| one.message.clone()));
            settler.settle(came.into_iter().map(|one| one.settle(Settlement::Done)).collect()).await.unwrap();
        }
        source.close().await.unwrap();
        letters
    }
}

/// What a consumer told of itself.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) handled: AtomicU64,
    pub(super) parked: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) paused: AtomicU64,
}

impl Watch for Counts {
    fn saw(&self, event: &Event<'_>) {
        let counter = match event {
            Event::Handled { .. } => &self.handled,
            Event::DeadLettered(_) => &self.parked,
            Event::Retried { .. } => &self.retried,
            Event::Paused { .. } | Event::Braked { .. } => &self.paused,
            _ => return,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Counts {
    pub(super) fn of(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}

/// Runs a consumer until `fact` holds, at most for `patience`; how long that took.
pub(super) async fn run_until(
    consumer: ConsumerBuilder,
    patience: Duration,
    fact: impl Fn() -> bool,
) -> Duration {
    let stop = CancellationToken::new();
    let running = tokio::spawn(consumer.build().unwrap().run(stop.clone().cancelled_owned()));
    let began = Instant::now();
    while !fact() {
        assert!(!running.is_finished(), "the consumer ended by itself: {:?}", running.await);
        assert!(began.elapsed() < patience, "it did not happen within {patience:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let took = began.elapsed();
    stop.cancel();
    running.await.unwrap().unwrap();
    took
}

/// An order of a customer.
pub(super) fn order(number: u64, customer: &str) -> Message {
    let body =
        format!("{{\"order_id\":\"ORD-{number}\",\"number\":{number},\"note\":\"{}\"}}", "·".repeat(200));
    let mut message = Message {
        key: Some(Payload::from(customer.to_owned())),
        payload: Payload::from(body),
        ..Message::default()
    };
    message.headers.push_text("event-type", "order.placed");
    message
}

/// The number of an order.
pub(super) fn number(message: &Message) -> u64 {
    let order: serde_json::Value = serde_json::from_slice(&message.payload.0).unwrap();
    order["number"].as_u64().unwrap()
}
