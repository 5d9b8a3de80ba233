//! A dead-letter queue drained into the store: durable first, then settled; a second delivery is known.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_brokers::memory::{MemoryBroker, MemoryConfig};
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, Delivery, Destination, Outgoing, Settled, Settler, Source,
};
use dlo_core::envelope::{Envelope, OriginHeaders, encode};
use dlo_core::message::{Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_server::ServerConfig;
use dlo_store::StoreLimits;

use crate::office::{Office, clock};

fn broker() -> MemoryBroker {
    let broker = MemoryBroker::new(MemoryConfig::default(), clock());
    broker.declare("orders.dlq", broker.defaults());
    broker
}

/// A dead letter as the runtime parks it.
fn parked(offset: i64) -> Message {
    let mut message = Message { payload: Payload::from(format!("{{\"n\":{offset}}}")), ..Message::default() };
    message.key = Some(Payload::from("C-441"));
    message.headers.push_text("event-type", "order.placed");
    let origin = Origin::log(BrokerKind::Memory, "orders", 3, offset);
    let envelope = Envelope {
        reason: Some(Reason::MaxRetriesExceeded),
        error_class: Some("KeyError".into()),
        error_message: Some(format!("pin {offset} not in tax table")),
        attempts: Some(5),
        origin: OriginHeaders::new(&origin, None),
        consumer_group: Some("pricing".into()),
        ..Envelope::default()
    };
    encode(&message, &envelope, 1_000_000).unwrap()
}

async fn publish(broker: &MemoryBroker, messages: impl IntoIterator<Item = Message>) {
    let outgoing = messages
        .into_iter()
        .map(|message| Outgoing { to: Destination::queue("orders.dlq"), message, delay: None })
        .collect();
    for confirmed in broker.publisher().publish(outgoing).await {
        confirmed.unwrap();
    }
}

async fn office(queue: Box<dyn Source>) -> Office {
    Office::start(ServerConfig::default(), StoreLimits::default(), |server| server.capture("orders", queue))
        .await
}

/// Asks until the answer is as expected; a test that fails here says what was last seen.
async fn until(office: &Office, what: &str, expected: u64) {
    let mut seen = serde_json::Value::Null;
    for _ in 0..600 {
        seen = office.get("/api/v1/stats").await.json();
        if seen.pointer(what).and_then(serde_json::Value::as_u64) == Some(expected) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{what} never became {expected}: {seen:#}");
}

#[tokio::test]
async fn parked_messages_become_letters_with_their_story_and_leave_the_queue() {
    let broker = broker();
    publish(&broker, (0..700).map(parked)).await;
    let office = office(broker.source("orders.dlq", "dlo").await.unwrap()).await;
    until(&office, "/letters/open", 700).await;
    let found = office.get("/api/v1/letters?q=offset:42").await.json();
    let letter = &found["letters"][0];
    assert_eq!(
        (&letter["queue"], &letter["partition"], &letter["broker"]),
        (&"orders".into(), &3.into(), &"memory".into())
    );
    assert_eq!((&letter["reason"], &letter["attempts"]), (&"max_retries_exceeded".into(), &5.into()));
    assert_eq!((&letter["consumer"], &letter["error_class"]), (&"pricing".into(), &"KeyError".into()));
    assert_eq!((&letter["event_type"], &letter["key"]), (&"order.placed".into(), &"C-441".into()));
    let id = letter["id"].as_str().unwrap();
    assert_eq!(office.get(&format!("/api/v1/letters/{id}/payload")).await.body, br#"{"n":42}"#);
    for _ in 0..600 {
        let state = broker.inspector().inspect("orders.dlq", Some("dlo")).await.unwrap();
        if (state.depth, state.in_flight) == (Some(0), Some(0)) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the queue was not emptied");
}

#[tokio::test]
async fn a_message_that_is_parked_twice_is_one_letter() {
    let broker = broker();
    publish(&broker, [parked(1), parked(1), parked(2)]).await;
    let office = office(broker.source("orders.dlq", "dlo").await.unwrap()).await;
    until(&office, "/captures/0/duplicates", 1).await;
    until(&office, "/letters/total", 2).await;
    assert!(office.get("/metrics").await.text().contains("dlo_capture_running{source=\"orders\"} 1"));
}

#[tokio::test]
async fn what_carries_no_story_is_kept_all_the_same() {
    let broker = broker();
    let mut odd = Message { payload: Payload::from(vec![0, 159, 146, 150]), ..Message::default() };
    odd.headers.push_text("event-type", "x".repeat(5_000));
    odd.headers.push_text("dlo-version", "not a number");
    publish(&broker, [odd, Message::default()]).await;
    let office = office(broker.source("orders.dlq", "dlo").await.unwrap()).await;
    until(&office, "/letters/open", 2).await;
    let found = office.get("/api/v1/letters?q=size:%3E0").await.json();
    assert_eq!(found["letters"][0]["queue"], "orders.dlq");
    let id = found["letters"][0]["id"].as_str().unwrap();
    assert_eq!(office.get(&format!("/api/v1/letters/{id}/payload")).await.body, [0, 159, 146, 150]);
}

/// A source whose broker is away for the first questions, and whose first settlement is lost.
#[derive(Debug)]
struct Shaky {
    inner: Box<dyn Source>,
    away: u32,
}

#[derive(Debug)]
struct Deaf(Arc<dyn Settler>, std::sync::atomic::AtomicU32);

#[async_trait]
impl Source for Shaky {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }
    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        if self.away > 0 {
            self.away -= 1;
            return Err(BrokerError::Unavailable("restarting".into()));
        }
        self.inner.receive(max, wait).await
    }
    fn settler(&self) -> Arc<dyn Settler> {
        Arc::new(Deaf(self.inner.settler(), std::sync::atomic::AtomicU32::new(1)))
    }
    async fn close(self: Box<Self>) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}

#[async_trait]
impl Settler for Deaf {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        if self.1.swap(0, std::sync::atomic::Ordering::Relaxed) == 1 {
            return Err(BrokerError::Unavailable("the answer was lost".into()));
        }
        self.0.settle(settled).await
    }
}

#[tokio::test]
async fn capture_goes_on_when_the_broker_comes_back_and_nothing_is_lost() {
    let broker = broker();
    let shaky = Shaky { inner: broker.source("orders.dlq", "dlo").await.unwrap(), away: 2 };
    let office = office(Box::new(shaky)).await;
    publish(&broker, [parked(1)]).await;
    until(&office, "/letters/open", 1).await;
    publish(&broker, [parked(2)]).await;
    until(&office, "/letters/open", 2).await;
}
