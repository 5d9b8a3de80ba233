//! The service, run as its users run it: with its own config, on a real Redis.

#![expect(clippy::unwrap_used, reason = "in tests, to stop is how a failure is told")]

use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::{Destination, Outgoing, TopologySpec};
use dlo_core::message::{Message, Payload};
use dlo_testkit::harness::redis::Redis;

struct Service(Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_order_without_a_price_becomes_a_dead_letter_and_the_others_are_handled() {
    let redis = Redis::with(&[]).await;
    let dir = tempfile::tempdir().unwrap();
    let own = include_str!("../service.toml");
    let text = own.replace("redis://127.0.0.1:6379", &redis.url);
    std::fs::write(dir.path().join("service.toml"), text).unwrap();
    let settings = toml::from_str(&format!("kind = \"redis\"\nurl = \"{}\"", redis.url)).unwrap();
    let broker = dlo_brokers::connect(&settings, Arc::new(dlo_runtime::SystemClock)).await.unwrap();
    broker.topology().apply(&TopologySpec::new("orders", "orders.dlq", 5)).await.unwrap();
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
    let mut dead = broker.source("orders.dlq", "tests").await.unwrap();
    let mut reasons = Vec::new();
    let until = Instant::now() + Duration::from_secs(60);
    while reasons.len() < 2 {
        assert!(Instant::now() < until, "{reasons:?}");
        for letter in dead.receive(10, Duration::from_millis(200)).await.unwrap() {
            reasons.push(letter.message.headers.text("dlo-reason").unwrap_or_default().to_owned());
        }
    }
    reasons.sort();
    assert_eq!(reasons, ["deserialization_error", "validation_error"]);
}
