//! A dead letter that is too large for its queue: it goes to the office, or to disk with a pointer in the queue, and what
//! is behind it flows.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use dlo_core::broker::{Broker, Destination, Outgoing, TopologySpec};
use dlo_core::message::{Message, Payload};
use dlo_testkit::harness::{kafka::Kafka, sqs::Sqs};
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::ClientConfig;
use serde_json::{Value, json};

use super::{Handler, PATIENCE, until};
use crate::office::{Office, dlo};
use crate::stories::sqs;

/// What the dead-letter topic takes; the work topic takes fifty times as much.
const TOPIC_LIMIT: usize = 20_000;
/// Letters behind the large one.
const BEHIND: usize = 5;

struct Shop {
    directory: tempfile::TempDir,
    section: String,
    broker: Arc<dyn Broker>,
    queue: String,
    dlq: String,
    port: u16,
}

impl Shop {
    /// `create`: makes the dead-letter queue first, with a limit of its own.
    async fn open(section: String, create: impl AsyncFn(&str)) -> Self {
        let settings: dlo_brokers::BrokerConfig = toml::from_str(&section).unwrap();
        let broker = dlo_brokers::connect(&settings, Arc::new(dlo_runtime::SystemClock)).await.unwrap();
        let queue = format!("large-{:x}", rand::random::<u64>());
        let dlq = format!("{queue}-dlq");
        create(&dlq).await;
        let mut spec = TopologySpec::new(&queue, &dlq, 5);
        spec.group = Some("pricing".to_owned());
        broker.topology().apply(&spec).await.unwrap();
        let port = dlo_testkit::harness::free_port();
        Self { directory: tempfile::tempdir().unwrap(), section, broker, queue, dlq, port }
    }

    fn run(&self, name: &str, config: &str) -> Office {
        let file = self.directory.path().join(format!("{name}.toml"));
        let Self { section, queue, dlq, port, .. } = self;
        let text = format!(
            "{config}\n[brokers.shop]\n{section}\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\nqueue = \"{queue}\"\n\
             dlq = \"{dlq}\"\n"
        );
        let consumer = format!(
            "[[consumers]]\nsource = \"orders\"\ngroup = \"pricing\"\nhandler = \"http://127.0.0.1:{port}/\"\n\
             brake = \"off\"\n"
        );
        let is_office = name == "serve";
        std::fs::write(&file, if is_office { text } else { format!("{text}{consumer}") }).unwrap();
        let mut command = dlo();
        command.args([name, "--log-level", "info", "--config"]).arg(&file);
        command.current_dir(self.directory.path());
        Office::spawn(command, self.directory.path())
    }

    fn sidecar(&self, office: Option<&Office>) -> Office {
        let office = office.map(|office| format!("office = \"{}\"\n", office.address)).unwrap_or_default();
        self.run("consume", &format!("[consume]\nlisten = \"127.0.0.1:0\"\ndata = \"state\"\n{office}"))
    }

    fn office(&self) -> Office {
        self.run("serve", "[server]\nlisten = \"127.0.0.1:0\"\n")
    }

    /// One large order and some small ones behind it; all of them are parked.
    async fn publish(&self, bytes: usize) -> String {
        let large = order("large", bytes);
        let payloads = std::iter::once(large.clone()).chain((0..BEHIND).map(|n| order(&n.to_string(), 0)));
        let outgoing = payloads.map(|payload| Outgoing {
            to: Destination::queue(&self.queue),
            message: Message { payload: Payload::from(payload), ..Message::default() },
            delay: None,
        });
        for result in self.broker.publisher().publish(outgoing.collect()).await {
            result.unwrap();
        }
        large
    }

    /// The files of large letters.
    fn files(&self) -> Vec<PathBuf> {
        let Ok(consumers) = std::fs::read_dir(self.directory.path().join("state")) else { return Vec::new() };
        let folders = consumers.flatten().map(|consumer| consumer.path().join("large"));
        folders
            .filter_map(|folder| std::fs::read_dir(folder).ok())
            .flatten()
            .flatten()
            .map(|file| file.path())
            .collect()
    }
}

/// An order of so many bytes.
fn order(id: &str, bytes: usize) -> String {
    let order = json!({"id": id, "answers": [422], "note": ""}).to_string();
    order.replace("\"note\":\"\"", &format!("\"note\":\"{}\"", "x".repeat(bytes.saturating_sub(order.len()))))
}

/// Waits until the consumer has parked everything and the broker knows.
async fn until_parked(sidecar: &Office) {
    let all = BEHIND as u64 + 1;
    until(sidecar, "all are parked", |now| now["parked"] == all).await;
}

