//! Redis Streams with redis-py: an entry has flat fields, and a failing consumer copies all of them and adds its own.

use dlo_testkit::harness::redis::Redis;
use serde_json::{Value, json};

use super::{Desk, named, unmarked};
use crate::python::{self, Running};

const PROGRAM: &str = "replay/produced/redis_streams.py";

struct Streams {
    url: String,
    queue: String,
    dlq: String,
}

impl Streams {
    async fn open(name: &str) -> Self {
        let (url, queue) = (Redis::shared().await.url.clone(), named(name));
        let streams = Self { url, dlq: format!("{queue}:dlq"), queue };
        streams.run(vec![json!({"do": "declare"})]);
        streams
    }

    fn desk(&self) -> Desk {
        let broker = format!("kind = \"redis\"\nurl = \"{}\"", self.url);
        Desk::open(&broker, &self.queue, &self.dlq, "")
    }

    /// Runs steps, each with the names of the streams.
    fn run(&self, steps: Vec<Value>) -> Value {
        let steps: Vec<Value> = steps.into_iter().map(|step| self.named(step)).collect();
        python::run(PROGRAM, &json!({"url": self.url, "steps": steps}))
    }

    fn named(&self, mut step: Value) -> Value {
        step["queue"] = json!(self.queue);
        step["dlq"] = json!(self.dlq);
        step
    }

    /// Entries that are in the queue after a replay, without the marks.
    fn produced(&self, count: usize) -> Vec<Vec<(String, Value)>> {
        let entries = self.run(vec![json!({"do": "read", "count": count})]);
        entries.as_array().unwrap().iter().map(unmarked).collect()
    }
}

fn fields(of: &Value) -> Vec<(String, Value)> {
    of.as_object().unwrap().iter().map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// What the consumer of the issue adds.
fn added() -> Value {
    json!({
        "original_id": "$id", "original_stream": "orders", "consumer_group": "workers", "consumer_id": "worker-1",
        "error_class": "KeyError", "error_message": "no price", "retry_count": "3",
        "failed_at": "2026-11-19T10:00:00Z",
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn flat_fields_come_back_without_those_that_the_failing_consumer_added() {
    let streams = Streams::open("flat").await;
    let desk = streams.desk();
    let order = json!({"order_id": "7", "sku": "A-1", "reason": "gift"});
    streams.run(vec![json!({"do": "produce", "fields": order}), json!({"do": "park", "added": added()})]);
    desk.replay(1);
    assert_eq!(streams.produced(1), [fields(&order)]);
    // A second death and a second replay leave no more than the first. The consumer runs meanwhile.
    let park = streams.named(json!({"do": "park", "added": added(), "first": true}));
    let _consumer = Running::start(PROGRAM, &json!({"url": streams.url, "steps": [park]}));
    desk.replay(1);
    assert_eq!(streams.produced(1), [fields(&order)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_with_a_payload_comes_back_without_those_fields_as_well() {
    let streams = Streams::open("payload").await;
    let desk = streams.desk();
    let order = json!({"tenant": "acme", "payload": "{\"order\": 7}", "trace": "t-1"});
    for first in [false, true] {
        streams.run(vec![
            json!({"do": "produce", "fields": order}),
            json!({"do": "park", "added": added(), "first": first}),
        ]);
    }
    desk.replay(2);
    assert_eq!(streams.produced(2), [fields(&order), fields(&order)]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_a_failure_that_the_producer_wrote_stay() {
    let streams = Streams::open("own").await;
    let desk = streams.desk();
    // A business event about a failure; its consumer parks it without a word.
    let event = json!({"payment": "p-1", "error_message": "card declined", "retry_count": "2", "failed_at": "1700000000"});
    let with_payload = json!({"payload": "{}", "error_message": "card declined", "error_code": "51"});
    for fields in [&event, &with_payload] {
        streams.run(vec![json!({"do": "produce", "fields": fields}), json!({"do": "park", "added": {}})]);
    }
    desk.replay(2);
    assert_eq!(streams.produced(2), [fields(&event), fields(&with_payload)]);
}
