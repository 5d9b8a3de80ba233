//! W6: consuming from RabbitMQ, beside the bare loop, dramatiq (2 processes of 8 threads), Celery (2 processes,
//! acknowledging late) and Watermill (16 handlers). All are given as many retries as we take; dead letters of the first two
//! go to queues of theirs.

use std::path::PathBuf;
use std::process::Command;

use dlo_testkit::harness::rabbitmq::Rabbitmq;
use lapin::options::{QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};

use crate::child::{self, Done};
use crate::peer::Depths;
use crate::runner::{self, Runner};
use crate::{Asked, go, interpreter, order, peer};

const QUEUE: &str = "orders";
const GROUP: &str = "bench";
const DEAD: &str = "orders.dlq";

pub(crate) async fn run(asked: &Asked) {
    println!("W6 consuming from RabbitMQ, {} messages, {} rounds", asked.messages, asked.rounds);
    let server = Rabbitmq::own().await;
    let bench = Bench::new(server.url()).await;
    let mut without: Option<Runner> = None;
    for &percent in &asked.poison {
        let ours = bench.rounds(asked, percent).await;
        if let Some(without) = &without {
            if percent == 10 {
                ours.against(without, "runtime.rabbitmq.poison-10");
            } else {
                println!("  at {percent} % to none: {:.2}", ours.rate() / without.rate());
            }
        }
        if percent == 0 {
            without = Some(ours);
        }
    }
}

struct Bench {
    url: String,
    section: String,
    channel: Channel,
    /// Its program, where it could be built.
    watermill: Option<PathBuf>,
}

impl Bench {
    async fn new(url: String) -> Self {
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("connect");
        let channel = connection.create_channel().await.expect("a channel");
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        for queue in [QUEUE, DEAD] {
            channel.queue_declare(queue.into(), durable, FieldTable::default()).await.expect("declare");
        }
        let section = format!("kind = \"rabbitmq\"\nurl = \"{url}\"");
        Self { url, section, channel, watermill: go::program("watermill") }
    }

    async fn rounds(&self, asked: &Asked, percent: u64) -> Runner {
        println!(" {percent} % poison");
        let mut ours = Runner::new("ours");
        let mut bare = Runner::new("bare loop");
        let mut dramatiq = Runner::new("dramatiq");
        let mut celery = Runner::new("Celery");
        let mut watermill = Runner::new("Watermill");
        for round in 0..=asked.rounds {
            let done = [
                self.own(&["ours", &self.section], asked.messages, percent).await,
                self.own(&["rabbitmq", &self.url], asked.messages, percent).await,
                // A share of the messages: they take as long.
                self.dramatiq((asked.messages / 5).max(1_000), percent).await,
                self.celery((asked.messages / 10).max(1_000), percent).await,
            ];
            let in_go = self.watermill(asked.messages, percent).await;
            // The first round warms everything up and does not count.
            if round > 0 {
                for (runner, done) in
                    [&mut ours, &mut bare, &mut dramatiq, &mut celery].into_iter().zip(&done)
                {
                    runner.did(done);
                }
                in_go.iter().for_each(|done| watermill.did(done));
            }
        }
        let contest = format!("RabbitMQ, {percent} % poison");
        runner::show("W6", &contest, &[&ours, &bare, &dramatiq, &celery]);
        if percent == 0 {
            ours.against(&bare, "runtime.rabbitmq.bare");
            ours.against(&dramatiq, "runtime.rabbitmq.dramatiq");
            ours.against(&celery, "runtime.rabbitmq.celery");
        } else {
            for other in [&bare, &dramatiq, &celery] {
                ours.beside(other);
            }
        }
        if self.watermill.is_some() {
            runner::show("W6", &contest, &[&watermill]);
            match percent {
                0 => ours.against(&watermill, "runtime.rabbitmq.watermill"),
                _ => ours.beside(&watermill),
            }
        }
        ours
    }

    /// A runner of this program, ours or bare, on a queue filled for it.
    async fn own(&self, role: &[&str], messages: u64, percent: u64) -> Done {
        let count = messages.to_string();
        let words = [role, &[QUEUE, GROUP, &count]].concat();
        self.one(role[0], || child::run(&words), messages, percent).await
    }

    async fn watermill(&self, messages: u64, percent: u64) -> Option<Done> {
        let mut worker = Command::new(self.watermill.as_ref()?);
        worker.args([&self.url, QUEUE, DEAD, &messages.to_string()]);
        Some(self.one("Watermill", || child::read(&mut worker), messages, percent).await)
    }

    /// Fills the queue, has it worked off and counts what is where.
    async fn one(&self, who: &str, work: impl FnOnce() -> Done, messages: u64, percent: u64) -> Done {
        let poison = order::poisoned(messages, percent);
        let broker = order::broker(&self.section).await;
        order::fill(&broker, QUEUE, messages, percent).await;
        let done = tokio::task::block_in_place(work);
        done.check(who, messages, poison);
        assert_eq!(self.depth(QUEUE).await, 0, "{who} left messages");
        assert_eq!(self.depth(DEAD).await, poison, "{who} parked another number");
        self.purge(DEAD).await;
        done
    }

    async fn dramatiq(&self, messages: u64, percent: u64) -> Done {
        self.fill("dramatiq_work.py", messages, percent);
        let mut worker = self.python(percent);
        worker.args(["-m", "dramatiq", "dramatiq_work", "-p", "2", "-t", "8", "--skip-logging"]);
        let look = async || -> Depths {
            let (left, later) = (self.depth("dramatiq").await, self.depth("dramatiq.DQ").await);
            (left + later, self.depth("dramatiq.XQ").await)
        };
        let done = peer::run(&mut worker, messages, order::poisoned(messages, percent), look).await;
        self.purge("dramatiq.XQ").await;
        done
    }

    async fn celery(&self, messages: u64, percent: u64) -> Done {
        self.fill("celery_work.py", messages, percent);
        let mut worker = self.python(percent);
        worker.args([
            "-m",
            "celery",
            "-A",
            "celery_work",
            "worker",
            "-c",
            "2",
            "-l",
            "CRITICAL",
            "-Q",
            "celery",
        ]);
        worker.args(["--without-gossip", "--without-mingle", "--without-heartbeat"]);
        let look = async || -> Depths { (self.depth("celery").await, self.depth("celery.dlq").await) };
        let done = peer::run(&mut worker, messages, order::poisoned(messages, percent), look).await;
        self.purge("celery.dlq").await;
        done
    }

    fn python(&self, percent: u64) -> Command {
        let mut command = Command::new(interpreter::python());
        command
            .current_dir(interpreter::root().join("bench/peers"))
            .env("AMQP_URL", &self.url)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("POISON_EVERY", order::every(percent).unwrap_or(0).to_string());
        command
    }

    fn fill(&self, script: &str, messages: u64, percent: u64) {
        let mut command = self.python(percent);
        tokio::task::block_in_place(|| interpreter::run(command.arg(script).arg(messages.to_string())));
    }

    /// Messages that wait in a queue, by the server's own count.
    async fn depth(&self, queue: &str) -> u64 {
        let look = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
        let queue = self.channel.queue_declare(queue.into(), look, FieldTable::default()).await;
        queue.expect("the queue is there").message_count().into()
    }

    async fn purge(&self, queue: &str) {
        self.channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await.expect("purge");
    }
}
