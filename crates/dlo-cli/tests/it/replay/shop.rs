//! A queue, a pricing service that can be broken and fixed, and an office that captures what it parks.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use dlo_core::brake::BrakeMode;
use dlo_core::broker::Position;
use dlo_core::failure::Failure;
use dlo_core::message::Message;
use dlo_runtime::push::OfficeReceipts;
use serde_json::Value;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::office::{Office, Said, dlo};
use crate::stories::{GROUP, Line};

const PATIENCE: Duration = Duration::from_secs(90);

/// What the service says of an order: `None` is a success.
pub(super) type Verdict = dyn Fn(&Value) -> Option<Failure> + Send + Sync;

pub(super) struct Shop {
    pub(super) line: Arc<Line>,
    pub(super) office: Office,
    port: u16,
    config: PathBuf,
    directory: tempfile::TempDir,
    verdict: Arc<Mutex<Arc<Verdict>>>,
    /// How often each order was handled with success, by its number.
    priced: Arc<Mutex<BTreeMap<u64, u64>>>,
    calls: Arc<AtomicU64>,
    stop: CancellationToken,
    service: Option<JoinHandle<()>>,
}

impl Shop {
    /// Opens a shop on a broker; `source` are further settings of the office's source.
    pub(super) async fn open(section: String, name: &str, source: &str, verdict: Arc<Verdict>) -> Self {
        Self::with(section, name, "", source, verdict).await
    }

    /// As [`Shop::open`], with settings of the server as well.
    pub(super) async fn with(
        section: String,
        name: &str,
        server: &str,
        source: &str,
        verdict: Arc<Verdict>,
    ) -> Self {
        let line = Arc::new(Line::open(section, name, Some(2)).await);
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("dlo.toml");
        // A table of its own goes last in TOML.
        let (keys, tables) =
            line.section.split_once("\n[").map_or((line.section.as_str(), String::new()), |(keys, rest)| {
                (keys, format!("\n[brokers.shop.{rest}"))
            });
        let text = format!(
            "[server]\n{server}\n[brokers.shop]\n{keys}{tables}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{}\"\ndlq = \"{}\"\n{source}\n",
            line.queue, line.dlq
        );
        std::fs::write(&config, text).unwrap();
        // A port of its own, so that the receipts find the next office as well.
        let port = dlo_testkit::harness::free_port();
        let office = start(&config, directory.path(), port);
        let mut shop = Self {
            office,
            port,
            config,
            directory,
            verdict: Arc::new(Mutex::new(verdict)),
            priced: Arc::default(),
            calls: Arc::default(),
            stop: CancellationToken::new(),
            service: None,
            line,
        };
        shop.service = Some(shop.serve().await);
        shop
    }

    /// The pricing service, on the runtime, with receipts to the office.
    async fn serve(&self) -> JoinHandle<()> {
        let (verdict, priced, calls) = (self.verdict.clone(), self.priced.clone(), self.calls.clone());
        let receipts = OfficeReceipts::new(&self.office.address, None).unwrap();
        // In these stories nearly everything fails for one cause, and is meant to be parked.
        let mut policy = dlo_runtime::Policy::default();
        policy.brake.mode = BrakeMode::Off;
        let consumer = self.line.consumer().await.policy(policy).receipts(Arc::new(receipts)).handler(
            move |message: Message| {
                calls.fetch_add(1, Ordering::Relaxed);
                let order: Value = serde_json::from_slice(&message.payload.0).unwrap();
                let verdict = verdict.lock().unwrap().clone();
                let failed = verdict(&order);
                if failed.is_none() {
                    *priced.lock().unwrap().entry(order["number"].as_u64().unwrap()).or_default() += 1;
                }
                async move { failed.map_or(Ok(()), Err) }
            },
        );
        let (consumer, stop) = (consumer.build().unwrap(), self.stop.clone());
        tokio::spawn(async move { consumer.run(stop.cancelled_owned()).await.unwrap() })
    }

    /// The service behaves like this from now on.
    pub(super) fn deploy(&self, verdict: impl Fn(&Value) -> Option<Failure> + Send + Sync + 'static) {
        *self.verdict.lock().unwrap() = Arc::new(verdict);
    }

    /// Orders that were priced, and how often.
    pub(super) fn priced(&self) -> BTreeMap<u64, u64> {
        self.priced.lock().unwrap().clone()
    }

    pub(super) fn calls(&self) -> u64 {
        self.calls.load(Ordering::Relaxed)
    }

