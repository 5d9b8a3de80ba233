//! W1: a RabbitMQ dead-letter queue into the store, beside the loop that stores nothing, scripts that commit a batch or
//! every row, and Bento.

use std::path::Path;
use std::time::{Duration, Instant};

use dlo_testkit::harness::rabbitmq::Rabbitmq;
use futures::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicQosOptions, QueueDeclareOptions, QueuePurgeOptions,
};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};

use crate::bento::{Bento, Input};
use crate::runner::{self, Runner};
use crate::usage::Meter;
use crate::{Asked, message, office, python};

const QUEUE: &str = "orders.dlq";
/// The script that commits each row is given a small share: it would take all day.
const NAIVE: u64 = 2_000;

pub(crate) async fn run(asked: Asked<'_>) {
    println!("W1 capture from RabbitMQ, {} letters, {} rounds", asked.letters, asked.rounds);
    let server = Rabbitmq::own().await;
    let url = server.url();
    declare(&url).await;
    let broker = crate::office::broker(&format!("kind = \"rabbitmq\"\nurl = \"{url}\"")).await;
    let source = format!(
        "[brokers.shop]\nkind = \"rabbitmq\"\nurl = \"{url}\"\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"orders\"\ndlq = \"{QUEUE}\"\n"
    );
    if let Some(against) = asked.against {
        let once = async |program: &Path| {
            message::fill(&broker, QUEUE, asked.letters).await;
            tokio::task::block_in_place(|| office::drain_with(program, asked.scratch, &source, asked.letters))
        };
        return against.compare("capture from RabbitMQ", "letter", once).await;
    }
    let mut ours = Runner::new("dlo, RabbitMQ to SQLite");
    let mut bare = Runner::new("bare loop, stores nothing");
    let mut batch = Runner::new("Python, a commit a batch");
    let mut naive = Runner::new("Python, a commit a letter");
    let mut general = Runner::new("Bento, an insert a batch");
    let bento = Bento::new(Input::rabbitmq(&url, QUEUE), asked.letters);
    for round in 0..=asked.rounds {
        // The first round warms everything up and does not count.
        let counts = round > 0;
        message::fill(&broker, QUEUE, asked.letters).await;
        let drained = tokio::task::block_in_place(|| office::drain(asked.scratch, &source, asked.letters));
        message::fill(&broker, QUEUE, asked.letters).await;
        let meter = Meter::start();
        let thrown = meter.round(asked.letters, throw_away(&url, asked.letters).await);
        let script = |manner: &str, count: u64| {
            let database = asked.scratch.join(format!("rabbitmq-{manner}-{round}.db"));
            let database = database.to_string_lossy().into_owned();
            tokio::task::block_in_place(|| {
                python::drain("rabbitmq.py", &[&url, QUEUE, &database, manner], count)
            })
        };
        message::fill(&broker, QUEUE, asked.letters).await;
        let batched = script("batch", asked.letters);
        message::fill(&broker, QUEUE, NAIVE).await;
        let one_by_one = script("naive", NAIVE);
        if counts {
            ours.did(drained);
            bare.did(thrown);
            batch.did(batched);
            naive.did(one_by_one);
        }
        if let Some(bento) = &bento {
            message::fill(&broker, QUEUE, bento.letters).await;
            let inserted = tokio::task::block_in_place(|| bento.drain(asked.scratch));
            purge(&url).await;
            if counts {
                general.did(inserted);
            }
        }
    }
    let mut all = vec![&ours, &bare, &batch, &naive];
    all.extend(bento.is_some().then_some(&general));
    runner::show("W1", "RabbitMQ", &all);
    ours.against(&bare, "capture.rabbitmq.bare");
    ours.against(&batch, "capture.rabbitmq.batch");
    ours.against(&naive, "capture.rabbitmq.naive");
    if bento.is_some() {
        ours.against(&general, "capture.rabbitmq.bento");
    }
    ours.costs("capture.rabbitmq.cpu");
    ours.weighs("capture.rabbitmq.memory");
}

async fn declare(url: &str) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connect");
    let channel = connection.create_channel().await.expect("a channel");
    let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
    for queue in ["orders", QUEUE] {
        channel.queue_declare(queue.into(), durable, FieldTable::default()).await.expect("declare");
    }
}

/// What a peer has stored and not acknowledged when it is stopped would be there for the next.
async fn purge(url: &str) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connect");
    let channel = connection.create_channel().await.expect("a channel");
    channel.queue_purge(QUEUE.into(), QueuePurgeOptions::default()).await.expect("purge");
}

/// The limit: consumes, reads the headers, acknowledges a thousand at once, keeps nothing.
async fn throw_away(url: &str, count: u64) -> Duration {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connect");
    let channel = connection.create_channel().await.expect("a channel");
    channel.basic_qos(4_000, BasicQosOptions::default()).await.expect("prefetch");
    let began = Instant::now();
    let mut consumer = channel
        .basic_consume(QUEUE.into(), "bare".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await
        .expect("consume");
    for got in 1..=count {
        let delivery = consumer.next().await.expect("a delivery").expect("the broker is up");
        std::hint::black_box((&delivery.data, delivery.properties.headers()));
        if got % 1_000 == 0 || got == count {
            channel.basic_ack(delivery.delivery_tag, BasicAckOptions { multiple: true }).await.expect("ack");
        }
    }
    let spent = began.elapsed();
    channel.close(200, "done".into()).await.expect("close");
    spent
}
