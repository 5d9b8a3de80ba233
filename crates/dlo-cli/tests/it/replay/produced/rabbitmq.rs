//! RabbitMQ with pika: every property and header, dead-lettered by the server and parked by a consumer.

use dlo_testkit::harness::rabbitmq::Rabbitmq;
use serde_json::{Value, json};

use super::{Desk, named, unmarked};
use crate::python;

const PROGRAM: &str = "replay/produced/rabbitmq.py";

struct Queues {
    url: String,
    queue: String,
    names: Value,
}

impl Queues {
    async fn open(name: &str) -> Self {
        let (url, queue) = (Rabbitmq::shared().await.url(), named(name));
        let names = json!({
            "queue": queue, "dlq": format!("{queue}.dlq"), "other": format!("{queue}.other"),
            "exchange": format!("{queue}.shop"), "key": "orders.created",
        });
        let queues = Self { url, queue, names };
        queues.run(vec![json!({"do": "declare"})]);
        queues
    }

    fn desk(&self, replay: &str) -> Desk {
        let broker = format!("kind = \"rabbitmq\"\nurl = \"{}\"\nqueue_type = \"classic\"", self.url);
        Desk::open(&broker, &self.queue, self.names["dlq"].as_str().unwrap(), replay)
    }

    /// Runs steps, each with the names of queues and exchange unless it has its own.
    fn run(&self, steps: Vec<Value>) -> Value {
        let with_names = |mut step: Value| {
            for (name, value) in self.names.as_object().unwrap() {
                step.as_object_mut().unwrap().entry(name.clone()).or_insert_with(|| value.clone());
            }
            step
        };
        let steps: Vec<Value> = steps.into_iter().map(with_names).collect();
        python::run(PROGRAM, &json!({"url": self.url, "steps": steps}))
    }

    fn read(&self) -> Value {
        self.run(vec![json!({"do": "read"})])[0].take()
    }

    fn order(&self) -> Value {
        json!({
            "do": "produce", "body": "{\"order\": 7}\u{ff}",
            "headers": {"tenant": "acme", "lines": 3, "rush": true, "tags": ["a", 2], "CC": [self.names["other"]]},
            "properties": {
                "content_type": "application/json", "content_encoding": "utf-8", "delivery_mode": 1, "priority": 4,
                "correlation_id": "c-1", "reply_to": "answers", "expiration": "3600000", "message_id": "m-290",
                "timestamp": 1_700_000_000, "type": "order.created", "user_id": "guest", "app_id": "checkout",
            },
        })
    }
}

/// What was produced, without properties and headers that a replay leaves out by default.
fn without(order: &Value, properties: &[&str]) -> (Value, Value) {
    let (mut kept, mut headers) = (order["properties"].clone(), order["headers"].clone());
    for name in properties {
        kept.as_object_mut().unwrap().remove(*name);
    }
    headers.as_object_mut().unwrap().remove("CC");
    (kept, headers)
}

/// The headers without the marks, in the order of their names: the server keeps no order.
fn headers(message: &Value) -> Value {
    Value::Object(unmarked(&message["headers"]).into_iter().collect())
}

#[track_caller]
fn assert_produced(message: &Value, order: &Value) {
    let (properties, kept) = without(order, &["expiration"]);
    assert_eq!(message["properties"], properties, "{message:#}");
    assert_eq!(headers(message), kept, "{message:#}");
    assert_eq!(message["body"], order["body"]);
}

