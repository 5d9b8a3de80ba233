//! Kafka with confluent-kafka: envelopes of home-made consumers, and records whose headers repeat or have no value.

use dlo_testkit::harness::kafka::Kafka;
use serde_json::{Value, json};

use super::{Desk, named, unmarked};
use crate::python;

const PROGRAM: &str = "replay/produced/kafka.py";
const ORDER: &str = "{\"order\": 7, \"lines\": [1.50, \"\u{e9}\"]}";

struct Topics {
    bootstrap: String,
    queue: String,
    dlq: String,
}

impl Topics {
    async fn open(name: &str) -> Self {
        let (bootstrap, queue) = (Kafka::shared().await.bootstrap.clone(), named(name));
        let topics = Self { bootstrap, dlq: format!("{queue}.dlq"), queue };
        topics.run(vec![json!({"do": "declare"})]);
        topics
    }

    fn desk(&self) -> Desk {
        let broker = format!("kind = \"kafka\"\nbootstrap = \"{}\"", self.bootstrap);
        Desk::open(&broker, &self.queue, &self.dlq, "")
    }

    fn run(&self, steps: Vec<Value>) -> Value {
        let with_names = |mut step: Value| {
            step["queue"] = json!(self.queue);
            step["dlq"] = json!(self.dlq);
            step
        };
        let steps: Vec<Value> = steps.into_iter().map(with_names).collect();
        python::run(PROGRAM, &json!({"bootstrap": self.bootstrap, "steps": steps}))
    }
}

fn order(partition: i32) -> Value {
    let headers =
        json!([["tenant", "acme"], ["trace", "a"], ["trace", "b"], ["empty", ""], ["absent", null]]);
    // Text of the program is Latin-1, one character for each byte.
    let value: String = ORDER.bytes().map(char::from).collect();
    json!({"do": "produce", "value": value, "key": "C-7", "headers": headers, "partition": partition})
}

/// The JSON value of a record, whose bytes the program shows as Latin-1.
fn parsed(record: &Value) -> Value {
    let bytes: Vec<u8> = record["value"].as_str().unwrap().chars().map(|byte| byte as u8).collect();
    serde_json::from_slice(&bytes).unwrap()
}

/// Envelopes as teams write them; `$…` is a part of the failed record.
fn envelopes() -> Vec<Value> {
    let error = json!({"message": "no price", "type": "KeyError", "stackTrace": "at a\nat b"});
    vec![
        json!({"id": "e-1", "payload": "$object", "metadata": {"originalTopic": "$topic", "originalPartition": "$partition",
            "originalOffset": "$offset", "consumerGroup": "pricing", "retryCount": 3, "failedAt": "2026-11-19T10:00:00Z"},
            "error": error}),
        json!({"id": "e-2", "payload": "$text", "metadata": {"original_topic": "$topic", "original_partition": "$partition",
            "error_message": "no price", "error_type": "KeyError", "failed_at": 1_700_000_000}}),
        json!({"id": "e-3", "data": "$base64", "meta": {"sourceTopic": "$topic", "payloadEncoding": "base64",
            "failureReason": "no price", "attempts": 5}}),
        json!({"value": "$base64", "dlq": {"error": {"class": "KeyError", "message": "no price"}, "original": {"topic": "$topic",
            "partition": "$partition", "offset": "$offset"}}}),
        json!({"original": {"topic": "$topic", "partition": "$partition", "offset": "$offset", "key": "$key", "value": "$text"},
            "error": error, "attempts": 3}),
        json!({"originalMessage": "$object", "headers": {"x-original-topic": "$topic", "x-error-message": "no price",
            "x-retry-count": 3}}),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_home_made_envelope_holds_comes_back_and_nothing_else() {
    let topics = Topics::open("envelope").await;
    let desk = topics.desk();
    let mut produced = 0;
    for envelope in envelopes() {
        produced += 1;
        topics.run(vec![order(1), json!({"do": "park", "count": produced, "envelope": envelope})]);
        desk.replay(1);
        produced += 1;
        let records = topics.run(vec![json!({"do": "read", "count": produced})]);
        let (first, last) = (&records[0], &records[produced - 1]);
        let same = |name: &str| assert_eq!(last[name], first[name], "{name} of {envelope}");
        // An object inside an envelope has lost its spelling; its text and its bytes have not.
        if envelope.to_string().contains("$object") {
            let (first, last) = (parsed(first), parsed(last));
            assert_eq!(last, first, "{envelope}");
        } else {
            same("value");
        }
        same("key");
        same("partition");
        let headers: Vec<(String, Value)> = unmarked(&last["headers"]);
        assert_eq!(json!(headers), first["headers"], "{envelope}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_copied_with_headers_of_the_failure_comes_back_without_them() {
    let topics = Topics::open("copied").await;
    let desk = topics.desk();
    let added = json!([
        ["original_topic", topics.queue],
        ["original_partition", "0"],
        ["error_message", "no price"],
        ["error_class", "KeyError"],
        ["retry_count", "3"],
        ["failed_at", "2026-11-19T10:00:00Z"],
        ["consumer_group", "pricing"],
        ["consumer_id", "p-1"]
    ]);
    topics.run(vec![order(0), json!({"do": "park", "count": 1, "added": added})]);
    desk.replay(1);
    let records = topics.run(vec![json!({"do": "read", "count": 2})]);
    let (first, last) = (&records[0], &records[1]);
    for part in ["key", "value", "partition"] {
        assert_eq!(last[part], first[part], "{part}");
    }
    assert_eq!(json!(unmarked(&last["headers"])), first["headers"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_business_message_that_looks_like_an_envelope_is_sent_whole() {
    let topics = Topics::open("business").await;
    let desk = topics.desk();
    let events = [
        json!({"id": 1, "payload": {"order": 7}, "metadata": {"correlationId": "c", "source_topic": "shop"}}).to_string(),
        json!({"type": "payment.failed", "data": {"id": 1}, "meta": {"error": null, "reason": "gift", "topic": "x"}}).to_string(),
    ];
    for (number, event) in events.iter().enumerate() {
        topics.run(vec![
            json!({"do": "produce", "value": event, "key": null, "headers": [], "partition": 0}),
            json!({"do": "park", "count": number + 1}),
        ]);
    }
    desk.replay(2);
    // Without a key a record may go to either partition, so there is no order between them.
    let records = topics.run(vec![json!({"do": "read", "count": 4})]);
    for event in &events {
        let same = |record: &&Value| record["value"].as_str() == Some(event) && record["key"].is_null();
        assert_eq!(records.as_array().unwrap().iter().filter(same).count(), 2, "{event} in {records}");
    }
}
