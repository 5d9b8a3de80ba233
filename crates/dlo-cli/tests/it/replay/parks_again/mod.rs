//! Consumers of other teams that fail a replayed order again and park it without our headers: pika, redis-py and
//! confluent-kafka on real brokers.
//!
//! The office must count each of them as failed again, stop at the canary, and call nothing recovered.

use std::time::{Duration, Instant};

use dlo_testkit::harness::{kafka::Kafka, rabbitmq::Rabbitmq, redis::Redis};
use serde_json::{Value, json};

use super::shop::{id, number};
use crate::office::{Office, dlo};
use crate::python::Running;
use crate::stories::{Line, kafka, rabbitmq, redis};

const PATIENCE: Duration = Duration::from_secs(60);
const ORDERS: u64 = 8;
const CANARY: u64 = 3;

/// An office, and a consumer that parks everything.
struct Parked {
    office: Office,
    _parker: Running,
    _line: Line,
    _directory: tempfile::TempDir,
}

impl Parked {
    /// Opens an office on `section`; the consumer connects to `url`.
    async fn open(section: String, name: &str, broker: &str, url: &str, keep_id: bool) -> Self {
        let line = Line::open(section, name, Some(2)).await;
        let directory = tempfile::tempdir().unwrap();
        let config = directory.path().join("dlo.toml");
        let (keys, tables) =
            line.section.split_once("\n[").map_or((line.section.as_str(), String::new()), |(keys, rest)| {
                (keys, format!("\n[brokers.shop.{rest}"))
            });
        let text = format!(
            "[brokers.shop]\n{keys}{tables}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{}\"\ndlq = \"{}\"\n\
             replay = {{ pace = {{ rate = 500 }}, window = \"10s\", ramp = 1, canary = {CANARY} }}\n",
            line.queue, line.dlq
        );
        std::fs::write(&config, text).unwrap();
        let mut command = dlo();
        command.arg("--config").arg(&config).args(["serve", "--listen", "127.0.0.1:0"]);
        command.current_dir(directory.path());
        let office = Office::spawn(command, &directory.path().join("data"));
        let arguments = json!({
            "broker": broker, "url": url, "queue": line.queue, "dlq": line.dlq, "orders": ORDERS, "keep_id": keep_id
        });
        let parker = Running::start("replay/parks_again/parker.py", &arguments);
        let parked = Self { office, _parker: parker, _line: line, _directory: directory };
        parked.until("every order is a letter", || parked.letters("open") == ORDERS);
        parked
    }

    fn letters(&self, status: &str) -> u64 {
        self.office.get("/api/v1/stats")["letters"][status].as_u64().unwrap_or(0)
    }

