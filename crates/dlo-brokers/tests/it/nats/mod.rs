//! NATS JetStream: the whole suite against a current server, outages, then what is its own.

mod advisories;
mod entrance;
mod own;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_trait::async_trait;
use dlo_brokers::nats::NatsConfig;
use dlo_brokers::{BrokerConfig, connect};
use dlo_core::broker::{Broker, Delivery, Destination, Outgoing, Settlement, Source, TopologySpec};
use dlo_core::message::{Message, Payload};
use dlo_core::units::HumanDuration;
use dlo_testkit::clock::TokioClock;
use dlo_testkit::conformance::{Lab, Outages, Patience};
use dlo_testkit::harness::nats::{Nats, Release};

const PATIENCE: Patience = Patience {
    arrival: Duration::from_secs(20),
    silence: Duration::from_millis(400),
    delay: Duration::from_millis(700),
};

async fn broker(config: NatsConfig) -> Arc<dyn Broker> {
    connect(&BrokerConfig::Nats(Box::new(config)), Arc::new(TokioClock::new())).await.unwrap()
}

/// Settings for a server, with a lease that is over while a test waits.
fn settings(url: String) -> NatsConfig {
    NatsConfig {
        servers: vec![url],
        ack_wait: HumanDuration(Duration::from_secs(4)),
        ..NatsConfig::default()
    }
}

/// A name that nobody else uses, also on a server that was used before.
fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let born = std::time::UNIX_EPOCH.elapsed().unwrap().as_millis();
    format!("t{}.{born:x}.q{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Creates the streams of a queue as the topology would.
async fn declare(broker: &dyn Broker, queue: &str) {
    let spec = TopologySpec::new(queue, format!("{queue}.dlq"), 5);
    broker.topology().apply(&spec).await.unwrap();
}

async fn jetstream_at(url: &str) -> Context {
    jetstream::new(async_nats::connect(url).await.unwrap())
}

struct NatsLab {
    broker: Arc<dyn Broker>,
    url: String,
}

async fn lab() -> NatsLab {
    let url = Nats::shared().await;
    let broker = broker(settings(url.clone())).await;
    // The stream of advisories is one for the whole server: it is there before anybody plans.
    static ADVISORIES: tokio::sync::OnceCell<()> = tokio::sync::OnceCell::const_new();
    ADVISORIES.get_or_init(|| async { declare(&*broker, &fresh_name()).await }).await;
    NatsLab { broker, url }
}

#[async_trait]
impl Lab for NatsLab {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    async fn another(&self) -> Arc<dyn Broker> {
        broker(settings(self.url.clone())).await
    }

    async fn fresh_queue(&self) -> String {
        let name = fresh_name();
        declare(&*self.broker, &name).await;
        name
    }

    fn fresh_name(&self) -> String {
        fresh_name()
    }

    async fn recreate(&self, queue: &str) {
        let jetstream = jetstream_at(&self.url).await;
        let stream = jetstream.stream_by_subject(queue).await.unwrap();
        jetstream.delete_stream(stream).await.unwrap();
        declare(&*self.broker, queue).await;
    }

    fn patience(&self) -> Patience {
        PATIENCE
    }
}

dlo_testkit::broker_conformance! { #[tokio::test] lab }

mod outages {
    use super::{Nats, Release, Shaky, broker, settings};

    async fn shaky() -> Shaky {
        let server = Nats::own(Release::Newest, "").await;
        let broker = broker(settings(server.wire().await)).await;
        Shaky { server, broker }
    }

    dlo_testkit::broker_outages! { #[tokio::test(flavor = "multi_thread")] shaky }
}

/// A lab whose server may be killed and whose wire may be cut.
struct Shaky {
    server: Nats,
    broker: Arc<dyn Broker>,
}

#[async_trait]
impl Lab for Shaky {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    async fn another(&self) -> Arc<dyn Broker> {
        broker(settings(self.server.wire().await)).await
    }

    async fn fresh_queue(&self) -> String {
        let name = fresh_name();
        declare(&*self.broker, &name).await;
        name
    }

    fn fresh_name(&self) -> String {
        fresh_name()
    }

    async fn recreate(&self, _: &str) {}

    fn patience(&self) -> Patience {
        PATIENCE
    }
}

#[async_trait]
impl Outages for Shaky {
    async fn stop(&self) {
        self.server.kill();
    }

    async fn start(&self) {
        self.server.start().await;
    }

    async fn cut(&self) {
        self.server.cut();
    }
}

fn text(body: impl Into<String>) -> Message {
    Message { payload: Payload::from(body.into()), ..Message::default() }
}

async fn publish(broker: &dyn Broker, queue: &str, messages: Vec<Message>) {
    let outgoing = |message| Outgoing { to: Destination::queue(queue), message, delay: None };
    for result in broker.publisher().publish(messages.into_iter().map(outgoing).collect()).await {
        result.unwrap();
    }
}

async fn receive(source: &mut Box<dyn Source>, count: usize) -> Vec<Delivery> {
    let mut all = Vec::new();
    while all.len() < count {
        let came = source.receive(count - all.len(), PATIENCE.arrival).await.unwrap();
        assert!(!came.is_empty(), "{} of {count} came", all.len());
        all.extend(came);
    }
    all
}

async fn settle(source: &dyn Source, deliveries: Vec<Delivery>, how: Settlement) {
    let settled = deliveries.into_iter().map(|delivery| delivery.settle(how)).collect();
    source.settler().settle(settled).await.unwrap();
}

fn body(message: &Message) -> String {
    String::from_utf8(message.payload.0.to_vec()).unwrap()
}
