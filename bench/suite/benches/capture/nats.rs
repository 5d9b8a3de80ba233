//! W3: a JetStream stream into the store, beside a bare Rust loop into SQLite and a batched Python script.

use std::time::{Duration, Instant};

use async_nats::jetstream::{self, AckKind, consumer::PullConsumer};
use dlo_core::broker::TopologySpec;
use dlo_testkit::harness::nats::{Nats, Release};
use futures::StreamExt;

use crate::runner::{self, Runner};
use crate::sink::{Row, Sink};
use crate::usage::Meter;
use crate::{Asked, interpreter, message, office, python};

const SUBJECT: &str = "orders.dlq";

pub(crate) async fn run(asked: Asked<'_>) {
    println!("W3 capture from NATS JetStream, {} letters, {} rounds", asked.letters, asked.rounds);
    let server = Nats::own(Release::Newest, "").await;
    let url = server.url();
    let broker = office::broker(&format!("kind = \"nats\"\nservers = [\"{url}\"]")).await;
    broker.topology().apply(&TopologySpec::new("orders", SUBJECT, 5)).await.expect("make the streams");
    let source = format!(
        "[brokers.shop]\nkind = \"nats\"\nservers = [\"{url}\"]\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"orders\"\ndlq = \"{SUBJECT}\"\n"
    );
    if let Some(against) = asked.against {
        let once = async |program: &std::path::Path| {
            message::fill(&broker, SUBJECT, asked.letters).await;
            let drained = tokio::task::block_in_place(|| {
                office::drain_with(program, asked.scratch, &source, asked.letters)
            });
            purge(&url).await;
            drained
        };
        return against.compare("capture from NATS", "letter", once).await;
    }
    let mut ours = Runner::new("dlo, NATS to SQLite");
    let mut bare = Runner::new("bare loop to SQLite");
    let mut batch = Runner::new("nats-py, a commit a batch");
    let scripted = interpreter::has("nats");
    for round in 0..=asked.rounds {
        let counts = round > 0;
        message::fill(&broker, SUBJECT, asked.letters).await;
        let drained = tokio::task::block_in_place(|| office::drain(asked.scratch, &source, asked.letters));
        purge(&url).await;
        message::fill(&broker, SUBJECT, asked.letters).await;
        let database = asked.scratch.join(format!("nats-{round}.db"));
        let meter = Meter::start();
        let least = meter.round(asked.letters, bare_loop(&url, &database, asked.letters).await);
        purge(&url).await;
        if counts {
            ours.did(drained);
            bare.did(least);
        }
        if scripted {
            message::fill(&broker, SUBJECT, asked.letters).await;
            let database = asked.scratch.join(format!("nats-py-{round}.db")).to_string_lossy().into_owned();
            let batched = tokio::task::block_in_place(|| {
                python::drain("nats_stream.py", &[&url, SUBJECT, &database], asked.letters)
            });
            purge(&url).await;
            if counts {
                batch.did(batched);
            }
        }
    }
    let mut all = vec![&ours, &bare];
    all.extend(scripted.then_some(&batch));
    runner::show("W3", "NATS", &all);
    ours.against(&bare, "capture.nats.bare");
    if scripted {
        ours.against(&batch, "capture.nats.batch");
    }
    ours.weighs("capture.nats.memory");
}

async fn stream(url: &str) -> jetstream::stream::Stream {
    let context = jetstream::new(async_nats::connect(url).await.expect("connect"));
    let name = context.stream_by_subject(SUBJECT).await.expect("the stream is there");
    context.get_stream(name).await.expect("the stream is there")
}

async fn purge(url: &str) {
    stream(url).await.purge().await.expect("purge");
}

/// Pulls a thousand, stores them in one transaction, acknowledges them.
async fn bare_loop(url: &str, database: &std::path::Path, count: u64) -> Duration {
    let stream = stream(url).await;
    let config = jetstream::consumer::pull::Config {
        filter_subject: SUBJECT.to_owned(),
        max_ack_pending: 10_000,
        ..Default::default()
    };
    let consumer: PullConsumer = stream.create_consumer(config).await.expect("a consumer");
    let mut sink = Sink::open(database);
    let began = Instant::now();
    let mut got = 0;
    while got < count {
        let mut batch = consumer.fetch().max_messages(1_000).messages().await.expect("fetch");
        let (mut rows, mut held) = (Vec::new(), Vec::new());
        while let Some(message) = batch.next().await {
            let message = message.expect("a message");
            let header = |name: &str| {
                let value = message.headers.as_ref().and_then(|headers| headers.get(name));
                value.map(|value| value.as_str().to_owned()).unwrap_or_default()
            };
            rows.push(Row {
                origin: message.info().expect("a sequence").stream_sequence.to_string(),
                event_type: header("event_type"),
                class: header("error_class"),
                error: header("error_message"),
                payload: message.payload.to_vec(),
            });
            held.push(message);
        }
        tokio::task::block_in_place(|| sink.put(&rows));
        got += rows.len() as u64;
        for message in held {
            message.ack_with(AckKind::Ack).await.expect("acknowledge");
        }
    }
    let spent = began.elapsed();
    assert_eq!(sink.count(), count);
    spent
}
