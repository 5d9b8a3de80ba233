//! Capture on a full disk: letters stay at the broker, and come once when there is space.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_brokers::BrokerConfig;
use dlo_core::broker::{Broker, Destination, Outgoing, TopologySpec};
use dlo_core::message::{Message, Payload};
use dlo_testkit::clock::TokioClock;
use dlo_testkit::harness::kafka::Kafka;
use dlo_testkit::harness::rabbitmq::Rabbitmq;

use super::asked::{WAYS, get, is_not_ready, send};
use super::rounds;
use super::volume::Volume;
use crate::log_lines::{is_readable, recovered, trouble_lasts};
use crate::office::Office;

/// Letters that are sent at once.
const LETTERS: u64 = 300;
const PATIENCE: Duration = Duration::from_secs(60);

/// A dead-letter queue of one broker, and its config.
struct Far {
    broker: Arc<dyn Broker>,
    dlq: String,
    config: String,
    next: u64,
}

impl Far {
    async fn open(name: &str, section: &str) -> Self {
        let settings: BrokerConfig = toml::from_str(section).unwrap();
        let broker = dlo_brokers::connect(&settings, Arc::new(TokioClock::new())).await.unwrap();
        let queue = format!("disk-{name}-{}", std::process::id());
        let dlq = format!("{queue}.dlq");
        broker.topology().apply(&TopologySpec::new(&queue, &dlq, 5)).await.unwrap();
        let source = format!(
            "[[sources]]\nname = \"orders\"\nbroker = \"far\"\nqueue = \"{queue}\"\ndlq = \"{dlq}\"\n"
        );
        Self { broker, dlq, config: format!("[brokers.far]\n{section}\n{source}"), next: 0 }
    }

    /// Sends numbered letters; each is confirmed.
    async fn send(&mut self) {
        let numbers = self.next..self.next + LETTERS;
        self.next += LETTERS;
        let outgoing = numbers.map(|n| Outgoing {
            to: Destination::queue(&self.dlq),
            message: Message {
                key: Some(Payload::from(format!("n-{n}"))),
                payload: Payload::from(format!("{{\"n\":{n}}}")),
                ..Message::default()
            },
            delay: None,
        });
        for result in self.broker.publisher().publish(outgoing.collect()).await {
            result.expect("a letter is confirmed");
        }
    }
}

async fn until(what: &str, office: &Office, is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline, "{what}: {}", office.get("/api/v1/sources"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn total(office: &Office) -> u64 {
    office.get("/api/v1/stats")["letters"]["total"].as_u64().unwrap_or(0)
}

/// Capture waits, and says that the disk is full.
fn waits(office: &Office) -> bool {
    let source = &office.get("/api/v1/sources")["sources"][0];
    source["state"] == "waiting" && source["problem"].as_str().is_some_and(|why| why.contains("is full"))
}

/// How often each letter is there, by its key.
fn kept(office: &Office) -> BTreeMap<String, u64> {
    let mut kept = BTreeMap::new();
    for line in get(office, "/api/v1/letters/export").body.lines() {
        let letter: serde_json::Value = serde_json::from_str(line).unwrap();
        *kept.entry(letter["key"].to_string()).or_default() += 1;
    }
    kept
}

async fn endures(name: &str, section: &str) {
    let mut far = Far::open(name, section).await;
    let mut volume = Volume::tmpfs(64);
    let config = volume.outside().join("dlo.toml");
    std::fs::write(&config, &far.config).unwrap();
    let mut office = volume.office(Some(&config));
    for round in 0..rounds() {
        far.send().await;
        until("the letters come", &office, || total(&office) == far.next).await;
        volume.fill();
        until("the office sees it", &office, || get(&office, "/readyz").status == 503).await;
        far.send().await;
        until("capture waits", &office, || waits(&office)).await;
        is_not_ready(&office);
        if round % 2 == 1 {
            office.kill();
            office = volume.office(Some(&config));
            until("capture waits behind a start", &office, || waits(&office)).await;
        }
        assert_eq!(total(&office), far.next - LETTERS, "a full disk takes no letters");
        volume.free();
        let freed = Instant::now();
        until("the letters come by themselves", &office, || total(&office) == far.next).await;
        println!("round {round} on {name}: all letters {:?} after there was space", freed.elapsed());
    }
    let kept = kept(&office);
    assert!(kept.values().all(|count| *count == 1), "a letter is there twice: {kept:?}");
    assert_eq!(kept.len() as u64, far.next, "letters are lost");
    office.dlo(&["audit", "verify"]).ok();
    println!("{} rounds on {name}, {} letters, none lost or doubled", rounds(), kept.len());
}

#[tokio::test(flavor = "multi_thread")]
async fn rabbitmq_keeps_letters_while_the_disk_is_full() {
    endures("rabbitmq", &format!("kind = \"rabbitmq\"\nurl = \"{}\"", Rabbitmq::shared().await.url())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn kafka_keeps_letters_while_the_disk_is_full() {
    endures("kafka", &format!("kind = \"kafka\"\nbootstrap = \"{}\"", Kafka::shared().await.bootstrap)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_writes_few_lines() {
    let section = format!("kind = \"rabbitmq\"\nurl = \"{}\"", Rabbitmq::shared().await.url());
    let mut far = Far::open("lines", &section).await;
    let mut volume = Volume::tmpfs(64);
    let config = volume.outside().join("dlo.toml");
    std::fs::write(&config, &far.config).unwrap();
    let office = volume.office(Some(&config));
    volume.fill();
    far.send().await;
    until("capture waits", &office, || waits(&office)).await;
    let senders = async {
        loop {
            tokio::task::block_in_place(|| WAYS.map(|way| send(&office, way, 0..5)));
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = senders => {}
        () = trouble_lasts() => {}
    }
    volume.free();
    until("the letters come", &office, || total(&office) >= LETTERS).await;
    until("the office is ready", &office, || get(&office, "/readyz").status == 200).await;
    let log = office.end();
    is_readable(
        "full disk",
        &log,
        "the file system of the data directory is full: letters are refused until there is space again",
    );
    recovered(&log, "the file system of the data directory has space again: letters are accepted");
    recovered(&log, "capture works again");
}
