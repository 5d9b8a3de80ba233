//! W7: consuming a Redis stream, beside the bare loop, BullMQ and Asynq (100 at once), dramatiq (2 processes of 8 threads),
//! taskiq and Sidekiq (10 threads), each on the same server with its own way to keep jobs. Sidekiq takes a job off the server before
//! it works on it: what it holds when it dies is lost. Its retries wait for a poll each, so it is compared without poison only.

use std::path::{Path, PathBuf};
use std::process::Command;

use dlo_core::broker::TopologySpec;
use dlo_testkit::harness::redis::Redis;

use crate::child::{self, Done};
use crate::peer::Depths;
use crate::redis_bare::connect;
use crate::runner::{self, Round, Runner};
use crate::{Asked, go, interpreter, node, order, peer};

const STREAM: &str = "orders";
const GROUP: &str = "bench";
const DEAD: &str = "orders.dlq";
/// Sidekiq's list of jobs.
const JOBS: &str = "queue:sidekiq";

pub(crate) async fn run(asked: &Asked<'_>) {
    println!("W7 consuming from Redis, {} messages, {} rounds", asked.messages, asked.rounds);
    // On disk once a second, as Redis is by default with its log on.
    let server = Redis::with(&["--appendfsync", "everysec"]).await;
    let section = format!("kind = \"redis\"\nurl = \"{}\"", server.url);
    if let Some(against) = asked.against {
        let (sidekiq, asynq, taskiq) = (false, None, false);
        let bench = Bench { url: server.url.clone(), section, sidekiq, asynq, taskiq };
        let percent = asked.poison.first().copied().unwrap_or(0);
        let once = async |program: &Path| {
            Round::from(&bench.own_with(program, &["ours", &bench.section], asked.messages, percent).await)
        };
        return against.compare("consuming from Redis", "message", once).await;
    }
    let (sidekiq, asynq) = (sidekiq_is_there(), go::program("asynq"));
    let taskiq = interpreter::has("taskiq_redis");
    let bench = Bench { url: server.url.clone(), section, sidekiq, asynq, taskiq };
    let mut without: Option<Runner> = None;
    for &percent in &asked.poison {
        let ours = bench.rounds(asked, percent).await;
        if let Some(without) = &without {
            println!("  at {percent} % to none: {:.2}", ours.rate() / without.rate());
        }
        if percent == 0 {
            without = Some(ours);
        }
    }
}

pub(crate) struct Bench {
    url: String,
    section: String,
    sidekiq: bool,
    /// Its program, where it could be built.
    asynq: Option<PathBuf>,
    taskiq: bool,
}

fn sidekiq_is_there() -> bool {
    let there = Command::new("sidekiq").arg("--version").output().is_ok_and(|output| output.status.success());
    if !there {
        println!("  SKIPPED: Sidekiq was not found in PATH (Debian: apt-get install ruby-sidekiq)");
    }
    there
}

impl Bench {
    async fn rounds(&self, asked: &Asked<'_>, percent: u64) -> Runner {
        println!(" {percent} % poison");
        let mut ours = Runner::new("ours");
        let mut bare = Runner::new("bare loop");
        let mut bullmq = Runner::new("BullMQ");
        let mut dramatiq = Runner::new("dramatiq");
        let mut sidekiq = Runner::new("Sidekiq");
        let mut asynq = Runner::new("Asynq");
        let mut taskiq = Runner::new("taskiq");
        let with_sidekiq = self.sidekiq && percent == 0;
        // A share of the messages: they take as long, and dramatiq longer with poison.
        let few = (asked.messages / 5).max(1_000);
        let fewest = (asked.messages / if percent > 0 { 25 } else { 10 }).max(1_000);
        let tasks = (asked.messages / 25).max(1_000);
        for round in 0..=asked.rounds {
            let own = self.own(&["ours", &self.section], asked.messages, percent).await;
            let least = self.own(&["redis", &self.url], asked.messages, percent).await;
            let node = self.bullmq(few, percent).await;
            let python = self.dramatiq(fewest, percent).await;
            let ruby = if with_sidekiq { Some(self.sidekiq(few).await) } else { None };
            let in_go = self.asynq(few, percent).await;
            let streamed = if self.taskiq { Some(self.taskiq(tasks, percent).await) } else { None };
            // The first round warms everything up and does not count.
            if round > 0 {
                ours.did(&own);
                bare.did(&least);
                bullmq.did(&node);
                dramatiq.did(&python);
                ruby.iter().for_each(|done| sidekiq.did(done));
                in_go.iter().for_each(|done| asynq.did(done));
                streamed.iter().for_each(|done| taskiq.did(done));
            }
        }
        let contest = format!("Redis, {percent} % poison");
        runner::show("W7", &contest, &[&ours, &bare, &bullmq, &dramatiq]);
        if percent == 0 {
            ours.against(&bare, "runtime.redis.bare");
            ours.against(&bullmq, "runtime.redis.bullmq");
            ours.against(&dramatiq, "runtime.redis.dramatiq");
        } else {
            for other in [&bare, &bullmq, &dramatiq] {
                ours.beside(other);
            }
        }
        if with_sidekiq {
            runner::show("W7", &contest, &[&sidekiq]);
            ours.against(&sidekiq, "runtime.redis.sidekiq");
        }
        for (there, other, figure) in [
            (self.asynq.is_some(), &asynq, "runtime.redis.asynq"),
            (self.taskiq, &taskiq, "runtime.redis.taskiq"),
        ] {
            if there {
                runner::show("W7", &contest, &[other]);
                match percent {
                    0 => ours.against(other, figure),
                    _ => ours.beside(other),
                }
            }
        }
        ours
    }

