//! Sends of a replay on Kafka: what a predecessor leaves open, what the cluster refuses in the middle, and how fast it is.

use std::time::{Duration, Instant};

use dlo_core::broker::{Broker, PublishError};
use dlo_testkit::conformance::Lab;
use rdkafka::ClientConfig;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use super::{KafkaLab, lab, message, to};

const PATIENCE: Duration = Duration::from_secs(20);

/// Everything that stands in partition 0 and is committed.
async fn committed(broker: &dyn Broker, queue: &str) -> Vec<String> {
    let end = broker.ends(queue).await.unwrap().remove(0).next;
    let mut reader = broker.reader(queue, 0, None).await.unwrap();
    let (mut bodies, mut next) = (Vec::new(), 0);
    while next < end {
        let look = reader.read(1_000, PATIENCE).await.unwrap();
        next = look.position.next;
        bodies
            .extend(look.seen.iter().map(|one| String::from_utf8_lossy(&one.message.payload.0).into_owned()));
    }
    bodies
}

/// A producer of the same transactional id, in the middle of a transaction: a process that stands still.
fn paused_in_a_transaction(lab: &KafkaLab, name: &str, queue: &str) -> BaseProducer {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &lab.kafka.bootstrap)
        .set("transactional.id", format!("dlo-replay-{name}"))
        .create()
        .unwrap();
    producer.init_transactions(PATIENCE).unwrap();
    producer.begin_transaction().unwrap();
    producer.send(BaseRecord::to(queue).key("k").payload("open")).map_err(|(error, _)| error).unwrap();
    producer.flush(PATIENCE).unwrap();
    producer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_predecessor_had_open_is_never_seen_and_it_cannot_commit_any_more() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    let name = lab.fresh_name();
    let paused = paused_in_a_transaction(&lab, &name, &queue);
    let publisher = lab.broker.fenced_publisher(&name).await.unwrap();
    assert_eq!(committed(&*lab.broker, &queue).await, Vec::<String>::new());
    publisher.publish(vec![to(&queue, None, message("k", "mine"))]).await.remove(0).unwrap();
    let late = tokio::task::spawn_blocking(move || paused.commit_transaction(PATIENCE)).await.unwrap();
    assert!(late.is_err(), "the predecessor is fenced");
    assert_eq!(committed(&*lab.broker, &queue).await, ["mine"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_topic_finds_too_large_is_told_and_the_rest_of_the_call_is_there_once() {
    let lab = lab().await;
    let queue = lab.topic(1, &[("max.message.bytes", "2000")]).await;
    let publisher = lab.broker.fenced_publisher(&lab.fresh_name()).await.unwrap();
    let large = message("k", &"x".repeat(10_000));
    let all = [message("k", "a"), large, message("k", "b")].map(|one| to(&queue, None, one));
    let results = publisher.publish(all.to_vec()).await;
    assert!(matches!(results[1], Err(PublishError::TooLarge { .. })), "{results:?}");
    assert!(results[0].is_ok() && results[2].is_ok(), "{results:?}");
    assert_eq!(committed(&*lab.broker, &queue).await, ["a", "b"]);
    publisher.publish(vec![to(&queue, None, message("k", "next"))]).await.remove(0).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replay_of_ten_thousand_in_calls_of_a_thousand_takes_seconds() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    let publisher = lab.broker.fenced_publisher(&lab.fresh_name()).await.unwrap();
    let body = "x".repeat(1_000);
    let began = Instant::now();
    for _ in 0..10 {
        let all = (0..1_000).map(|_| to(&queue, None, message("k", &body))).collect();
        for result in publisher.publish(all).await {
            result.unwrap();
        }
    }
    assert!(began.elapsed() < 6 * PATIENCE, "{:?}", began.elapsed());
}
