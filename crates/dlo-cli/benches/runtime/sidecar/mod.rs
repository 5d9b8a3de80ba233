//! W8: from RabbitMQ over HTTP to a handler and back, by `dlo consume` and by the sidecars that one writes in Node and
//! in Python, with sixteen connections each.
//!
//! The clock is the handler's: from its first message to its last answer. Then the sidecar is stopped, and nothing may
//! be left in the queue. What a sidecar adds to the age of a message is measured at half of what it could do: the age
//! at the handler less the age at a bare loop on the same queue.

use std::path::{Path, PathBuf};
use std::process::Command;

use dlo_testkit::harness::rabbitmq::Rabbitmq;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};

use crate::child::Done;
use crate::measure::Median;
use crate::peer::Worker;
use crate::runner::{self, Runner};
use crate::{Asked, interpreter, node, order, record};
use handler::{Handler, Saw};

mod age;
pub(crate) mod bare;
pub(crate) mod handler;
mod pace;

const QUEUE: &str = "orders";
/// Requests under way at once.
const CONNECTIONS: u32 = 16;

pub(crate) async fn run(asked: &Asked) {
    println!("W8 a sidecar on RabbitMQ, {} messages, {} rounds", asked.messages, asked.rounds);
    let server = Rabbitmq::own().await;
    let scratch = tempfile::tempdir().expect("a directory for the run");
    let bench = Bench::new(server.url(), scratch.path()).await;
    let mut ours = Runner::new("dlo consume");
    let mut batch = Runner::new("dlo consume, ten a request");
    let mut javascript = Runner::new("Node");
    let mut python = Runner::new("Python");
    for round in 0..=asked.rounds {
        let done = [
            bench.one(|port| bench.ours(port, 1), asked.messages, false).await,
            bench.one(|port| bench.ours(port, 10), asked.messages, true).await,
            bench.one(|port| bench.node(port), asked.messages, false).await,
            // A share of the messages: it takes as long.
            bench.one(|port| bench.python(port), (asked.messages / 3).max(1_000), false).await,
        ];
        // The first round warms everything up and does not count.
        if round > 0 {
            let runners = [&mut ours, &mut batch, &mut javascript, &mut python];
            runners.into_iter().zip(&done).for_each(|(runner, done)| runner.did(done));
        }
    }
    runner::show("W8", "RabbitMQ to HTTP", &[&ours, &batch, &javascript, &python]);
    ours.against(&javascript, "sidecar.node");
    ours.against(&python, "sidecar.python");
    batch.against(&ours, "sidecar.batch");
    ours.weighs("sidecar.memory");
    ours.weighs_of(&javascript, "sidecar.node-memory");
    bench.latency(asked.rounds, ours.rate() / 2.0).await;
}

struct Bench<'a> {
    url: String,
    section: String,
    channel: Channel,
    scratch: &'a Path,
}

impl<'a> Bench<'a> {
    async fn new(url: String, scratch: &'a Path) -> Self {
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("connect");
        let channel = connection.create_channel().await.expect("a channel");
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        for queue in [QUEUE, "orders.dlq"] {
            channel.queue_declare(queue.into(), durable, FieldTable::default()).await.expect("declare");
        }
        let section = format!("kind = \"rabbitmq\"\nurl = \"{url}\"");
        Self { url, section, channel, scratch }
    }

    /// Fills the queue and has a sidecar empty it.
    async fn one(&self, sidecar: impl FnOnce(u16) -> Command, messages: u64, batch: bool) -> Done {
        let broker = order::broker(&self.section).await;
        order::fill(&broker, QUEUE, messages, 0).await;
        let mut handler = Handler::start(messages, batch);
        let (saw, usage, server) = tokio::task::block_in_place(|| {
            let worker = Worker::start(&mut sidecar(handler.port));
            // The handler is a process of ours too: it is counted with the servers, and does as much for everybody.
            let before = worker.servers();
            let saw = handler.wait();
            (saw, worker.usage(), worker.servers().saturating_sub(before))
        });
        self.must_be_empty().await;
        Done { handled: messages, parked: 0, spent: saw.spent, usage, server }
    }

    async fn must_be_empty(&self) {
        let look = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.channel.queue_declare(QUEUE.into(), look, FieldTable::default()).await;
        assert_eq!(queue.expect("the queue is there").message_count(), 0, "messages were left");
    }

    fn ours(&self, port: u16, batch: u32) -> Command {
        let config: PathBuf = self.scratch.join("dlo.toml");
        let (section, state) = (&self.section, self.scratch.join("state").display().to_string());
        // As many requests at once, whatever one of them carries.
        let concurrency = CONNECTIONS * batch;
        let batch = if batch > 1 { format!("batch = {{ size = {batch} }}\n") } else { String::new() };
        let text = format!(
            "[brokers.shop]\n{section}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{QUEUE}\"\ndlq = \"orders.dlq\"\n\
             [[consumers]]\nsource = \"orders\"\ngroup = \"bench\"\nhandler = \"http://127.0.0.1:{port}/\"\n\
             concurrency = {concurrency}\nstate = \"{state}\"\n{batch}"
        );
        std::fs::write(&config, text).expect("write the config");
        let mut command = Command::new(env!("CARGO_BIN_EXE_dlo"));
        command.arg("--config").arg(config).arg("consume");
        command
    }

    fn node(&self, port: u16) -> Command {
        let mut command = node::script("sidecar.js");
        command.args([&self.url, QUEUE, &port.to_string(), &CONNECTIONS.to_string()]);
        command
    }

    fn python(&self, port: u16) -> Command {
        let mut command = Command::new(interpreter::python());
        command.arg(interpreter::root().join("bench/peers/sidecar.py"));
        command.args([&self.url, QUEUE, &port.to_string(), &CONNECTIONS.to_string()]);
        command
    }

    /// Ages of messages at half load, at our handler and at a bare loop, in turns.
    async fn latency(&self, rounds: u64, rate: f64) {
        println!(" latency added at {rate:.0} messages/s");
        let count = (rate * pace::SECONDS) as u64;
        let (mut p50, mut p99) = (Vec::new(), Vec::new());
        for round in 0..=rounds {
            let mut handler = Handler::start(count, false);
            let worker = Worker::start(&mut self.ours(handler.port, 1));
            let ours = self.paced(&mut handler, rate, count).await;
            drop(worker);
            let mut handler = Handler::bare(&self.url, QUEUE, count);
            let bare = self.paced(&mut handler, rate, count).await;
            if round > 0 {
                p50.push(ours.p50 - bare.p50);
                p99.push(ours.p99 - bare.p99);
            }
        }
        record::figure("sidecar.p50", "ms", Median::of(p50));
        record::figure("sidecar.p99", "ms", Median::of(p99));
    }

    async fn paced(&self, handler: &mut Handler, rate: f64, count: u64) -> Saw {
        self.consumed().await;
        pace::publish(&self.channel, QUEUE, rate, count).await;
        let saw = tokio::task::block_in_place(|| handler.wait());
        self.must_be_empty().await;
        saw
    }

    /// Waits until somebody consumes the queue.
    async fn consumed(&self) {
        let look = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        loop {
            let queue = self.channel.queue_declare(QUEUE.into(), look, FieldTable::default()).await;
            if queue.expect("the queue is there").consumer_count() == 1 {
                return;
            }
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    }
}
