//! SQS: the whole suite against two servers that speak it, outages against the one that keeps its messages, then what is
//! its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{BehaviorVersion, Credentials, Region};
use aws_sdk_sqs::types::QueueAttributeName;
use dlo_brokers::BrokerConfig;
use dlo_brokers::secret::Secret;
use dlo_brokers::sqs::SqsConfig;
use dlo_core::broker::{Broker, Delivery, Destination, Outgoing, Settlement, Source};
use dlo_core::message::{Message, Payload};
use dlo_core::units::HumanDuration;
use dlo_testkit::clock::TokioClock;
use dlo_testkit::conformance::{Lab, Outages, Patience};
use dlo_testkit::harness::sqs::{OwnSqs, Sqs};

mod batches;
mod fifo;
mod foreign;
mod topology;

fn config(endpoint: &str, visibility: u64) -> SqsConfig {
    SqsConfig {
        region: Some("us-east-1".to_owned()),
        endpoint: Some(endpoint.to_owned()),
        access_key_id: Some("test".to_owned()),
        secret_access_key: Some(Secret::new("test")),
        visibility: HumanDuration(Duration::from_secs(visibility)),
        wait: HumanDuration(Duration::from_secs(1)),
        ..SqsConfig::default()
    }
}

async fn broker(config: SqsConfig) -> Arc<dyn Broker> {
    dlo_brokers::connect(&BrokerConfig::Sqs(Box::new(config)), Arc::new(TokioClock::new())).await.unwrap()
}

/// The service's own client, to do what others do.
fn client(endpoint: &str) -> Client {
    let http = aws_smithy_http_client::Builder::new().build_http();
    let config = aws_sdk_sqs::Config::builder()
        .behavior_version(BehaviorVersion::v2026_01_12())
        .region(Region::new("us-east-1"))
        .endpoint_url(endpoint)
        .credentials_provider(Credentials::new("test", "test", None, None, "test"))
        .http_client(http)
        .build();
    Client::from_conf(config)
}

fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("q{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A queue by the service's own client: its URL.
async fn create(client: &Client, name: &str, attributes: &[(QueueAttributeName, &str)]) -> String {
    let mut call = client.create_queue().queue_name(name);
    if name.ends_with(".fifo") {
        call = call.attributes(QueueAttributeName::FifoQueue, "true");
    }
    for (name, value) in attributes {
        call = call.attributes(name.clone(), *value);
    }
    call.send().await.unwrap().queue_url.unwrap()
}

struct SqsLab {
    broker: Arc<dyn Broker>,
    client: Client,
    own: Option<OwnSqs>,
}

async fn elasticmq() -> SqsLab {
    at(&Sqs::elasticmq().await.endpoint).await
}

async fn localstack() -> SqsLab {
    at(&Sqs::localstack().await.endpoint).await
}

async fn at(endpoint: &str) -> SqsLab {
    SqsLab { broker: broker(config(endpoint, 30)).await, client: client(endpoint), own: None }
}

/// What is held when the wire is cut comes again when its lease is over: a short one here.
async fn own() -> SqsLab {
    let own = OwnSqs::elasticmq().await;
    let (broker, client) = (broker(config(&own.endpoint, 5)).await, client(&own.endpoint));
    SqsLab { broker, client, own: Some(own) }
}

#[async_trait]
impl Lab for SqsLab {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    async fn fresh_queue(&self) -> String {
        let name = self.fresh_name();
        create(&self.client, &name, &[]).await;
        name
    }

    fn fresh_name(&self) -> String {
        name()
    }

    async fn recreate(&self, queue: &str) {
        let url = self.client.get_queue_url().queue_name(queue).send().await.unwrap().queue_url.unwrap();
        self.client.delete_queue().queue_url(url).send().await.unwrap();
        create(&self.client, queue, &[]).await;
    }

    fn patience(&self) -> Patience {
        Patience {
            arrival: Duration::from_secs(20),
            silence: Duration::from_millis(1_500),
            delay: Duration::from_secs(3),
        }
    }
}

#[async_trait]
impl Outages for SqsLab {
    async fn stop(&self) {
        self.own.as_ref().unwrap().stop().await;
    }

    async fn start(&self) {
        self.own.as_ref().unwrap().start().await;
    }

    async fn cut(&self) {
        self.own.as_ref().unwrap().cut();
    }
}

mod on_elasticmq {
    dlo_testkit::broker_conformance! { #[tokio::test(flavor = "multi_thread")] super::elasticmq }
}

mod on_localstack {
    dlo_testkit::broker_conformance! { #[tokio::test(flavor = "multi_thread")] super::localstack }
}

mod outages_of_elasticmq {
    dlo_testkit::broker_outages! { #[tokio::test(flavor = "multi_thread")] super::own }
}

fn text(body: &str) -> Message {
    Message { payload: Payload::from(body.to_owned()), ..Message::default() }
}

fn keyed(key: &str, body: &str) -> Message {
    Message { key: Some(Payload::from(key.to_owned())), ..text(body) }
}

fn to(queue: &str, message: Message) -> Outgoing {
    Outgoing { to: Destination::queue(queue), message, delay: None }
}

async fn publish(broker: &dyn Broker, queue: &str, messages: Vec<Message>) {
    let outgoing = messages.into_iter().map(|message| to(queue, message)).collect();
    for result in broker.publisher().publish(outgoing).await {
        result.unwrap();
    }
}

/// Exactly `count` deliveries, in time.
async fn receive(source: &mut Box<dyn Source>, count: usize) -> Vec<Delivery> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let mut all = Vec::new();
    while all.len() < count {
        assert!(tokio::time::Instant::now() < deadline, "{} of {count} came", all.len());
        all.extend(source.receive(count - all.len(), Duration::from_secs(2)).await.unwrap());
    }
    all
}

async fn settle(source: &dyn Source, deliveries: Vec<Delivery>, how: Settlement) {
    let settled = deliveries.into_iter().map(|delivery| delivery.settle(how)).collect();
    source.settler().settle(settled).await.unwrap();
}

fn body(delivery: &Delivery) -> String {
    String::from_utf8_lossy(&delivery.message.payload.0).into_owned()
}