/// What a consumer with pika adds to the headers that it copies.
fn added(queue: &str) -> Value {
    json!({
        "x-original-queue": queue, "x-error-message": "no price", "x-exception-class": "KeyError", "x-retry-count": 3,
        "original_queue": queue, "error_message": "no price", "error_type": "KeyError", "retry_count": 3,
        "failed_at": "2026-11-19T10:00:00Z", "consumer_group": "pricing", "consumer_id": "worker-1",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn every_property_of_a_message_that_the_server_dead_lettered_comes_back() {
    let queues = Queues::open("server").await;
    let desk = queues.desk("");
    let order = queues.order();
    queues.run(vec![order.clone(), json!({"do": "reject"})]);
    desk.replay(1);
    let message = queues.read();
    assert_produced(&message, &order);
    assert_eq!((&message["exchange"], &message["routing_key"]), (&json!(""), &json!(queues.queue)));
    // The producer's own copy for the other queue is there, and no second one.
    let copies = queues.run(vec![json!({"do": "read", "queue": queues.names["other"]})]);
    assert_eq!(copies[0]["headers"].get("dlo-replay-id"), None, "{copies}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_property_of_a_message_that_a_consumer_parked_comes_back() {
    let queues = Queues::open("consumer").await;
    let desk = queues.desk("");
    let mut order = queues.order();
    // The consumer copies the headers, so the server would copy its dead letter to the queue that `CC` names.
    order["headers"].as_object_mut().unwrap().remove("CC");
    queues.run(vec![order.clone(), json!({"do": "park", "added": added(&queues.queue)})]);
    desk.replay(1);
    assert_produced(&queues.read(), &order);
    // A message with no property at all stays so.
    let plain = json!({"do": "produce", "body": "x", "headers": {}, "properties": {}});
    queues.run(vec![plain.clone(), json!({"do": "park", "added": added(&queues.queue)})]);
    desk.replay(1);
    assert_produced(&queues.read(), &plain);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_plan_says_what_differs_from_what_was_produced() {
    let queues = Queues::open("plan").await;
    let desk = queues.desk("");
    let order = queues.order();
    queues.run(vec![order, json!({"do": "reject"})]);
    desk.until_open(1);
    let (said, plan) = desk.plan();
    for words in ["expiration", "keep_expiration", "CC", "keep_cc", "not through the exchange", "via"] {
        assert!(said.contains(words), "`{words}` in {said}");
    }
    let differences = plan["differences"].as_array().unwrap_or_else(|| panic!("{plan:#}"));
    let settings: Vec<&str> = differences.iter().filter_map(|one| one["setting"].as_str()).collect();
    assert_eq!(settings, ["replay.via", "replay.keep_cc", "replay.keep_expiration"], "{plan:#}");
    assert!(differences.iter().all(|one| one["letters"] == 1), "{plan:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_can_send_through_the_exchange_with_cc_and_expiration() {
    let queues = Queues::open("exchange").await;
    let desk = queues.desk(", via = \"exchange\", keep_cc = true, keep_expiration = true");
    let order = queues.order();
    queues.run(vec![order.clone(), json!({"do": "reject"})]);
    desk.until_open(1);
    let (said, plan) = desk.plan();
    assert_eq!(plan["differences"], json!([]), "{said}");
    desk.send(&plan);
    let message = queues.read();
    assert_eq!(message["properties"], order["properties"], "{message:#}");
    assert_eq!(headers(&message), order["headers"], "{message:#}");
    let route = (&message["exchange"], &message["routing_key"]);
    assert_eq!(route, (&queues.names["exchange"], &queues.names["key"]));
    let copies = queues.run(vec![json!({"do": "read", "queue": queues.names["other"], "count": 2})]);
    assert!(copies[1]["headers"]["dlo-replay-id"].is_string(), "{copies}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_of_unknown_exchange_is_refused_with_a_reason() {
    let queues = Queues::open("unknown").await;
    let desk = queues.desk(", via = \"exchange\"");
    queues.run(vec![queues.order(), json!({"do": "park", "added": {"x-error-message": "no price"}})]);
    let replay = desk.replay(1);
    assert_eq!((&replay["sent"], &replay["refused"]), (&json!(0), &json!(1)), "{replay:#}");
    let id = replay["id"].as_str().unwrap();
    let items = desk.office.get(&format!("/api/v1/replays/{id}/items"));
    let note = items["items"][0]["note"].as_str().unwrap_or_default();
    assert!(note.contains("exchange") && note.contains("via = \"queue\""), "{items:#}");
}
