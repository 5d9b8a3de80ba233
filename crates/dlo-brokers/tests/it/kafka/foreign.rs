//! Dead letters that others wrote, for real: Kafka Connect and Spring Kafka fail on a record, and what they publish is
//! read through the adapter and understood.

use std::time::{Duration, Instant};

use dlo_core::broker::Seen;
use dlo_core::conventions::{Found, Reading, read};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_testkit::conformance::Lab as _;
use dlo_testkit::harness::kafka::foreign::Foreign;

use super::{KafkaLab, PARTITIONS, lab, message, publish, to};

/// A Java program starts, joins a group and fails: seconds, on a busy machine many.
const PATIENCE: Duration = Duration::from_secs(90);

/// The dead letter that `writer` puts into `dead`, in whichever partition, and what it says.
async fn letter(lab: &KafkaLab, dead: &str, writer: &Foreign) -> (Seen, Reading) {
    let deadline = Instant::now() + PATIENCE;
    loop {
        // The topic may be made by whoever needs it first.
        for partition in lab.broker.partitions(dead).await.unwrap_or_default() {
            let mut reader = lab.broker.reader(dead, partition, None).await.unwrap();
            let look = reader.read(1, Duration::from_millis(500)).await.unwrap();
            if let Some(seen) = look.seen.into_iter().next() {
                let found = Found { broker: BrokerKind::Kafka, queue: dead };
                let reading = read(&seen.message, found);
                return (seen, reading);
            }
        }
        assert!(Instant::now() < deadline, "no dead letter in {dead}; its writer said: {}", writer.said());
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
}

fn record(queue: &str, partition: i32, offset: i64) -> Option<Origin> {
    Some(Origin::log(BrokerKind::Kafka, queue, partition, offset))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_of_kafka_connect_is_understood() {
    let lab = lab().await;
    let (queue, dead) = (lab.fresh_queue().await, lab.fresh_name());
    let records = [r#"{"id":1}"#, "{not json"].map(|body| to(&queue, Some(1), message("k-17", body)));
    publish(&lab.broker, records.into()).await;
    let connect = Foreign::connect(&lab.kafka.bootstrap, "file-sink", &queue, &dead);

    let (seen, reading) = letter(&lab, &dead, &connect).await;
    assert_eq!(&seen.message.payload.0[..], b"{not json");
    assert_eq!(seen.message.key.as_ref().map(|key| &key.0[..]), Some(&b"k-17"[..]));
    assert_eq!(reading.conventions, ["connect"]);
    assert_eq!(reading.origin, record(&queue, 1, 1));
    assert_eq!(reading.consumer.as_deref(), Some("file-sink"));
    assert_eq!(reading.consumer_id.as_deref(), Some("0"));
    assert_eq!(reading.error_code.as_deref(), Some("VALUE_CONVERTER"));
    assert_eq!(reading.reason, Some(Reason::DeserializationError));
    assert_eq!(reading.error_class.as_deref(), Some("org.apache.kafka.connect.errors.DataException"));
    let said = reading.error_message.unwrap();
    assert!(said.contains("serialization error"), "{said}");
    let stack = reading.error_stack.unwrap();
    assert!(stack.contains("at org.apache.kafka.connect.json.JsonConverter"), "{stack}");
    // The good record went its way.
    let deadline = Instant::now() + PATIENCE;
    while !connect.sunk().contains("id=1") {
        assert!(Instant::now() < deadline, "nothing in the file; Connect said: {}", connect.said());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_of_spring_kafka_is_understood() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    let dead = format!("{queue}-dlt");
    lab.create(&dead, PARTITIONS, &[]).await;
    publish(&lab.broker, vec![to(&queue, Some(1), message("k-17", r#"{"sku":7}"#))]).await;
    let spring = Foreign::spring(&lab.kafka.bootstrap, &queue, "pricing");

    let (seen, reading) = letter(&lab, &dead, &spring).await;
    assert_eq!(&seen.message.payload.0[..], br#"{"sku":7}"#);
    assert_eq!(seen.message.key.as_ref().map(|key| &key.0[..]), Some(&b"k-17"[..]));
    let offset =
        seen.message.headers.last("kafka_dlt-original-offset").and_then(|header| header.value.clone());
    assert_eq!(offset.as_deref(), Some(&0_i64.to_be_bytes()[..]), "numbers are bytes");
    assert_eq!(reading.conventions, ["spring.dlt"]);
    assert_eq!(reading.origin, record(&queue, 1, 0));
    assert_eq!(reading.consumer.as_deref(), Some("pricing"));
    assert_eq!(reading.error_class.as_deref(), Some("java.lang.IllegalStateException"));
    assert_eq!(reading.attempts, Some(2));
    assert!(reading.published_at.is_some());
    let said = reading.error_message.unwrap();
    assert!(said.contains("no price for SKU 7"), "{said}");
    let stack = reading.error_stack.unwrap();
    assert!(stack.contains("Caused by: java.lang.IllegalStateException: no price for SKU 7"), "{stack}");
}
