//! The wall clock is set by an hour, forward or back, in the middle of the work of an office; then the office is killed as well.
//! Replay, outcomes, capture, leases and takeover go on within seconds.
//!
//! `DLO_CLOCK_ROUNDS` says how often (1 by default).

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::{Broker, Destination, Outgoing};
use dlo_core::message::{Message, Payload};
use dlo_testkit::harness::postgres::{Database, Postgres};
use dlo_testkit::harness::wall_clock::WallClock;
use serde_json::Value;

use crate::office::{Office, dlo};
use crate::stories::{Line, redis};

const HOUR: i64 = 3_600;
/// Work goes on within this.
const GOES_ON: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(60);
/// Letters of a replay, those of its canary, how many of them a second, and the window of their outcome.
const LETTERS: u64 = 300;
const CANARY: u64 = 20;
const RATE: u64 = 60;
const WINDOW: Duration = Duration::from_secs(3);

fn rounds() -> u64 {
    std::env::var("DLO_CLOCK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// Offices on one store, and the clock that they are given.
struct Depot {
    line: Line,
    clock: WallClock,
    directory: tempfile::TempDir,
    captured: u64,
}

impl Depot {
    async fn open(name: &str, server: &str) -> Self {
        let line = Line::open(redis().await, name, None).await;
        let (directory, clock) = (tempfile::tempdir().unwrap(), WallClock::new());
        let text = format!(
            "[server]\n{server}\n[brokers.shop]\n{}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{}\"\ndlq = \"{}\"\nreplay = {{ pace = {{ rate = {RATE} }}, window = \"{}s\", ramp = 1, canary = {CANARY}, guards = {{ refill = false }} }}\n",
            line.section,
            line.queue,
            line.dlq,
            WINDOW.as_secs(),
        );
        std::fs::write(directory.path().join("dlo.toml"), text).unwrap();
        Self { line, clock, directory, captured: 0 }
    }

    fn start(&self) -> Office {
        let mut command = dlo();
        command.args(["--config", "dlo.toml", "serve", "--listen", "127.0.0.1:0", "--log-level", "warn"]);
        self.clock.give_to(command.current_dir(self.directory.path()));
        Office::spawn(command, self.directory.path())
    }

    /// Publishes dead letters, and waits until the office has captured them; how long that took.
    async fn capture(&mut self, office: &Office, count: u64) -> Duration {
        publish(&self.line.broker, &self.line.dlq, self.captured..self.captured + count).await;
        self.captured += count;
        let all = self.captured;
        until("captured", PATIENCE, || total(office) >= all).await
    }

    /// A replay that has begun.
    async fn replay(&mut self, office: &Office) -> Replay {
        self.capture(office, LETTERS).await;
        let plan = office.dlo(&["replay", "plan", "source:orders status:open", "--json"]).json();
        let replay = Replay { path: format!("/api/v1/replays/{}", plan["id"].as_str().unwrap()) };
        office.dlo(&["replay", "start", plan["id"].as_str().unwrap(), "--yes"]).ok();
        replay
    }

    /// What has to go on after something happened: capture, and a replay to its end.
    async fn goes_on(&mut self, what: &str, office: &Office, replay: &Replay) {
        let sent = replay.number(office, "sent");
        let sends = until("it sends", GOES_ON, || replay.number(office, "sent") > sent).await;
        let captures = self.capture(office, 10).await;
        let total = replay.number(office, "total");
        until("everything is sent", PATIENCE, || replay.number(office, "sent") == total).await;
        let ends = until("it is completed", GOES_ON, || replay.get(office)["state"] == "completed").await;
        println!(
            "{what}: sends after {sends:.1?}, captures after {captures:.1?}, ends {ends:.1?} after its last send"
        );
        assert!(captures < GOES_ON, "{captures:?}");
    }
}

struct Replay {
    path: String,
}

impl Replay {
    fn get(&self, office: &Office) -> Value {
        office.get(&self.path)
    }

    fn number(&self, office: &Office, key: &str) -> u64 {
        self.get(office)[key].as_u64().unwrap_or(0)
    }
}

async fn publish(broker: &Arc<dyn Broker>, dlq: &str, numbers: std::ops::Range<u64>) {
    let message = |n| Message { payload: Payload::from(format!("{{\"order\":{n}}}")), ..Message::default() };
    let one = |n| Outgoing { to: Destination::queue(dlq), message: message(n), delay: None };
    for result in broker.publisher().publish(numbers.map(one).collect()).await {
        result.unwrap();
    }
}

fn total(office: &Office) -> u64 {
    office.get("/api/v1/stats")["letters"]["total"].as_u64().unwrap_or(0)
}

async fn until(what: &str, within: Duration, fact: impl Fn() -> bool) -> Duration {
    let begun = Instant::now();
    while !fact() {
        assert!(begun.elapsed() < within, "not within {within:?}: {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    begun.elapsed()
}

/// The clock jumps while an office works, in its canary and in the middle; then it jumps and the office is killed.
async fn jump(name: &str, server: &str, ahead: i64) {
    let mut depot = Depot::open(name, server).await;
    let mut office = depot.start();
    for round in 0..rounds() {
        depot.clock.set_ahead(0);
        let replay = depot.replay(&office).await;
        until("the canary is sent", PATIENCE, || replay.number(&office, "sent") >= CANARY).await;
        depot.clock.set_ahead(ahead);
        let waited = until("the rest is sent", GOES_ON, || replay.number(&office, "sent") > CANARY).await;
        assert!(waited + Duration::from_secs(1) > WINDOW, "the canary was judged after {waited:?}");
        depot.goes_on(&format!("{name}, round {round}, clock set in the canary"), &office, &replay).await;

        depot.clock.set_ahead(0);
        let replay = depot.replay(&office).await;
        until("it sends", PATIENCE, || replay.number(&office, "sent") > CANARY + 50).await;
        depot.clock.set_ahead(ahead);
        depot.goes_on(&format!("{name}, round {round}, clock set in the middle"), &office, &replay).await;

        depot.clock.set_ahead(0);
        let replay = depot.replay(&office).await;
        until("it sends", PATIENCE, || replay.number(&office, "sent") > CANARY + 50).await;
        depot.clock.set_ahead(ahead);
        office.kill();
        office = depot.start();
        depot.goes_on(&format!("{name}, round {round}, clock set and killed"), &office, &replay).await;

        // The clock is right again, and the office is killed a second time.
        let replay = depot.replay(&office).await;
        until("it sends", PATIENCE, || replay.number(&office, "sent") > CANARY + 50).await;
        depot.clock.set_ahead(0);
        office.kill();
        office = depot.start();
        depot
            .goes_on(&format!("{name}, round {round}, clock right again and killed"), &office, &replay)
            .await;
    }
    office.dlo(&["audit", "verify"]).ok();
}

/// Of two offices the one that works is killed; the clock of the other one has jumped.
async fn take_over(name: &str, database: &Database, ahead: i64) {
    let mut depot = Depot::open(name, &format!("database = \"{}\"", database.url)).await;
    let first = depot.start();
    let replay = depot.replay(&first).await;
    until("it sends", PATIENCE, || replay.number(&first, "sent") > CANARY + 50).await;
    let second = depot.start();
    depot.clock.set_ahead(ahead);
    first.kill();
    depot.goes_on(&format!("{name}, taken over"), &second, &replay).await;
}

macro_rules! jumps {
    ($direction:ident, $ahead:expr) => {
        mod $direction {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn work_goes_on_with_sqlite() {
                jump(concat!("sqlite-", stringify!($direction)), "", $ahead).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn work_goes_on_with_postgresql() {
                let database = Postgres::shared().await.database().await;
                let server = format!("database = \"{}\"", database.url);
                jump(concat!("postgresql-", stringify!($direction)), &server, $ahead).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn another_office_takes_over() {
                let database = Postgres::shared().await.database().await;
                take_over(concat!("over-", stringify!($direction)), &database, $ahead).await;
            }
        }
    };
}

jumps!(forward, HOUR);
jumps!(back, -HOUR);
