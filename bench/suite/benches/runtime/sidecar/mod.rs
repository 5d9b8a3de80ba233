//! W8: from RabbitMQ over HTTP to a handler and back, by `dlo consume`, by the least that pushes, by the sidecars that one
//! writes in Node and in Python, and by Bento, with sixteen connections each; beside them what the HTTP side allows by itself.
//!
//! The clock is the handler's: from its first message to its last answer. Then the sidecar is stopped, and nothing may
//! be left in the queue.

use std::path::{Path, PathBuf};
use std::process::Command;

use dlo_testkit::harness::rabbitmq::Rabbitmq;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};

use crate::child::{Done, ROLE};
use crate::peer::Worker;
use crate::rabbitmq::look;
use crate::runner::{self, Runner};
use crate::{Asked, interpreter, node, order};
use bento::Bento;
use handler::{Handler, Manner};
use limit::Limits;

mod age;
pub(crate) mod bare;
mod bento;
mod delay;
pub(crate) mod handler;
mod latency;
pub(crate) mod limit;
mod pace;
pub(crate) mod push;
mod slow;

const QUEUE: &str = "orders";
/// Requests under way at once.
const CONNECTIONS: u16 = 16;

pub(crate) async fn run(asked: &Asked<'_>) {
    println!("W8 a sidecar on RabbitMQ, {} messages, {} rounds", asked.messages, asked.rounds);
    let server = Rabbitmq::own().await;
    let scratch = tempfile::tempdir().expect("a directory for the run");
    let bench = Bench::new(server.url(), scratch.path()).await;
    bench.contest(asked).await;
    latency::run(&bench, asked).await;
    slow::run(&bench, asked).await;
}

struct Bench<'a> {
    url: String,
    section: String,
    channel: Channel,
    scratch: &'a Path,
    /// Where it could be built.
    bento: Option<Bento>,
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
        Self { url, section, channel, scratch, bento: Bento::new(scratch) }
    }

    /// Everybody at full speed.
    async fn contest(&self, asked: &Asked<'_>) {
        let mut ours = Runner::new("dlo consume");
        let mut batch = Runner::new("dlo consume, ten a request");
        let mut bare = Runner::new("bare loop");
        let mut javascript = Runner::new("Node");
        let mut python = Runner::new("Python");
        let mut bento = Runner::new("Bento");
        let mut limits = Limits::new();
        // A share of the messages: they take as long.
        let few = (asked.messages / 3).max(1_000);
        let single = |messages| Handler::start(messages, Manner::Single);
        for round in 0..=asked.rounds {
            let all = asked.messages;
            let done = [
                self.one(single(all), |port| self.ours(port, CONNECTIONS.into(), 1), all).await,
                self.one(
                    Handler::start(all, Manner::Batch),
                    |port| self.ours(port, CONNECTIONS.into(), 10),
                    all,
                )
                .await,
                self.one(single(all), |port| self.push(port, CONNECTIONS), all).await,
                self.one(single(all), |port| self.node(port), all).await,
                self.one(single(few), |port| self.python(port), few).await,
            ];
            let in_go = match &self.bento {
                Some(bento) => Some(self.one(single(few), |port| bento.command(&self.url, port), few).await),
                None => None,
            };
            limits.round(asked.messages, round > 0);
            // The first round warms everything up and does not count.
            if round > 0 {
                let runners = [&mut ours, &mut batch, &mut bare, &mut javascript, &mut python];
                runners.into_iter().zip(&done).for_each(|(runner, done)| runner.did(done));
                in_go.iter().for_each(|done| bento.did(done));
            }
        }
        runner::show("W8", "RabbitMQ to HTTP", &[&ours, &batch, &bare, &javascript, &python]);
        ours.against(&bare, "sidecar.bare");
        ours.against(&javascript, "sidecar.node");
        ours.against(&python, "sidecar.python");
        batch.against(&ours, "sidecar.batch");
        limits.show(&ours);
        ours.weighs("sidecar.memory");
        ours.weighs_of(&javascript, "sidecar.node-memory");
        if self.bento.is_some() {
            runner::show("W8", "RabbitMQ to HTTP", &[&bento]);
            ours.against(&bento, "sidecar.bento");
        }
    }

    /// Fills the queue and has a sidecar empty it into a handler.
    async fn one(&self, mut handler: Handler, sidecar: impl FnOnce(u16) -> Command, messages: u64) -> Done {
        let broker = order::broker(&self.section).await;
        order::fill(&broker, QUEUE, messages, 0).await;
        let (spent, usage, server) = tokio::task::block_in_place(|| {
            let worker = Worker::start(&mut sidecar(handler.port));
            // The handler is a process of ours too: it is counted with the servers, and does as much for everybody.
            let before = worker.servers();
            let spent = handler.wait();
            (spent, worker.usage(), worker.servers().saturating_sub(before))
        });
        self.must_be_empty().await;
        Done { handled: messages, parked: 0, spent, usage, server }
    }

    async fn must_be_empty(&self) {
        assert_eq!(look(&self.channel, QUEUE).await.message_count(), 0, "messages were left");
    }

    /// `dlo consume` with so many requests at once.
    fn ours(&self, port: u16, requests: u32, batch: u32) -> Command {
        let config: PathBuf = self.scratch.join("dlo.toml");
        let (section, state) = (&self.section, self.scratch.join("state").display().to_string());
        // It counts messages at once, whatever a request carries.
        let concurrency = requests * batch;
        let batch = if batch > 1 { format!("batch = {{ size = {batch} }}\n") } else { String::new() };
        let text = format!(
            "[brokers.shop]\n{section}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{QUEUE}\"\ndlq = \"orders.dlq\"\n\
             [[consumers]]\nsource = \"orders\"\ngroup = \"bench\"\nhandler = \"http://127.0.0.1:{port}/\"\n\
             concurrency = {concurrency}\nstate = \"{state}\"\n{batch}"
        );
        std::fs::write(&config, text).expect("write the config");
        let mut command = Command::new(dlo_bench::dlo::program());
        command.arg("--config").arg(config).arg("consume");
        command
    }

    /// The bare loop.
    fn push(&self, port: u16, connections: u16) -> Command {
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.args([ROLE, "push", &self.url, QUEUE, &port.to_string(), &connections.to_string()]);
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
}
