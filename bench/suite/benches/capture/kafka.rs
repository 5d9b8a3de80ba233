//! W3: a Kafka topic into the store, beside a batched Python script, a bare rdkafka loop into SQLite, and Kafka Connect
//! into a file.
//!
//! The topic is filled once: a log is not emptied by reading it, so every runner of every round reads the same records.

use std::time::{Duration, Instant};

use dlo_core::broker::TopologySpec;
use dlo_testkit::harness::kafka::Kafka;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::message::{Headers as _, Message as _};

use crate::runner::{self, Runner};
use crate::sink::{Row, Sink};
use crate::usage::Meter;
use crate::{Asked, connect, message, office, python};

const TOPIC: &str = "orders.dlq";
/// How long the bare loop may hear nothing: the first group of a young server takes its time.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_secs(1);

pub(crate) async fn run(asked: Asked<'_>) {
    println!("W3 capture from Kafka, {} letters, {} rounds", asked.letters, asked.rounds);
    let server = Kafka::in_earnest().await;
    let bootstrap = server.bootstrap.clone();
    let broker = office::broker(&format!("kind = \"kafka\"\nbootstrap = \"{bootstrap}\"")).await;
    let spec = TopologySpec { partitions: Some(6), ..TopologySpec::new("orders", TOPIC, 5) };
    broker.topology().apply(&spec).await.expect("make the topics");
    message::fill(&broker, TOPIC, asked.letters).await;
    let source = format!(
        "[brokers.shop]\nkind = \"kafka\"\nbootstrap = \"{bootstrap}\"\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"orders\"\ndlq = \"{TOPIC}\"\n"
    );
    if let Some(against) = asked.against {
        let once = async |program: &std::path::Path| {
            tokio::task::block_in_place(|| office::drain_with(program, asked.scratch, &source, asked.letters))
        };
        return against.compare("capture from Kafka", "letter", once).await;
    }
    let mut ours = Runner::new("dlo, Kafka to SQLite");
    let mut bare = Runner::new("bare rdkafka to SQLite");
    let mut batch = Runner::new("Python, a commit a batch");
    let mut connector = Runner::new("Kafka Connect, to a file");
    for round in 0..=asked.rounds {
        let drained = tokio::task::block_in_place(|| office::drain(asked.scratch, &source, asked.letters));
        let database = asked.scratch.join(format!("kafka-{round}.db"));
        let meter = Meter::start();
        let spent = tokio::task::block_in_place(|| bare_loop(&bootstrap, round, &database, asked.letters));
        let least = meter.round(asked.letters, spent);
        let database = asked.scratch.join(format!("kafka-py-{round}.db")).to_string_lossy().into_owned();
        let batched = tokio::task::block_in_place(|| {
            python::drain("kafka_topic.py", &[&bootstrap, TOPIC, &database], asked.letters)
        });
        let sunk = tokio::task::block_in_place(|| {
            connect::drain(asked.scratch, &bootstrap, TOPIC, round, asked.letters)
        });
        if round > 0 {
            ours.did(drained);
            bare.did(least);
            batch.did(batched);
            connector.did(sunk);
        }
    }
    runner::show("W3", "Kafka", &[&ours, &bare, &batch, &connector]);
    ours.against(&batch, "capture.kafka.batch");
    ours.against(&bare, "capture.kafka.bare");
    ours.against(&connector, "capture.kafka.connect");
    ours.weighs("capture.kafka.memory");
}

/// Polls a thousand, stores them in one transaction, commits the offsets. The clock starts with the first record.
fn bare_loop(bootstrap: &str, round: u64, database: &std::path::Path, count: u64) -> Duration {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", bootstrap)
        .set("group.id", format!("bare-{round}"))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", "false")
        .create()
        .expect("a consumer");
    consumer.subscribe(&[TOPIC]).expect("subscribe");
    let mut sink = Sink::open(database);
    let (mut got, mut rows) = (0, Vec::with_capacity(1_000));
    let (mut began, mut heard) = (None, Instant::now());
    while got < count {
        let Some(message) = consumer.poll(PAUSE) else {
            // An event of the group ends a poll as well.
            assert!(heard.elapsed() < PATIENCE, "the topic ended at {got}");
            continue;
        };
        heard = Instant::now();
        let message = message.expect("the broker is up");
        began.get_or_insert_with(Instant::now);
        got += 1;
        rows.push(row(&message));
        if rows.len() == 1_000 || got == count {
            sink.put(&rows);
            consumer.commit_consumer_state(CommitMode::Sync).expect("commit");
            rows.clear();
        }
    }
    assert_eq!(sink.count(), count);
    began.map_or(Duration::ZERO, |began| began.elapsed())
}

fn row(message: &rdkafka::message::BorrowedMessage<'_>) -> Row {
    let header = |name: &str| {
        let headers = message.headers()?;
        let found = headers.iter().find(|header| header.key == name)?.value?;
        Some(String::from_utf8_lossy(found).into_owned())
    };
    Row {
        origin: format!("{}/{}", message.partition(), message.offset()),
        event_type: header("event_type").unwrap_or_default(),
        class: header("error_class").unwrap_or_default(),
        error: header("error_message").unwrap_or_default(),
        payload: message.payload().unwrap_or_default().to_vec(),
    }
}
