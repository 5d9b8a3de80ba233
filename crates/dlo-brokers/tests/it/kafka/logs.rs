//! Logs as Kafka really keeps them: markers of transactions, compacted gaps, retention, topics that come back.

use std::time::{Duration, Instant};

use dlo_core::broker::{BrokerError, Look, OFFICE, PublishError, Reader};
use dlo_core::message::{Message, Payload};
use dlo_testkit::conformance::Lab as _;
use rdkafka::ClientConfig;
use rdkafka::admin::AdminOptions;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{KafkaLab, body, lab, message, publish, to};

const WAIT: Duration = Duration::from_secs(20);

/// Reads until `enough` says so.
async fn read_until(reader: &mut Box<dyn Reader>, mut enough: impl FnMut(&Look) -> bool) -> Look {
    let deadline = Instant::now() + 2 * WAIT;
    loop {
        let look = reader.read(100, Duration::from_millis(500)).await.unwrap();
        if enough(&look) {
            return look;
        }
        assert!(Instant::now() < deadline, "it did not come: {look:?}");
    }
}

fn bodies(look: &Look) -> Vec<String> {
    look.seen.iter().map(|seen| String::from_utf8_lossy(&seen.message.payload.0).into_owned()).collect()
}

/// Two committed transactions around an aborted one, by a real transactional producer.
fn transactions(lab: &KafkaLab, queue: &str) {
    let producer: BaseProducer = ClientConfig::new()
        .set("bootstrap.servers", &lab.kafka.bootstrap)
        .set("transactional.id", queue)
        .create()
        .unwrap();
    producer.init_transactions(WAIT).unwrap();
    for (bodies, commits) in [(["a", "b"], true), (["x", "y"], false), (["c", "d"], true)] {
        producer.begin_transaction().unwrap();
        for body in bodies {
            producer.send(BaseRecord::<str, str>::to(queue).key("k").payload(body)).unwrap();
        }
        producer.flush(WAIT).unwrap();
        if commits {
            producer.commit_transaction(WAIT).unwrap();
        } else {
            producer.abort_transaction(WAIT).unwrap();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_are_read_committed_and_their_markers_are_passed() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    tokio::task::block_in_place(|| transactions(&lab, &queue));
    let mut reader = lab.broker.reader(&queue, 0, None).await.unwrap();
    let mut seen = Vec::new();
    // Six records and three markers: the next record will have offset 9.
    let end = read_until(&mut reader, |look| {
        seen.extend(bodies(look));
        look.position.next == 9
    })
    .await;
    assert_eq!(seen, ["a", "b", "c", "d"]);
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let mut came = Vec::new();
    while came.len() < 4 {
        came.extend(source.receive(10, WAIT).await.unwrap());
    }
    assert_eq!(came.iter().map(body).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
    // A reader that goes on behind the markers misses nothing, and skips nothing.
    publish(&lab.broker, vec![to(&queue, None, message("k", "after"))]).await;
    let mut next = lab.broker.reader(&queue, 0, Some(&end.position)).await.unwrap();
    let look = read_until(&mut next, |look| !look.seen.is_empty()).await;
    assert_eq!((bodies(&look), look.skipped, look.position.next), (vec!["after".to_owned()], 0, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn compacted_gaps_are_no_loss() {
    let lab = lab().await;
    let settings = [
        ("cleanup.policy", "compact"),
        ("segment.ms", "100"),
        ("min.cleanable.dirty.ratio", "0.001"),
        ("min.compaction.lag.ms", "0"),
        ("max.compaction.lag.ms", "100"),
    ];
    let queue = lab.topic(1, &settings).await;
    for n in 0..40 {
        publish(&lab.broker, vec![to(&queue, None, message("same", &n.to_string()))]).await;
    }
    let deadline = Instant::now() + Duration::from_secs(60);
    let looks = loop {
        // A record now and then: only segments that are closed are compacted.
        publish(&lab.broker, vec![to(&queue, None, message("other", "tick"))]).await;
        let mut reader = lab.broker.reader(&queue, 0, None).await.unwrap();
        let look = read_until(&mut reader, |look| !look.seen.is_empty()).await;
        if look.seen[0].origin.offset > Some(0) {
            break look;
        }
        assert!(Instant::now() < deadline, "the server did not compact");
        tokio::time::sleep(Duration::from_millis(300)).await;
    };
    assert_eq!(looks.skipped, 0, "what was compacted away was not missed");
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let first = source.receive(1, WAIT).await.unwrap().remove(0);
    assert!(first.origin.offset > Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_retention_removed_before_it_was_read_is_counted() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    publish(&lab.broker, (0..10).map(|n| to(&queue, None, message("k", &n.to_string()))).collect()).await;
    let mut reader = lab.broker.reader(&queue, 0, None).await.unwrap();
    let look = reader.read(3, WAIT).await.unwrap();
    assert_eq!(look.position.next, 3);
    let mut before = TopicPartitionList::new();
    before.add_partition_offset(&queue, 0, Offset::Offset(7)).unwrap();
    lab.admin().delete_records(&before, &AdminOptions::new()).await.unwrap();
    let mut late = lab.broker.reader(&queue, 0, Some(&look.position)).await.unwrap();
    let (mut skipped, mut seen) = (0, Vec::new());
    read_until(&mut late, |look| {
        skipped += look.skipped;
        seen.extend(bodies(look));
        seen.len() == 3
    })
    .await;
    assert_eq!((skipped, seen), (4, vec!["7".to_owned(), "8".to_owned(), "9".to_owned()]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_ends_when_its_topic_is_deleted_or_created_anew() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    publish(&lab.broker, vec![to(&queue, None, message("k", "old"))]).await;
    let mut reader = lab.broker.reader(&queue, 0, None).await.unwrap();
    read_until(&mut reader, |look| !look.seen.is_empty()).await;
    let mut doomed = lab.broker.reader(&queue, 0, None).await.unwrap();
    read_until(&mut doomed, |look| !look.seen.is_empty()).await;
    lab.delete(&queue).await;
    assert!(matches!(end_of(&mut doomed).await, BrokerError::Missing(said) if said == queue));
    lab.create(&queue, 1, &[]).await;
    assert!(matches!(end_of(&mut reader).await, BrokerError::Closed));
}

async fn end_of(reader: &mut Box<dyn Reader>) -> BrokerError {
    let deadline = Instant::now() + 2 * WAIT;
    while Instant::now() < deadline {
        match reader.read(10, Duration::from_millis(300)).await {
            Err(BrokerError::Unavailable(_)) | Ok(_) => {}
            Err(end) => return end,
        }
    }
    panic!("the reader did not end");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_source_goes_on_with_a_topic_that_was_created_anew() {
    let lab = lab().await;
    let queue = lab.fresh_queue().await;
    publish(&lab.broker, (0..5).map(|n| to(&queue, Some(0), message("k", &n.to_string()))).collect()).await;
    let mut source = lab.broker.source(&queue, "g").await.unwrap();
    let mut old = Vec::new();
    while old.len() < 5 {
        old.extend(source.receive(5, WAIT).await.unwrap());
    }
    let life = old[0].origin.incarnation.clone();
    super::done(&*source, old).await;
    lab.recreate(&queue).await;
    publish(&lab.broker, vec![to(&queue, Some(0), message("k", "new"))]).await;
    let deadline = Instant::now() + 3 * WAIT;
    let new = loop {
        assert!(Instant::now() < deadline, "what is new did not come");
        match source.receive(5, Duration::from_millis(500)).await {
            Ok(came) if !came.is_empty() => break came,
            Ok(_) | Err(BrokerError::Unavailable(_) | BrokerError::Missing(_)) => {}
            Err(error) => panic!("{error}"),
        }
    };
    assert_eq!(body(&new[0]), "new");
    assert_ne!(new[0].origin.incarnation, life);
}

#[tokio::test(flavor = "multi_thread")]
async fn how_far_the_office_is_can_be_seen_as_lag() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    publish(&lab.broker, (0..10).map(|n| to(&queue, None, message("k", &n.to_string()))).collect()).await;
    let mut reader = lab.broker.reader(&queue, 0, None).await.unwrap();
    let look = reader.read(4, WAIT).await.unwrap();
    reader.tell(&look.position).await.unwrap();
    let deadline = Instant::now() + 3 * WAIT;
    let state = loop {
        let state = lab.broker.inspector().inspect(&queue, Some(OFFICE)).await.unwrap();
        if state.depth == Some(6) {
            break state;
        }
        assert!(Instant::now() < deadline, "the cluster was not told: {state:?}");
    };
    assert_eq!(state.partitions, Some(1));
    assert!(state.oldest.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_that_takes_less_than_we_send_says_how_large_the_message_is() {
    let lab = lab().await;
    let queue = lab.topic(1, &[("max.message.bytes", "1000")]).await;
    let large = Message { payload: Payload::from(vec![7; 5_000]), ..Message::default() };
    let result = lab.broker.publisher().publish(vec![to(&queue, None, large)]).await.remove(0);
    assert!(matches!(result, Err(PublishError::TooLarge { size: 5_000, .. })), "{result:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tombstone_is_not_an_empty_value() {
    let lab = lab().await;
    let queue = lab.topic(1, &[]).await;
    let producer: BaseProducer =
        ClientConfig::new().set("bootstrap.servers", &lab.kafka.bootstrap).create().unwrap();
    producer.send(BaseRecord::<str, str>::to(&queue).key("gone")).unwrap();
    tokio::task::block_in_place(|| producer.flush(WAIT)).unwrap();
    let mut reader = lab.broker.reader(&queue, 0, None).await.unwrap();
    let look = read_until(&mut reader, |look| !look.seen.is_empty()).await;
    let tombstone = look.seen[0].message.clone();
    assert_eq!(tombstone.headers.text("kafka:tombstone"), Some("true"));
    publish(&lab.broker, vec![to(&queue, None, tombstone.clone())]).await;
    let look = read_until(&mut reader, |look| !look.seen.is_empty()).await;
    assert_eq!(look.seen[0].message, tombstone);
}

#[tokio::test(flavor = "multi_thread")]
async fn sending_creates_no_topic_even_where_the_cluster_would() {
    let lab = lab().await;
    let name = lab.fresh_name();
    let result = lab.broker.publisher().publish(vec![to(&name, None, message("k", "m"))]).await.remove(0);
    assert!(matches!(&result, Err(PublishError::Refused(why)) if why.contains(&name)), "{result:?}");
    assert!(matches!(lab.broker.partitions(&name).await, Err(BrokerError::Missing(_))));
}