    pub(crate) async fn flush(&self) -> redis::aio::MultiplexedConnection {
        let mut connection = connect(&self.url).await;
        let _: () = redis::cmd("FLUSHALL").query_async(&mut connection).await.expect("empty the server");
        connection
    }

    /// A runner of this program, ours or bare, on a stream filled for it.
    async fn own(&self, role: &[&str], messages: u64, percent: u64) -> Done {
        self.own_with(&child::this_program(), role, messages, percent).await
    }

    /// The same by another build of this program.
    async fn own_with(&self, program: &Path, role: &[&str], messages: u64, percent: u64) -> Done {
        let poison = order::poisoned(messages, percent);
        let mut connection = self.flush().await;
        let broker = order::broker(&self.section).await;
        let spec = TopologySpec::new(STREAM, DEAD, 5);
        broker.topology().apply(&spec).await.expect("make the streams");
        order::fill(&broker, STREAM, messages, percent).await;
        let healthy = order::healthy(percent);
        order::fill(&broker, STREAM, healthy, 0).await;
        let messages = messages + healthy;
        let count = messages.to_string();
        let words = [role, &[STREAM, GROUP, &count]].concat();
        let done = tokio::task::block_in_place(|| child::run_with(program, &words));
        done.check(role[0], messages, poison);
        let pending: (u64, redis::Value, redis::Value, redis::Value) = redis::cmd("XPENDING")
            .arg(STREAM)
            .arg(GROUP)
            .query_async(&mut connection)
            .await
            .expect("what is pending");
        assert_eq!(pending.0, 0, "{} left messages", role[0]);
        let dead: u64 = redis::cmd("XLEN").arg(DEAD).query_async(&mut connection).await.expect("a length");
        assert_eq!(dead, poison, "{} parked another number", role[0]);
        done
    }

    async fn bullmq(&self, messages: u64, percent: u64) -> Done {
        self.flush().await;
        let every = order::every(percent).unwrap_or(0);
        let mut worker = node::script("bullmq.js");
        worker.args([&self.url, &messages.to_string(), &every.to_string()]);
        let done = tokio::task::block_in_place(|| child::read(&mut worker));
        done.check("BullMQ", messages, order::poisoned(messages, percent));
        done
    }

    pub(crate) fn python(&self, percent: u64) -> Command {
        let mut command = Command::new(interpreter::python());
        command
            .current_dir(interpreter::root().join("bench/peers"))
            .env("REDIS_URL", &self.url)
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .env("POISON_EVERY", order::every(percent).unwrap_or(0).to_string());
        command
    }

    async fn dramatiq(&self, messages: u64, percent: u64) -> Done {
        peer::round(async || self.dramatiq_once(messages, percent).await).await
    }

    async fn dramatiq_once(&self, messages: u64, percent: u64) -> Result<Done, String> {
        let mut connection = self.flush().await;
        let (mut fill, mut worker) = (self.python(percent), self.python(percent));
        fill.arg("dramatiq_work.py").arg(messages.to_string());
        tokio::task::block_in_place(|| child::must(&mut fill));
        worker.args(["-m", "dramatiq", "dramatiq_work", "-p", "2", "-t", "8", "--skip-logging"]);
        // A job stays in the first two until it is acknowledged.
        let look = async || -> Depths {
            let mut together = redis::pipe();
            together.cmd("HLEN").arg("dramatiq:dramatiq.msgs").cmd("HLEN").arg("dramatiq:dramatiq.DQ.msgs");
            together.cmd("ZCARD").arg("dramatiq:dramatiq.XQ");
            let (left, later, dead): (u64, u64, u64) =
                together.query_async(&mut connection).await.expect("the lengths");
            (left + later, dead)
        };
        peer::run(&mut worker, messages, order::poisoned(messages, percent), look).await
    }

    async fn asynq(&self, messages: u64, percent: u64) -> Option<Done> {
        let mut worker = Command::new(self.asynq.as_ref()?);
        self.flush().await;
        let every = order::every(percent).unwrap_or(0);
        worker.args([&self.url, &messages.to_string(), &every.to_string()]);
        let done = tokio::task::block_in_place(|| child::read(&mut worker));
        done.check("Asynq", messages, order::poisoned(messages, percent));
        Some(done)
    }

    async fn sidekiq(&self, messages: u64) -> Done {
        peer::round(async || self.sidekiq_once(messages).await).await
    }

    async fn sidekiq_once(&self, messages: u64) -> Result<Done, String> {
        let connection = self.flush().await;
        let script = interpreter::root().join("bench/peers/sidekiq_work.rb");
        let mut fill = Command::new("ruby");
        fill.arg(&script).arg(messages.to_string()).env("REDIS_URL", &self.url);
        tokio::task::block_in_place(|| child::must(&mut fill));
        let mut worker = Command::new("sidekiq");
        worker.arg("-r").arg(&script).args(["-q", "sidekiq", "-c", "10", "-e", "production"]);
        worker.env("REDIS_URL", &self.url);
        let look = async || -> Depths {
            let mut connection = connection.clone();
            let left = redis::cmd("LLEN").arg(JOBS).query_async(&mut connection).await;
            (left.expect("a length"), 0)
        };
        peer::run(&mut worker, messages, 0, look).await
    }
}
