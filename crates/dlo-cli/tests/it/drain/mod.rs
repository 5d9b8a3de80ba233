//! Drains are interrupted: the office is killed, the broker goes and comes back. Nothing is lost, nothing is there twice.
//!
//! Every round fills a real dead-letter queue with numbered letters, waits until the office is in the middle of taking
//! them, and strikes. `DLO_DRAIN_ROUNDS` says how often (2 by default); the bar of the project is 20 each.

mod brokers;
mod postgres;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dlo_core::broker::{Broker, Destination, Outgoing};
use dlo_core::message::{Message, Payload};
use rand::RngExt;

use crate::office::{Office, dlo};

/// Letters of one round.
const LETTERS: u64 = 6_000;
/// An office that is told to stop has stopped by then, on a machine that is busy: its grace period is half of it.
const STOPPED: Duration = Duration::from_secs(20);
const PATIENCE: Duration = Duration::from_secs(120);

fn rounds() -> u64 {
    std::env::var("DLO_DRAIN_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(2)
}

/// A real broker that the test may stop.
#[async_trait]
trait Far: Send + Sync {
    /// The keys of its `[brokers.far]` section.
    fn section(&self) -> String;

    /// Queue and dead-letter queue, both there.
    fn queues(&self) -> (String, String);

    async fn stop(&self);

    async fn start(&self);
}

/// What is struck in the middle of a drain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Strike {
    /// SIGKILL to the office, then a new one on the same data.
    Office,
    /// The broker stops, and starts again.
    Broker,
}

/// An office on one data directory, over several lives.
struct Life {
    directory: tempfile::TempDir,
    config: PathBuf,
    office: Office,
}

impl Life {
    fn begin(far: &dyn Far, storage: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("dlo.toml");
        let (queue, dlq) = far.queues();
        let text = format!(
            "[server]\n{storage}\n[brokers.far]\n{}\n[[sources]]\nname = \"orders\"\nbroker = \"far\"\nqueue = \"{queue}\"\ndlq = \"{dlq}\"\n",
            far.section()
        );
        std::fs::write(&config, text).unwrap();
        let office = start(&config, directory.path());
        Self { directory, config, office }
    }

    fn kill_and_begin_again(self) -> Self {
        let Self { directory, config, office } = self;
        office.kill();
        let office = start(&config, directory.path());
        Self { directory, config, office }
    }

    fn total(&self) -> u64 {
        self.office.get("/api/v1/stats")["letters"]["total"].as_u64().unwrap_or(0)
    }

    /// Waits until at least `wanted` letters are stored.
    async fn until(&self, wanted: u64) {
        let (mut deadline, mut seen) = (Instant::now() + PATIENCE, 0);
        loop {
            let total = self.total();
            if total >= wanted {
                return;
            }
            if total > seen {
                (deadline, seen) = (Instant::now() + PATIENCE, total);
            }
            assert!(
                Instant::now() < deadline,
                "{total} of {wanted} letters came; {}",
                self.office.get("/api/v1/sources")
            );
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

fn start(config: &Path, directory: &Path) -> Office {
    let data = directory.join("data");
    let mut command = dlo();
    command.arg("--config").arg(config).args(["serve", "--listen", "127.0.0.1:0", "--log-level", "warn"]);
    command.current_dir(directory);
    Office::spawn(command, &data)
}

/// Publishes letters `first` to `first + LETTERS`, and demands that each is confirmed.
async fn fill(broker: &Arc<dyn Broker>, dlq: &str, first: u64) {
    let mut left: Vec<u64> = (first..first + LETTERS).collect();
    for batch in left.chunks_mut(500) {
        let outgoing = batch.iter().map(|n| Outgoing {
            to: Destination::queue(dlq),
            message: Message {
                key: Some(Payload::from(format!("n-{n}"))),
                payload: Payload::from(format!("{{\"n\":{n}}}")),
                ..Message::default()
            },
            delay: None,
        });
        for result in broker.publisher().publish(outgoing.collect()).await {
            result.expect("a letter is confirmed");
        }
    }
}

/// Every letter by its number.
fn kept(office: &Office) -> BTreeMap<String, u64> {
    let mut kept = BTreeMap::new();
    let mut cursor: Vec<String> = Vec::new();
    loop {
        let mut args = vec!["letters", "list", "--json", "--limit", "50000"];
        args.extend(cursor.iter().map(String::as_str));
        let listed = office.dlo(&args).json();
        for letter in listed["letters"].as_array().unwrap() {
            *kept.entry(letter["key"].as_str().unwrap_or("no key").to_owned()).or_default() += 1;
        }
        let Some(next) = listed["next_cursor"].as_str() else { return kept };
        cursor = vec!["--cursor".to_owned(), next.to_owned()];
    }
}

/// The whole story: rounds of filling, striking and counting.
async fn endure(far: &dyn Far, storage: &str, strike: Strike, rounds: u64) {
    let (_, dlq) = far.queues();
    let mut life = Life::begin(far, storage);
    for round in 0..rounds {
        let before = round * LETTERS;
        // A new connection each time: a publish over one that the last strike broke is not confirmed, and sent again
        // it would be there twice.
        fill(&brokers::broker(&far.section()).await, &dlq, before).await;
        // Somewhere in the middle.
        life.until(before + rand::rng().random_range(1..LETTERS / 2)).await;
        match strike {
            Strike::Office => life = life.kill_and_begin_again(),
            Strike::Broker => {
                far.stop().await;
                far.start().await;
            }
        }
        life.until(before + LETTERS).await;
    }
    let expected = rounds * LETTERS;
    let kept = kept(&life.office);
    let twice: Vec<_> = kept.iter().filter(|(_, count)| **count > 1).take(5).collect();
    assert!(twice.is_empty(), "letters that are there more than once: {twice:?}");
    assert_eq!(kept.len() as u64, expected, "letters are lost");
    life.office.dlo(&["audit", "verify"]).ok();
    if strike == Strike::Broker {
        far.stop().await;
        stops_in_time(life);
    }
}

/// An office whose broker is away stops as soon as one whose broker is there.
fn stops_in_time(life: Life) {
    let told = Instant::now();
    life.office.signal("-TERM");
    let (status, log) = life.office.ended();
    assert!(status.success(), "{log}");
    assert!(told.elapsed() < STOPPED, "it took {:?} to stop without its broker: {log}", told.elapsed());
}
