//! The handler of ten lines of Python on every broker: only the `[brokers.shop]` of the config changes, and names where a
//! broker has rules for them.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::{Destination, Outgoing, TopologySpec};
use dlo_core::message::{Message, Payload};
use dlo_testkit::harness::{kafka::Kafka, nats::Nats, rabbitmq::Rabbitmq, redis::Redis, sqs::Sqs};

use super::{Handler, PATIENCE, handled};
use crate::office::{Office, dlo};

async fn prices_on(section: String) {
    let queue = format!("everywhere-{:x}", rand::random::<u32>());
    let dlq = format!("{queue}-dlq");
    let settings: dlo_brokers::BrokerConfig = toml::from_str(&section).unwrap();
    let broker = dlo_brokers::connect(&settings, Arc::new(dlo_runtime::SystemClock)).await.unwrap();
    broker.topology().apply(&TopologySpec::new(&queue, &dlq, 5)).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let port = dlo_testkit::harness::free_port();
    let config = format!(
        "[consume]\nlisten = \"127.0.0.1:0\"\ndata = \"state\"\n[brokers.shop]\n{section}\n\
         [[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{queue}\"\ndlq = \"{dlq}\"\n\
         [[consumers]]\nsource = \"orders\"\ngroup = \"pricing\"\nhandler = \"http://127.0.0.1:{port}/\"\n"
    );
    std::fs::write(dir.path().join("dlo.toml"), config).unwrap();
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/python/handler.py");
    let _handler = Handler::run("python3", &[&example], port);
    let mut command = dlo();
    command.arg("consume").current_dir(dir.path());
    let sidecar = Office::spawn(command, dir.path());
    let order = |body: &str| Outgoing {
        to: Destination::queue(&queue),
        message: Message { payload: Payload::from(body.to_owned()), ..Message::default() },
        delay: None,
    };
    let orders = vec![order(r#"{"price":1}"#), order(r#"{"order":2}"#), order(r#"{"price":3}"#)];
    assert!(broker.publisher().publish(orders).await.iter().all(Result::is_ok));
    let mut dead = broker.source(&dlq, "tests").await.unwrap();
    let until = Instant::now() + PATIENCE;
    let letter = loop {
        assert!(Instant::now() < until, "no letter came");
        if let Some(letter) = dead.receive(1, Duration::from_secs(1)).await.unwrap().pop() {
            break letter;
        }
    };
    assert_eq!(letter.message.payload.0, r#"{"order":2}"#);
    assert_eq!(letter.message.headers.text("dlo-reason"), Some("validation_error"));
    handled(&sidecar, 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_in_python_prices_orders_from_rabbitmq() {
    prices_on(format!("kind = \"rabbitmq\"\nurl = \"{}\"", Rabbitmq::shared().await.url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_in_python_prices_orders_from_kafka() {
    prices_on(format!("kind = \"kafka\"\nbootstrap = \"{}\"", Kafka::shared().await.bootstrap)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_in_python_prices_orders_from_nats() {
    prices_on(format!("kind = \"nats\"\nservers = [\"{}\"]", Nats::shared().await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_in_python_prices_orders_from_redis() {
    prices_on(format!("kind = \"redis\"\nurl = \"{}\"", Redis::shared().await.url)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_handler_in_python_prices_orders_from_sqs() {
    let endpoint = &Sqs::elasticmq().await.endpoint;
    prices_on(format!(
        "kind = \"sqs\"\nregion = \"elasticmq\"\nendpoint = \"{endpoint}\"\naccess_key_id = \"x\"\nsecret_access_key = \"x\""
    ))
    .await;
}
