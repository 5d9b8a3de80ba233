//! A letter is found by the id that its producer or its broker gave the message, and two copies stay two letters.

use std::time::{Duration, Instant};

use dlo_core::broker::{Destination, Outgoing};
use dlo_core::message::{Message, Payload};
use serde_json::Value;

use super::{Line, nats, rabbitmq, sqs};
use crate::office::{Office, dlo};

const PATIENCE: Duration = Duration::from_secs(60);

/// An office that captures the dead letters of `line`.
fn office(line: &Line, directory: &tempfile::TempDir) -> Office {
    let config = directory.path().join("dlo.toml");
    let text = format!(
        "[brokers.shop]\n{}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{}\"\ndlq = \"{}\"\n",
        line.section, line.queue, line.dlq
    );
    std::fs::write(&config, text).unwrap();
    let (mut command, data) = (dlo(), directory.path().join("data"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--config"]).arg(&config).arg("--data").arg(&data);
    Office::spawn(command, &data)
}

/// The letters that a query finds, as soon as there are `count`.
async fn found(office: &Office, query: &str, count: usize) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let answer = office.dlo(&["letters", "list", query, "--json"]).json();
        let letters = answer["letters"].as_array().cloned().unwrap_or_default();
        if letters.len() == count {
            return letters;
        }
        assert!(Instant::now() < until, "{count} letters expected by {query}: {answer:#}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A message in the dead-letter queue, as a consumer writes that copies nothing but the message.
async fn bury(line: &Line, message: Message) {
    let outgoing = Outgoing { to: Destination::queue(&line.dlq), message, delay: None };
    assert!(line.broker.publisher().publish(vec![outgoing]).await.iter().all(Result::is_ok));
}

fn message(payload: &str) -> Message {
    Message { payload: Payload::from(payload.to_owned()), ..Message::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_rabbitmq_a_letter_is_found_by_its_message_id_and_a_second_one_is_not_merged() {
    let line = Line::open(rabbitmq().await, "ids-rabbitmq", None).await;
    let directory = tempfile::tempdir().unwrap();
    let office = office(&line, &directory);
    for payload in ["first", "second"] {
        let mut dead = message(payload);
        dead.headers.push_text("rabbitmq:message-id", "m-290");
        bury(&line, dead).await;
    }
    let letters = found(&office, "message:m-290", 2).await;
    assert!(letters.iter().all(|letter| letter["message_id"] == "m-290"), "{letters:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_nats_a_letter_is_found_by_the_id_that_its_producer_set() {
    let line = Line::open(nats().await, "ids-nats", None).await;
    let directory = tempfile::tempdir().unwrap();
    let office = office(&line, &directory);
    let url = line.section.split('"').find(|part| part.starts_with("nats://")).unwrap();
    let producer = async_nats::connect(url).await.unwrap();
    let mut headers = async_nats::HeaderMap::new();
    headers.insert("Nats-Msg-Id", "n-17");
    let stream = async_nats::jetstream::new(producer);
    stream.publish_with_headers(line.dlq.clone(), headers, "order".into()).await.unwrap().await.unwrap();
    let letters = found(&office, "message:n-17", 1).await;
    assert_eq!(letters[0]["message_id"], "n-17");
}

#[tokio::test(flavor = "multi_thread")]
async fn on_sqs_a_letter_has_the_id_that_the_service_gave() {
    let line = Line::open(sqs().await, "ids-sqs", None).await;
    let directory = tempfile::tempdir().unwrap();
    let office = office(&line, &directory);
    let mut dead = message("order");
    dead.headers.push_text("x-original-queue", &line.queue);
    bury(&line, dead).await;
    let letters = found(&office, "source:orders", 1).await;
    let id = letters[0]["message_id"].as_str().unwrap_or_else(|| panic!("{letters:#?}"));
    found(&office, &format!("message:{id}"), 1).await;
}
