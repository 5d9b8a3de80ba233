//! The service, run as its users run it, on five brokers: only `[broker]` in its config changes, and the name of the dead-letter
//! queue, because SQS takes no dots.

#![expect(clippy::unwrap_used, reason = "in tests, to stop is how a failure is told")]

use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::{Destination, Outgoing, Settlement, TopologySpec};
use dlo_core::message::{Message, Payload};
use dlo_testkit::harness::{kafka::Kafka, nats::Nats, rabbitmq::Rabbitmq, redis::Redis, sqs::Sqs};

struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The service's own config with another broker.
fn config(section: &str) -> String {
    let own = include_str!("../service.toml");
    let (head, rest) = own.split_once("\n[broker]\n").unwrap();
    let (_, consumer) = rest.split_once("\n[consumer]\n").unwrap();
    let consumer = consumer.replace("orders.dlq", "orders-dlq");
    format!("{head}\n[broker]\n{section}\n[consumer]\n{consumer}")
}

async fn prices_orders_on(section: String) {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("service.toml"), config(&section)).unwrap();
    let settings = toml::from_str(&section).unwrap();
    let broker = dlo_brokers::connect(&settings, Arc::new(dlo_runtime::SystemClock)).await.unwrap();
    broker.topology().apply(&TopologySpec::new("orders", "orders-dlq", 5)).await.unwrap();
    let send = |payload: &str| Outgoing {
        to: Destination::queue("orders"),
        message: Message { payload: Payload::from(payload.to_owned()), ..Message::default() },
        delay: None,
    };
    for sent in broker.publisher().publish(vec![send(r#"{"price":1}"#), send("{}"), send("{")]).await {
        sent.unwrap();
    }
    let program = env!("CARGO_BIN_EXE_dlo-example-service");
    let _service = Service(Command::new(program).current_dir(dir.path()).spawn().unwrap());
    let mut dead = broker.source("orders-dlq", "tests").await.unwrap();
    let mut reasons = Vec::new();
    let until = Instant::now() + Duration::from_secs(60);
    while reasons.len() < 2 {
        assert!(Instant::now() < until, "{reasons:?}");
        for letter in dead.receive(10, Duration::from_millis(200)).await.unwrap() {
            reasons.push(letter.message.headers.text("dlo-reason").unwrap_or_default().to_owned());
            dead.settler().settle(vec![letter.settle(Settlement::Done)]).await.unwrap();
        }
    }
    reasons.sort();
    assert_eq!(reasons, ["deserialization_error", "validation_error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_prices_orders_on_redis() {
    prices_orders_on(format!("kind = \"redis\"\nurl = \"{}\"", Redis::shared().await.url)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_prices_orders_on_rabbitmq() {
    prices_orders_on(format!("kind = \"rabbitmq\"\nurl = \"{}\"", Rabbitmq::shared().await.url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_prices_orders_on_kafka() {
    prices_orders_on(format!("kind = \"kafka\"\nbootstrap = \"{}\"", Kafka::shared().await.bootstrap)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_prices_orders_on_nats() {
    prices_orders_on(format!("kind = \"nats\"\nservers = [\"{}\"]", Nats::shared().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_prices_orders_on_sqs() {
    let endpoint = &Sqs::elasticmq().await.endpoint;
    prices_orders_on(format!(
        "kind = \"sqs\"\nregion = \"elasticmq\"\nendpoint = \"{endpoint}\"\naccess_key_id = \"x\"\nsecret_access_key = \"x\""
    ))
    .await;
}