    fn until(&self, what: &str, fact: impl Fn() -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !fact() {
            let (stats, replays) =
                (self.office.get("/api/v1/stats"), self.office.get("/api/v1/replays?limit=3"));
            assert!(
                Instant::now() < deadline,
                "it did not happen that {what}: {} {replays}",
                stats["letters"]
            );
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Replays everything until the canary stops it; the replay and what the command said.
    fn replay(&self) -> (Value, String) {
        let plan =
            self.office.dlo(&["replay", "plan", "source:orders", "--reason", "fixed", "--json"]).json();
        let said = self.office.dlo(&["replay", "start", id(&plan), "--yes", "--wait"]);
        let replay = self.office.get(&format!("/api/v1/replays/{}", id(&plan)));
        assert_eq!(replay["state"], "stopped", "the canary stops it: {said:?} {replay:#}");
        assert_eq!(number(&replay, "sent"), CANARY, "{replay:#}");
        assert!(said.code == 4 && said.err.contains("3 letters died again"), "{said:?}");
        (replay, said.err)
    }

    /// Cancels the replay: it is over, and `watch` says that letters of it died again, and where they are.
    fn end(&self, replay: &Value) {
        self.office.dlo(&["replay", "cancel", id(replay), "--yes"]).ok();
        let said = self.office.dlo(&["replay", "watch", id(replay)]);
        assert!(said.code == 6 && said.err.contains("dlo groups show"), "{said:?}");
        let group =
            said.err.split("dlo groups show ").nth(1).unwrap().split([',', '\n']).next().unwrap().trim();
        let found =
            self.office.dlo(&["letters", "list", &format!("group:{group} status:open"), "--json"]).json();
        assert!(!found["letters"].as_array().unwrap().is_empty(), "the named group has them: {said:?}");
        for word in ["recovered", "it worked"] {
            assert!(!said.out.contains(word) && !said.err.contains(word), "{said:?}");
        }
    }

    fn page(&self, path: &str) -> String {
        let page = ureq::get(format!("{}{path}", self.office.address)).call().unwrap();
        page.into_body().read_to_string().unwrap()
    }
}

/// Returns that only payload and key tell of: new letters, marked on both sides.
fn are_suspected(parked: &Parked) {
    let (replay, said) = parked.replay();
    assert_eq!((number(&replay, "suspected_return"), number(&replay, "returned")), (CANARY, 0), "{replay:#}");
    assert!(said.contains("3 suspected"), "{said}");
    assert!(replay["success_rate"].is_null() || replay["success_rate"] == 0.0, "{replay:#}");
    let found = parked.office.dlo(&["letters", "list", "is:suspected_return", "--json"]).json();
    let found = found["letters"].as_array().unwrap();
    assert_eq!(found.len() as u64, CANARY, "{found:#?}");
    for letter in found {
        let first = letter["suspect"]["letter"].as_str().unwrap();
        let first = parked.office.get(&format!("/api/v1/letters/{first}"));
        assert_eq!(
            (&first["status"], &first["suspects"][0]["letter"]),
            (&json!("sent"), &letter["id"]),
            "{first:#}"
        );
        let page = parked.page(&format!("/letters/{}", letter["id"].as_str().unwrap()));
        assert!(page.contains("Suspected return of"), "{page}");
    }
    let page = parked.page(&format!("/replays/{}", id(&replay)));
    assert!(page.contains("suspected return") && page.contains("it probably died again"), "{page}");
    assert_eq!((parked.letters("sent"), parked.letters("recovered")), (CANARY, 0));
    parked.end(&replay);
    // What was not sent is open again, beside the letters that came back.
    parked.until("the rest is given back", || parked.letters("open") == ORDERS);
    let again = ["replay", "plan", "--came-back-from", id(&replay), "--reason", "fixed again", "--json"];
    assert_eq!(number(&parked.office.dlo(&again).json(), "total"), CANARY);
    parked.office.dlo(&["audit", "verify"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_pika_parks_again_with_their_message_id_are_the_same_letters() {
    let url = Rabbitmq::shared().await.url();
    let parked = Parked::open(rabbitmq().await, "parks-id", "rabbitmq", &url, true).await;
    let (replay, _) = parked.replay();
    assert_eq!((number(&replay, "returned"), number(&replay, "suspected_return")), (CANARY, 0), "{replay:#}");
    let again = parked.office.dlo(&["letters", "list", "replays:>0", "--json"]).json();
    let again = again["letters"].as_array().unwrap();
    assert_eq!(again.len() as u64, CANARY);
    assert!(
        again.iter().all(|letter| letter["death_count"] == 2 && letter["status"] == "open"),
        "{again:#?}"
    );
    parked.end(&replay);
    parked.until("the rest is given back", || parked.letters("open") == ORDERS);
    assert_eq!((parked.letters("total"), parked.letters("recovered")), (ORDERS, 0));
    parked.office.dlo(&["audit", "verify"]).ok();
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_pika_parks_again_without_an_id_are_suspected_returns() {
    let url = Rabbitmq::shared().await.url();
    are_suspected(&Parked::open(rabbitmq().await, "parks-plain", "rabbitmq", &url, false).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_redis_py_parks_again_are_suspected_returns() {
    let url = Redis::shared().await.url.clone();
    are_suspected(&Parked::open(redis().await, "parks", "redis", &url, false).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn orders_that_confluent_kafka_parks_again_are_suspected_returns() {
    let url = Kafka::shared().await.bootstrap.clone();
    are_suspected(&Parked::open(kafka().await, "parks", "kafka", &url, false).await);
}