/// The letters of the office, when there are so many.
async fn letters(office: &Office, count: usize) -> Vec<Value> {
    let until = Instant::now() + PATIENCE;
    loop {
        let listed = office.dlo(&["letters", "list", "--json"]).json();
        let letters = listed["letters"].as_array().unwrap().clone();
        if letters.len() >= count {
            return letters;
        }
        assert!(Instant::now() < until, "{} of {count} letters came", letters.len());
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

fn payload(office: &Office, letter: &Value) -> String {
    let id = letter["id"].as_str().unwrap();
    let mut answer = ureq::get(format!("{}/api/v1/letters/{id}/payload", office.address)).call().unwrap();
    answer.body_mut().read_to_string().unwrap()
}

/// With an office: it has the large letter whole, by HTTP, and the others through their queue.
async fn goes_to_the_office(shop: Shop, bytes: usize) {
    let _handler = Handler::scripted(shop.port);
    let large = shop.publish(bytes).await;
    let office = shop.office();
    let sidecar = shop.sidecar(Some(&office));
    until_parked(&sidecar).await;
    let letters = letters(&office, BEHIND + 1).await;
    assert_eq!(letters.len(), BEHIND + 1, "{letters:#?}");
    assert_eq!(letters.iter().filter(|letter| payload(&office, letter) == large).count(), 1);
    assert_eq!(shop.files(), Vec::<PathBuf>::new());
}

/// Without one: it is on disk, with a pointer in the queue. As soon as there is an office it goes there.
async fn waits_on_disk(shop: Shop, bytes: usize) {
    let _handler = Handler::scripted(shop.port);
    let large = shop.publish(bytes).await;
    let sidecar = shop.sidecar(None);
    until_parked(&sidecar).await;
    sidecar.end();
    let files = shop.files();
    assert_eq!(files.len(), 1, "{files:?}");
    let office = shop.office();
    let pointers: Vec<Value> = letters(&office, BEHIND + 1)
        .await
        .into_iter()
        .map(|letter| office.get(&format!("/api/v1/letters/{}", letter["id"].as_str().unwrap())))
        .filter(|letter| letter.to_string().contains("dlo-body-file"))
        .collect();
    assert_eq!(pointers.len(), 1, "{pointers:#?}");
    let name = files[0].file_name().unwrap().to_string_lossy().into_owned();
    let said = pointers[0].to_string();
    assert!(said.contains(&name) && said.contains("elsewhere") && said.contains("HTTP 422"), "{said}");
    let planned = office.dlo(&["replay", "plan", "source:orders", "--json"]).json();
    assert!(planned.to_string().contains("pointer_only"), "{planned:#}");
    let sidecar = shop.sidecar(Some(&office));
    let all = letters(&office, BEHIND + 2).await;
    assert_eq!(all.iter().filter(|letter| payload(&office, letter) == large).count(), 1);
    let until = Instant::now() + PATIENCE;
    while !shop.files().is_empty() {
        assert!(Instant::now() < until, "the file was not removed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    sidecar.end();
}

async fn on_kafka() -> Shop {
    let bootstrap = Kafka::shared().await.bootstrap.clone();
    let section = format!("kind = \"kafka\"\nbootstrap = \"{bootstrap}\"");
    Shop::open(section, async |dlq| {
        let admin: AdminClient<DefaultClientContext> =
            ClientConfig::new().set("bootstrap.servers", &bootstrap).create().unwrap();
        let limit = TOPIC_LIMIT.to_string();
        let topic = NewTopic::new(dlq, 1, TopicReplication::Fixed(1)).set("max.message.bytes", &limit);
        admin.create_topics([&topic], &AdminOptions::new()).await.unwrap().remove(0).unwrap();
    })
    .await
}

/// The largest body that SQS takes leaves no room for the headers of a death.
const SQS_LIMIT: usize = 256 * 1024;

async fn on_sqs() -> Shop {
    Sqs::elasticmq().await;
    Shop::open(sqs().await, async |_dlq| {}).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_too_large_for_its_topic_on_kafka_goes_to_the_office_and_those_behind_it_flow() {
    goes_to_the_office(on_kafka().await, 5 * TOPIC_LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_too_large_for_its_topic_on_kafka_waits_on_disk_with_a_pointer_in_the_topic() {
    waits_on_disk(on_kafka().await, 5 * TOPIC_LIMIT).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_too_large_for_its_queue_on_sqs_goes_to_the_office_and_those_behind_it_flow() {
    goes_to_the_office(on_sqs().await, SQS_LIMIT - 200).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_letter_too_large_for_its_queue_on_sqs_waits_on_disk_with_a_pointer_in_the_queue() {
    waits_on_disk(on_sqs().await, SQS_LIMIT - 200).await;
}
