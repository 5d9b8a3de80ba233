//! W6: consuming from RabbitMQ, beside the bare loop, dramatiq (2 processes of 8 threads), Celery (2 processes,
//! acknowledging late), FastStream (a window of 500) and Watermill (16 handlers). All are given as many retries as we take,
//! but for FastStream, which has none; dead letters of dramatiq and Celery go to queues of theirs.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use dlo_testkit::harness::rabbitmq::Rabbitmq;
use lapin::options::{QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ConnectionProperties};

use crate::child::{self, Done};
use crate::peer::Depths;
use crate::runner::{self, Round, Runner};
use crate::{Asked, go, interpreter, order, peer};

const QUEUE: &str = "orders";
const GROUP: &str = "bench";
const DEAD: &str = "orders.dlq";
/// FastStream refuses what it cannot handle: its queue says where that goes.
const REFUSING: &str = "orders.refusing";
/// How long the broker may take to move what was refused.
const MOVED: Duration = Duration::from_secs(5);

pub(crate) async fn run(asked: &Asked<'_>) {
    println!("W6 consuming from RabbitMQ, {} messages, {} rounds", asked.messages, asked.rounds);
    let server = Rabbitmq::own().await;
    let watermill = if asked.against.is_some() { None } else { go::program("watermill") };
    let bench = Bench::new(server.url(), watermill).await;
    if let Some(against) = asked.against {
        let percent = asked.poison.first().copied().unwrap_or(0);
        let once = async |program: &Path| {
            Round::from(&bench.own_with(program, &["ours", &bench.section], asked.messages, percent).await)
        };
        return against.compare("consuming from RabbitMQ", "message", once).await;
    }
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

pub(crate) struct Bench {
    url: String,
    section: String,
    channel: Channel,
    /// Its program, where it could be built.
    watermill: Option<PathBuf>,
}

impl Bench {
    pub(crate) async fn new(url: String, watermill: Option<PathBuf>) -> Self {
        let connection = Connection::connect(&url, ConnectionProperties::default()).await.expect("connect");
        let channel = connection.create_channel().await.expect("a channel");
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        for queue in [QUEUE, DEAD] {
            channel.queue_declare(queue.into(), durable, FieldTable::default()).await.expect("declare");
        }
        let mut refusing = FieldTable::default();
        for (name, value) in [("x-dead-letter-exchange", ""), ("x-dead-letter-routing-key", DEAD)] {
            refusing.insert(name.into(), AMQPValue::LongString(value.into()));
        }
        channel.queue_declare(REFUSING.into(), durable, refusing).await.expect("declare");
        let section = format!("kind = \"rabbitmq\"\nurl = \"{url}\"");
        Self { url, section, channel, watermill }
    }

    async fn rounds(&self, asked: &Asked<'_>, percent: u64) -> Runner {
        println!(" {percent} % poison");
        let mut ours = Runner::new("ours");
        let mut bare = Runner::new("bare loop");
        let mut dramatiq = Runner::new("dramatiq");
        let mut celery = Runner::new("Celery");
        let mut faststream = Runner::new("FastStream");
        let mut watermill = Runner::new("Watermill");
        // A share of the messages: they take as long, and longer with poison.
        let slow = if percent > 0 { 4 } else { 1 };
        let few = |share: u64| (asked.messages / (share * slow)).max(1_000);
        for round in 0..=asked.rounds {
            let done = [
                self.own(&["ours", &self.section], asked.messages, percent).await,
                self.own(&["rabbitmq", &self.url], asked.messages, percent).await,
                self.dramatiq(few(5), percent).await,
                self.celery(few(10), percent).await,
                self.faststream(few(5), percent).await,
            ];
            let in_go = self.watermill(few(2), percent).await;
            // The first round warms everything up and does not count.
            if round > 0 {
                let runners = [&mut ours, &mut bare, &mut dramatiq, &mut celery, &mut faststream];
                runners.into_iter().zip(&done).for_each(|(runner, done)| runner.did(done));
                in_go.iter().for_each(|done| watermill.did(done));
            }
        }
        let mut peers = vec![
            (&bare, "runtime.rabbitmq.bare"),
            (&dramatiq, "runtime.rabbitmq.dramatiq"),
            (&celery, "runtime.rabbitmq.celery"),
            (&faststream, "runtime.rabbitmq.faststream"),
        ];
        if self.watermill.is_some() {
            peers.push((&watermill, "runtime.rabbitmq.watermill"));
        }
        let contest = format!("RabbitMQ, {percent} % poison");
        runner::show("W6", &contest, &[&ours]);
        for (peer, _) in &peers {
            runner::show("W6", &contest, &[peer]);
        }
        for (peer, figure) in peers {
            match percent {
                0 => ours.against(peer, figure),
                _ => ours.beside(peer),
            }
        }
        ours
    }

    /// A runner of this program, ours or bare, on a queue filled for it.
    async fn own(&self, role: &[&str], messages: u64, percent: u64) -> Done {
        self.own_with(&child::this_program(), role, messages, percent).await
    }

    /// The same by another build of this program.
    async fn own_with(&self, program: &Path, role: &[&str], messages: u64, percent: u64) -> Done {
        let healthy = order::healthy(percent);
        let count = (messages + healthy).to_string();
        let words = [role, &[QUEUE, GROUP, &count]].concat();
        let broker = order::broker(&self.section).await;
        order::fill(&broker, QUEUE, messages, percent).await;
        order::fill(&broker, QUEUE, healthy, 0).await;
        let poison = order::poisoned(messages, percent);
        self.emptied(role[0], QUEUE, || child::run_with(program, &words), messages + healthy, poison).await
    }

    /// Ours without a budget of retries.
    pub(crate) async fn boundless(&self, messages: u64, percent: u64) -> Done {
        self.own(&["boundless", &self.section], messages, percent).await
    }

    async fn watermill(&self, messages: u64, percent: u64) -> Option<Done> {
        let mut worker = Command::new(self.watermill.as_ref()?);
        worker.args([&self.url, QUEUE, DEAD, &messages.to_string()]);
        Some(self.one("Watermill", QUEUE, || child::read(&mut worker), messages, percent).await)
    }

    async fn faststream(&self, messages: u64, percent: u64) -> Done {
        let mut worker = self.python(percent);
        worker.args(["faststream_work.py", &self.url, REFUSING, &messages.to_string()]);
        self.one("FastStream", REFUSING, || child::read(&mut worker), messages, percent).await
    }

    /// Fills a queue and has it worked off.
    async fn one(
        &self,
        who: &str,
        queue: &str,
        work: impl FnOnce() -> Done,
        messages: u64,
        percent: u64,
    ) -> Done {
        let broker = order::broker(&self.section).await;
        order::fill(&broker, queue, messages, percent).await;
        self.emptied(who, queue, work, messages, order::poisoned(messages, percent)).await
    }

    /// Has a filled queue worked off and counts what is where.
    async fn emptied(
        &self,
        who: &str,
        queue: &str,
        work: impl FnOnce() -> Done,
        messages: u64,
        poison: u64,
    ) -> Done {
        let done = tokio::task::block_in_place(work);
        done.check(who, messages, poison);
        assert_eq!(self.depth(queue).await, 0, "{who} left messages");
        let ended = Instant::now();
        while self.depth(DEAD).await < poison && ended.elapsed() < MOVED {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert_eq!(self.depth(DEAD).await, poison, "{who} parked another number");
        self.purge(DEAD).await;
        done
    }

    async fn dramatiq(&self, messages: u64, percent: u64) -> Done {
        let words = ["-m", "dramatiq", "dramatiq_work", "-p", "2", "-t", "8", "--skip-logging"];
        let look = async || -> Depths {
            let (left, later) = (self.depth("dramatiq").await, self.depth("dramatiq.DQ").await);
            (left + later, self.depth("dramatiq.XQ").await)
        };
        let work = ("dramatiq_work.py", &words[..], &["dramatiq", "dramatiq.DQ", "dramatiq.XQ"][..]);
        self.watched(work, messages, percent, look).await
    }

    async fn celery(&self, messages: u64, percent: u64) -> Done {
        let words =
            ["-m", "celery", "-A", "celery_work", "worker", "-c", "2", "-l", "CRITICAL", "-Q", "celery"];
        let calm = ["--without-gossip", "--without-mingle", "--without-heartbeat"];
        let look = async || -> Depths { (self.depth("celery").await, self.depth("celery.dlq").await) };
        let work = ("celery_work.py", &[&words[..], &calm].concat()[..], &["celery", "celery.dlq"][..]);
        self.watched(work, messages, percent, look).await
    }

    /// A worker whose end is seen from outside: the script that fills its queue, its words, and its queues.
    async fn watched(
        &self,
        (script, words, queues): (&str, &[&str], &[&str]),
        messages: u64,
        percent: u64,
        mut look: impl AsyncFnMut() -> Depths,
    ) -> Done {
        peer::round(async || {
            self.fill(script, messages, percent);
            let mut worker = self.python(percent);
            worker.args(words);
            let done = peer::run(&mut worker, messages, order::poisoned(messages, percent), &mut look).await;
            for queue in queues {
                self.purge(queue).await;
            }
            done
        })
        .await
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
        tokio::task::block_in_place(|| child::must(command.arg(script).arg(messages.to_string())));
    }

    /// Messages that wait in a queue, by the server's own count.
    async fn depth(&self, queue: &str) -> u64 {
        look(&self.channel, queue).await.message_count().into()
    }

    async fn purge(&self, queue: &str) {
        self.channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await.expect("purge");
    }
}

/// What the server says of a queue.
pub(crate) async fn look(channel: &Channel, queue: &str) -> lapin::Queue {
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    channel.queue_declare(queue.into(), passive, FieldTable::default()).await.expect("the queue is there")
}
