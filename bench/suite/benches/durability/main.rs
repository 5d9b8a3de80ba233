//! `durability` (W12): whoever works is killed in the middle, started again, and everything is counted.
//!
//! `durability [--messages N] [--letters N] [--rounds N] [--seed N]`. The office is killed while it captures from RabbitMQ
//! and while it replays, a consumer while it consumes; every message has a number, so that what is lost and what is there
//! twice is counted, not guessed. Then an office with many letters, a bare SQLite file and PostgreSQL are killed in turns
//! while rows come, and started until they answer. When a kill comes is random, and the same again for the same seed. Not
//! a test: `./test faults` and `./test chaos` are.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark stops where a step fails, and prints"
)]

use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

#[path = "../ground/bare.rs"]
mod bare;
mod capture;
mod consume;
#[expect(dead_code, reason = "other workloads measure how fast a replay is")]
#[path = "../redrive/done.rs"]
mod done;
#[expect(dead_code, reason = "other workloads hand the same letters to a store")]
#[path = "../ground/letters.rs"]
mod letters;
#[path = "../capture/message.rs"]
mod message;
mod moment;
#[path = "../ground/office.rs"]
mod office;
#[expect(dead_code, reason = "other workloads have other shares of poison")]
#[path = "../runtime/order.rs"]
mod order;
#[expect(dead_code, reason = "other workloads count what a log ever had")]
#[path = "../redrive/place.rs"]
mod place;
mod postgres;
mod queue;
mod redrive;
mod restart;
#[path = "../ground/sending.rs"]
mod sending;
#[path = "../growth/serving.rs"]
mod serving;
#[path = "../runtime/settings.rs"]
mod settings;
#[expect(dead_code, reason = "other workloads change the pace of a replay")]
#[path = "../redrive/office.rs"]
mod shop;
mod sqlite;
#[expect(dead_code, reason = "other workloads ask it questions")]
#[path = "../search/peer.rs"]
mod table;

use dlo_bench::{measure, numbered, record, runner, usage};
use dlo_testkit::harness::rabbitmq::Rabbitmq;
use dlo_testkit::harness::redis::Redis;
use moment::Moments;
use place::Place;

/// What the command line asks for.
#[derive(Debug, Clone, Copy)]
struct Asked<'a> {
    /// Messages of a round in the middle of which somebody is killed.
    messages: u64,
    /// Letters that are there when restarts are measured.
    letters: u64,
    rounds: u64,
    scratch: &'a Path,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        [consume::ROLE, section, state, notes] => {
            return runtime.block_on(consume::work(section, Path::new(state), Path::new(notes)));
        }
        [sqlite::WRITE, database, first] => return sqlite::write(Path::new(database), first),
        [sqlite::ANSWER, database] => return sqlite::answer(Path::new(database)),
        _ => {}
    }
    let flag = |name: &str, default: u64| {
        let at = words.iter().position(|argument| *argument == name);
        at.and_then(|at| words.get(at + 1)).and_then(|text| text.parse().ok()).unwrap_or(default)
    };
    let scratch = scratch();
    let asked = Asked {
        messages: flag("--messages", 20_000).max(2_000),
        letters: flag("--letters", 200_000).max(1_000),
        rounds: flag("--rounds", 5).max(1),
        scratch: &scratch,
    };
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seed = flag("--seed", now);
    println!("W12 durability: kills at random moments; `--seed {seed}` has the same again");
    runtime.block_on(all(asked, &mut Moments::new(seed)));
    let _ = std::fs::remove_dir_all(&scratch);
}

async fn all(asked: Asked<'_>, moments: &mut Moments) {
    let mut lost = record::Parts::new("durability.lost", "messages");
    let rabbitmq = Rabbitmq::shared().await.url();
    let far = Place::new(format!("kind = \"rabbitmq\"\nurl = \"{rabbitmq}\"")).await;
    let captured = capture::run(asked, &far, &rabbitmq, moments).await;
    let consumed = consume::run(asked, &far, moments).await;
    // On disk once a second, as Redis is by default with its log on.
    let redis = Redis::with(&["--appendfsync", "everysec"]).await;
    let near = Place::new(format!("kind = \"redis\"\nurl = \"{}\"", redis.url)).await;
    let replayed = redrive::run(asked, [("RabbitMQ", &far), ("Redis", &near)], moments).await;
    println!("W12 lost in all kills");
    lost.part("the office, capturing from RabbitMQ", captured as f64);
    lost.part("the office, replaying to RabbitMQ and Redis", replayed as f64);
    lost.part("a consumer of RabbitMQ", consumed as f64);
    lost.worst();
    restart::run(asked, moments).await;
}

/// A directory for this run; `DLO_BENCH_DIR` chooses the disk.
fn scratch() -> PathBuf {
    let base = std::env::var_os("DLO_BENCH_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
    let scratch = base.join(format!("dlo-durability-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&scratch);
    std::fs::create_dir_all(&scratch).expect("a directory for the run");
    scratch
}
