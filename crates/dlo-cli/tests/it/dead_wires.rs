//! Connections to PostgreSQL go silent: they stay open and swallow bytes. Every call of the office is answered within its
//! deadline, and when new connections work again, so does everything: calls, capture, replay.
//!
//! `DLO_DEAD_WIRE_ROUNDS` says how often (1 by default).

use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::{Broker, Destination, Outgoing};
use dlo_core::message::{Message, Payload};
use dlo_testkit::harness::postgres::{Database, Postgres};
use dlo_testkit::harness::proxy::Proxy;
use serde_json::{Value, json};

use crate::office::{Office, dlo};
use crate::stories::{Line, redis};

/// The deadline of a store call, and what a busy machine adds to it.
const DEADLINE: Duration = Duration::from_secs(10);
const SLACK: Duration = Duration::from_secs(3);
/// A client that waits longer than any deadline.
const PATIENCE: Duration = Duration::from_secs(40);
/// Loops go on within this after the trouble.
const GOES_ON: Duration = Duration::from_secs(15);
/// Letters of the replay, and how many of them a second.
const LETTERS: u64 = 900;
const RATE: u64 = 150;

fn rounds() -> u64 {
    std::env::var("DLO_DEAD_WIRE_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(1)
}

/// One request, and its answer.
#[derive(Debug)]
struct Call {
    what: &'static str,
    /// `None`: no answer.
    status: Option<u16>,
    kind: String,
    retry_after: Option<String>,
    body: String,
    took: Duration,
}

impl Call {
    fn make(what: &'static str, office: &str, path: &str, body: Option<Value>) -> Self {
        let config = ureq::Agent::config_builder().http_status_as_error(false).timeout_global(Some(PATIENCE));
        let (agent, begun): (ureq::Agent, _) = (config.build().into(), Instant::now());
        let url = format!("{office}{path}");
        let answer = match body {
            Some(body) => agent.post(url).header("content-type", "application/json").send(body.to_string()),
            None => agent.get(url).call(),
        };
        let mut call = Self {
            what,
            status: None,
            kind: String::new(),
            retry_after: None,
            body: String::new(),
            took: Duration::ZERO,
        };
        if let Ok(mut answer) = answer {
            let header = |name: &str| Some(answer.headers().get(name)?.to_str().unwrap().to_owned());
            (call.kind, call.retry_after) =
                (header("content-type").unwrap_or_default(), header("retry-after"));
            let status = answer.status().as_u16();
            if let Ok(body) = answer.body_mut().read_to_string() {
                (call.status, call.body) = (Some(status), body);
            }
        }
        call.took = begun.elapsed();
        call
    }
}

fn letters(first: u64) -> Value {
    (first..first + 20)
        .map(|n| json!({"source": "web", "queue": "web", "partition": 0, "offset": n, "payload": {"n": n}}))
        .collect()
}

/// Calls of every kind at once: three that ingest letters from offset `first`, and those that read. `id` is of a letter.
fn all_calls(office: &str, first: u64, id: &str) -> Vec<Call> {
    let reads = [
        ("list", "/api/v1/letters?limit=50".to_owned()),
        ("letter", format!("/api/v1/letters/{id}")),
        ("payload", format!("/api/v1/letters/{id}/payload")),
        ("letter page", format!("/letters/{id}")),
        ("overview", "/".to_owned()),
        ("count", "/api/v1/letters/count?q=status%3Aopen".to_owned()),
        ("groups", "/api/v1/groups".to_owned()),
        ("stats", "/api/v1/stats".to_owned()),
        ("ready", "/readyz".to_owned()),
    ];
    std::thread::scope(|scope| {
        let ingest = (0..3).map(|at| {
            scope.spawn(move || {
                Call::make("ingest", office, "/api/v1/letters", Some(letters(first + at * 20)))
            })
        });
        let mut calls: Vec<_> = ingest.collect();
        calls.extend(
            reads.iter().map(|(what, path)| scope.spawn(move || Call::make(what, office, path, None))),
        );
        calls.push(scope.spawn(|| Call::make("verify", office, "/api/v1/audit/verify", Some(json!({})))));
        calls.into_iter().map(|call| call.join().unwrap()).collect()
    })
}

fn slowest(calls: &[Call]) -> String {
    let slow = calls.iter().max_by_key(|call| call.took).unwrap();
    format!("{} calls, the slowest ({}) {:.1} s", calls.len(), slow.what, slow.took.as_secs_f64())
}

/// Every call was answered in time, by an error that says when to try again.
fn assert_refused_in_time(calls: &[Call]) {
    let late: Vec<_> = calls.iter().filter(|call| call.took > DEADLINE + SLACK).collect();
    assert!(late.is_empty(), "{} of {} calls were late: {late:#?}", late.len(), calls.len());
    for call in calls {
        assert_eq!(call.status, Some(503), "{call:?}");
        if !call.kind.starts_with("text/html") {
            assert_eq!(call.kind, "application/problem+json", "{call:?}");
        }
        assert!(call.retry_after.is_some(), "{call:?}");
    }
}

fn assert_well(calls: &[Call]) {
    for call in calls {
        assert!(call.status == Some(200) && call.took < DEADLINE, "{call:?}");
        if call.what == "ingest" {
            let answer: Value = serde_json::from_str(&call.body).unwrap();
            assert_eq!(answer["rejected"].as_u64().unwrap_or(0), 0, "{answer}");
        }
    }
}

/// An office on a real database behind a wire that can go silent, with a queue that it captures and replays.
struct Depot {
    line: Line,
    proxy: Proxy,
    office: Office,
    _database: Database,
    _directory: tempfile::TempDir,
}

impl Depot {
    async fn open(name: &str) -> Self {
        let database = Postgres::shared().await.database().await;
        let at = database.url.find('@').expect("a URL with a user") + 1;
        let end = at + database.url[at..].find('/').unwrap();
        let proxy = Proxy::before(database.url[at..end].parse().unwrap()).await;
        let url = format!("{}{}{}", &database.url[..at], proxy.address, &database.url[end..]);
        let line = Line::open(redis().await, name, None).await;
        let directory = tempfile::tempdir().unwrap();
        let text = format!(
            "[server]\ndatabase = \"{url}\"\n[brokers.shop]\n{}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{}\"\ndlq = \"{}\"\nreplay = {{ pace = {{ rate = {RATE} }}, window = \"2s\", ramp = 1, canary = 0, guards = {{ refill = false }} }}\n",
            line.section, line.queue, line.dlq
        );
        std::fs::write(directory.path().join("dlo.toml"), text).unwrap();
        let mut command = dlo();
        command.args(["--config", "dlo.toml", "serve", "--listen", "127.0.0.1:0", "--log-level", "warn"]);
        command.current_dir(directory.path());
        let office = Office::spawn(command, directory.path());
        Self { line, proxy, office, _database: database, _directory: directory }
    }

    async fn until(&self, what: &str, within: Duration, fact: impl Fn(&Office) -> bool) -> Duration {
        let begun = Instant::now();
        while !fact(&self.office) {
            let stats = self.office.get("/api/v1/stats")["letters"].clone();
            assert!(begun.elapsed() < within, "not in {within:?}: {what}; {stats}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        begun.elapsed()
    }
}

/// Publishes dead letters, each confirmed.
async fn publish(broker: &Arc<dyn Broker>, dlq: &str, numbers: std::ops::Range<u64>) {
    let message = |n| Message { payload: Payload::from(format!("{{\"order\":{n}}}")), ..Message::default() };
    let one = |n| Outgoing { to: Destination::queue(dlq), message: message(n), delay: None };
    for result in broker.publisher().publish(numbers.map(one).collect()).await {
        result.unwrap();
    }
}

fn total(office: &Office, source: &str) -> u64 {
    let sources = office.get("/api/v1/stats");
    let sources = sources["sources"].as_array().cloned().unwrap_or_default();
    sources.iter().find(|one| one["source"] == source).map_or(0, |one| one["captured"].as_u64().unwrap_or(0))
}

fn replay_number(office: &Office, id: &str, key: &str) -> u64 {
    office.get(&format!("/api/v1/replays/{id}"))[key].as_u64().unwrap_or(0)
}

#[tokio::test(flavor = "multi_thread")]
async fn every_call_is_answered_and_every_loop_goes_on_when_the_connections_to_postgresql_go_silent() {
    let depot = Depot::open("dead-wires").await;
    let address = depot.office.address.as_str();
    for round in 0..rounds() {
        let (first, before) = (round * 1_000, round * (LETTERS + 300));
        publish(&depot.line.broker, &depot.line.dlq, before..before + LETTERS).await;
        depot.until("captured", PATIENCE, |office| total(office, "orders") >= before + LETTERS).await;
        let id = depot.office.letter(&letters(first + 900)[0]);
        assert_well(&all_calls(address, first, &id));
        let plan = depot.office.dlo(&["replay", "plan", "source:orders status:open", "--json"]).json();
        let plan = plan["id"].as_str().unwrap().to_owned();
        depot.office.dlo(&["replay", "start", &plan, "--yes"]).ok();
        depot.until("it sends", PATIENCE, |office| replay_number(office, &plan, "sent") > 50).await;

        // Every connection, open or new, swallows bytes.
        depot.proxy.pass_new(false);
        depot.proxy.silence();
        let refused = all_calls(address, first + 100, &id);
        println!("round {round}, silent: {}, {} connections", slowest(&refused), depot.proxy.connections());
        assert_refused_in_time(&refused);
        // Its head is sent before its first letter is read, so it ends without an error of its own.
        let export = Call::make("export", address, "/api/v1/letters/export", None);
        assert!(export.took < DEADLINE + SLACK, "{export:?}");
        assert_eq!(Call::make("alive", address, "/healthz", None).status, Some(200));
        publish(&depot.line.broker, &depot.line.dlq, before + LETTERS..before + LETTERS + 300).await;

        // New connections work. The client sends its letters again.
        depot.proxy.pass_new(true);
        let ended = Instant::now();
        let well = all_calls(address, first + 100, &id);
        println!("round {round}, over: {}", slowest(&well));
        assert_well(&well);
        let sent = replay_number(&depot.office, &plan, "sent");
        depot.until("replay goes on", GOES_ON, |office| replay_number(office, &plan, "sent") > sent).await;
        let all = before + LETTERS + 300;
        depot.until("capture goes on", GOES_ON, |office| total(office, "orders") >= all).await;
        println!("round {round}: replay and capture went on after {:.1} s", ended.elapsed().as_secs_f64());
        assert!(ended.elapsed() < GOES_ON, "{:?}", ended.elapsed());

        // The connections of this moment go silent, and new ones work.
        depot.proxy.silence();
        let answered = all_calls(address, first + 200, &id);
        println!("round {round}, old connections silent: {}", slowest(&answered));
        assert!(answered.iter().all(|call| call.took < DEADLINE + SLACK), "{answered:#?}");
        let well = all_calls(address, first + 200, &id);
        println!("round {round}, over: {}", slowest(&well));
        assert_well(&well);
        depot
            .until("replay ends", 2 * PATIENCE, |office| {
                office.get(&format!("/api/v1/replays/{plan}"))["state"] == "completed"
            })
            .await;
        assert_eq!(replay_number(&depot.office, &plan, "sent"), LETTERS + if round > 0 { 300 } else { 0 });
        assert_eq!(total(&depot.office, "web"), (round + 1) * 181);
    }
    depot.office.dlo(&["audit", "verify"]).ok();
}