    pub(super) fn dlo(&self, args: &[&str]) -> Said {
        self.office.dlo(args)
    }

    /// Kills the office and starts another on what it left.
    pub(super) fn kill_office(&mut self) {
        self.office.strike();
        self.office = start(&self.config, self.directory.path(), self.port);
    }

    /// A second office on the same settings, at a port of its own.
    pub(super) fn second_office(&self) -> Office {
        start(&self.config, self.directory.path(), 0)
    }

    /// Waits until the consumer has nothing before it and nothing in hand: whatever was sent is handled.
    pub(super) async fn until_drained(&self) {
        // A message whose delivery went astray comes again when its lease at the broker is over.
        let deadline = Instant::now() + 3 * PATIENCE;
        while !self.is_drained().await {
            assert!(
                Instant::now() < deadline,
                "the queue was not emptied, {} are priced",
                self.priced().len()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    async fn is_drained(&self) -> bool {
        let (broker, queue) = (&self.line.broker, &self.line.queue);
        let state = broker.inspector().inspect(queue, Some(GROUP)).await.unwrap();
        if state.depth == Some(0) {
            return state.in_flight.unwrap_or(0) == 0;
        }
        // A log counts the marks of transactions too: what matters is whether a message is behind the consumer.
        let (Ok(passed), Ok(ends)) = (broker.passed(queue, GROUP).await, broker.ends(queue).await) else {
            return false;
        };
        for end in ends {
            let next = passed.iter().find(|one| one.partition == end.partition).map_or(0, |one| one.next);
            let from = Position { next, ..end };
            let mut reader = broker.reader(queue, from.partition, Some(&from)).await.unwrap();
            if !reader.read(1, Duration::from_millis(500)).await.unwrap().seen.is_empty() {
                return false;
            }
        }
        true
    }

    /// Letters of the office by status.
    pub(super) fn letters(&self, status: &str) -> u64 {
        self.office.get("/api/v1/stats")["letters"][status].as_u64().unwrap_or(0)
    }

    /// Waits until so many letters are open.
    pub(super) async fn until_open(&self, wanted: u64) {
        self.until(&format!("{wanted} letters are open"), || self.letters("open") == wanted).await;
    }

    pub(super) async fn until(&self, what: &str, fact: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !fact() {
            assert!(
                Instant::now() < deadline,
                "it did not happen that {what}: {} {}",
                self.office.get("/api/v1/stats")["letters"],
                self.office.get("/api/v1/replays?limit=3")
            );
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Plans and returns the plan.
    pub(super) fn plan(&self, args: &[&str]) -> Value {
        let mut words = vec!["replay", "plan", "--json"];
        words.extend(args);
        self.dlo(&words).json()
    }

    pub(super) fn start(&self, replay: &Value) {
        self.dlo(&["replay", "start", id(replay), "--yes"]).ok();
    }

    pub(super) fn replay(&self, replay: &Value) -> Value {
        self.office.get(&format!("/api/v1/replays/{}", id(replay)))
    }

    /// Waits until the replay stands in `state`, and returns it.
    pub(super) async fn until_state(&self, replay: &Value, state: &str) -> Value {
        self.until(&format!("the replay is {state}"), || self.replay(replay)["state"] == state).await;
        self.replay(replay)
    }

    /// Conservation, counted anew.
    pub(super) fn verify(&self) {
        self.dlo(&["audit", "verify"]).ok();
    }

    pub(super) async fn close(mut self) {
        self.stop.cancel();
        if let Some(service) = self.service.take() {
            service.await.unwrap();
        }
    }
}

pub(super) fn id(replay: &Value) -> &str {
    replay["id"].as_str().unwrap_or_else(|| panic!("{replay}"))
}

pub(super) fn number(replay: &Value, key: &str) -> u64 {
    replay[key].as_u64().unwrap_or_else(|| panic!("{key} in {replay}"))
}

fn start(config: &Path, directory: &Path, port: u16) -> Office {
    let mut command = dlo();
    command.arg("--config").arg(config).args([
        "serve",
        "--listen",
        &format!("127.0.0.1:{port}"),
        "--log-level",
        "info",
    ]);
    command.current_dir(directory);
    Office::spawn(command, &directory.join("data"))
}

/// A failure that is parked at once, for its class is no matter of time.
pub(super) fn key_error(message: impl Into<String>) -> Failure {
    Failure::new("KeyError", message.into())
}
