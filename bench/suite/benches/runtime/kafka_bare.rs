//! The least that consumes from Kafka: polls, commits every 500, publishes poison and waits for it before the commit.

use std::time::{Duration, Instant};

use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::producer::{BaseProducer, BaseRecord, Producer};

use crate::child::Done;
use crate::order;

const WINDOW: u64 = 500;

pub(crate) async fn consume(bootstrap: &str, topic: &str, group: &str, count: u64) -> Done {
    tokio::task::block_in_place(|| poll(bootstrap, topic, group, count))
}

fn poll(bootstrap: &str, topic: &str, group: &str, count: u64) -> Done {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap);
    let producer: BaseProducer = config.create().expect("a producer");
    config.set("group.id", group).set("auto.offset.reset", "earliest").set("enable.auto.commit", "false");
    // Not the second that it waits by itself whenever its queue was full: the least that a loop takes is asked for.
    config.set("fetch.queue.backoff.ms", "20");
    let consumer: BaseConsumer = config.create().expect("a consumer");
    consumer.subscribe(&[topic]).expect("subscribe");
    let dead = format!("{topic}.dlq");
    let (mut began, mut parked) = (None, 0);
    for got in 1..=count {
        let record = next(&consumer, got);
        began.get_or_insert_with(Instant::now);
        let body = record.payload().unwrap_or_default();
        if order::is_poison(body) {
            let letter = BaseRecord::<[u8], [u8]>::to(&dead).partition(record.partition()).payload(body);
            producer.send(letter).map_err(|(why, _)| why).expect("publish");
            parked += 1;
        }
        if got % WINDOW == 0 || got == count {
            producer.flush(Duration::from_secs(20)).expect("confirmed");
            let how = if got == count { CommitMode::Sync } else { CommitMode::Async };
            commit(&consumer, how);
        }
    }
    Done::now(count - parked, parked, began.expect("there was a message"))
}

/// Says what is done. A commit that was asked for before is carried out later and says all that was polled meanwhile, so
/// there may be nothing left to say.
fn commit(consumer: &BaseConsumer, how: CommitMode) {
    match consumer.commit_consumer_state(how) {
        Ok(()) | Err(KafkaError::ConsumerCommit(RDKafkaErrorCode::NoOffset)) => {}
        Err(why) => panic!("commit: {why}"),
    }
}

/// The next record. A poll comes back without one when it served a rebalance or the answer to a commit.
fn next(consumer: &BaseConsumer, number: u64) -> BorrowedMessage<'_> {
    let deadline = Instant::now() + Duration::from_secs(60);
    while Instant::now() < deadline {
        if let Some(record) = consumer.poll(Duration::from_secs(5)) {
            return record.expect("the broker is up");
        }
    }
    panic!("record {number} did not come")
}
