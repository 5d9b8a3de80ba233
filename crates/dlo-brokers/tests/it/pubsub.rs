//! Google Pub/Sub: the whole suite against Google's emulator, outages of the wire to it, then what is its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dlo_brokers::BrokerConfig;
use dlo_brokers::pubsub::PubsubConfig;
use dlo_core::broker::{
    Broker, BrokerError, Delivery, Destination, Gravity, OFFICE, Outgoing, PublishError, Settlement, Source,
    TopologySpec,
};
use dlo_core::conventions::Found;
use dlo_core::message::{Message, Payload};
use dlo_core::origin::BrokerKind;
use dlo_core::reason::Reason;
use dlo_core::units::HumanDuration;
use dlo_testkit::clock::TokioClock;
use dlo_testkit::conformance::{Lab, Outages, Patience};
use dlo_testkit::harness::pubsub::{Pubsub, WiredPubsub};
use serde_json::{Value, json};

const PROJECT: &str = "dlo-test";

fn config(endpoint: &str) -> PubsubConfig {
    PubsubConfig {
        project: PROJECT.to_owned(),
        endpoint: Some(endpoint.to_owned()),
        // What is held when the wire is cut comes again when its lease is over: the shortest that the service knows.
        ack_deadline: HumanDuration(Duration::from_secs(10)),
        poll: HumanDuration(Duration::from_millis(100)),
        ..PubsubConfig::default()
    }
}

async fn broker(config: PubsubConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    dlo_brokers::connect(&BrokerConfig::Pubsub(config), Arc::new(TokioClock::new())).await
}

fn name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("q{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

fn topic(name: &str) -> String {
    format!("projects/{PROJECT}/topics/{name}")
}

fn subscription(name: &str) -> String {
    format!("projects/{PROJECT}/subscriptions/{name}")
}

/// What others do with the service, by its own words.
async fn ask(method: reqwest::Method, path: &str, body: Value) -> Value {
    let url = format!("{}/v1/{path}", Pubsub::shared().await.endpoint());
    let answer = reqwest::Client::new().request(method, url).json(&body).send().await.unwrap();
    assert!(answer.status().is_success(), "{path}: {}", answer.text().await.unwrap());
    answer.json().await.unwrap()
}

async fn create(path: &str, body: Value) {
    ask(reqwest::Method::PUT, path, body).await;
}

struct PubsubLab {
    broker: Arc<dyn Broker>,
    wire: Option<WiredPubsub>,
}

async fn shared() -> PubsubLab {
    let broker = broker(config(&Pubsub::shared().await.endpoint())).await.unwrap();
    PubsubLab { broker, wire: None }
}

async fn wired() -> PubsubLab {
    let wire = WiredPubsub::new().await;
    let broker = broker(config(&wire.endpoint)).await.unwrap();
    PubsubLab { broker, wire: Some(wire) }
}

#[async_trait]
impl Lab for PubsubLab {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    /// A topic keeps nothing for who was never there: the office's subscription stands first, as topology makes it.
    async fn fresh_queue(&self) -> String {
        let name = self.fresh_name();
        create(&topic(&name), json!({})).await;
        let office = subscription(&format!("{name}.{OFFICE}"));
        create(&office, json!({ "topic": topic(&name), "ackDeadlineSeconds": 10 })).await;
        name
    }

    fn fresh_name(&self) -> String {
        name()
    }

    async fn recreate(&self, queue: &str) {
        ask(reqwest::Method::DELETE, &topic(queue), json!({})).await;
        create(&topic(queue), json!({})).await;
    }

    fn patience(&self) -> Patience {
        Patience {
            arrival: Duration::from_secs(20),
            silence: Duration::from_millis(1_500),
            delay: Duration::from_secs(3),
        }
    }
}

#[async_trait]
impl Outages for PubsubLab {
    async fn stop(&self) {
        self.wire.as_ref().unwrap().stop().await;
    }

    async fn start(&self) {
        self.wire.as_ref().unwrap().start().await;
    }

    async fn cut(&self) {
        self.wire.as_ref().unwrap().cut().await;
    }
}

mod suite {
    dlo_testkit::broker_conformance! { #[tokio::test(flavor = "multi_thread")] super::shared }
}

mod outages {
    dlo_testkit::broker_outages! { #[tokio::test(flavor = "multi_thread")] super::wired }
}

fn text(body: &str) -> Message {
    Message { payload: Payload::from(body.to_owned()), ..Message::default() }
}

async fn publish(broker: &dyn Broker, queue: &str, messages: Vec<Message>) {
    let to = |message| Outgoing { to: Destination::queue(queue), message, delay: None };
    for result in broker.publisher().publish(messages.into_iter().map(to).collect()).await {
        result.unwrap();
    }
}

/// Exactly `count` deliveries, in time.
async fn receive(source: &mut Box<dyn Source>, count: usize) -> Vec<Delivery> {
    let deadline = tokio::time::Instant::now() + Duration::from_secs(30);
    let mut all = Vec::new();
    while all.len() < count {
        assert!(tokio::time::Instant::now() < deadline, "{} of {count} came", all.len());
        all.extend(source.receive(count - all.len(), Duration::from_secs(2)).await.unwrap());
    }
    all
}

async fn settle(source: &dyn Source, deliveries: Vec<Delivery>, how: Settlement) {
    let settled = deliveries.into_iter().map(|delivery| delivery.settle(how)).collect();
    source.settler().settle(settled).await.unwrap();
}

/// A topic with its dead letters' place, as topology makes it for group `billing`.
async fn with_policy(broker: &dyn Broker, attempts: u32) -> TopologySpec {
    let queue = name();
    let spec = TopologySpec {
        group: Some("billing".to_owned()),
        ..TopologySpec::new(&queue, format!("{queue}-dlq"), attempts)
    };
    broker.topology().apply(&spec).await.unwrap();
    spec
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_service_dead_letters_is_counted_and_read_by_its_convention() {
    let broker = shared().await.broker;
    let spec = with_policy(&*broker, 1).await;
    let path = subscription(&format!("{}.billing", spec.queue));
    let policy = json!({ "deadLetterTopic": topic(&spec.dlq), "maxDeliveryAttempts": 5 });
    let patch = json!({ "subscription": { "name": path, "deadLetterPolicy": policy }, "updateMask": "deadLetterPolicy" });
    ask(reqwest::Method::PATCH, &path, patch).await;
    let mut source = broker.source(&spec.queue, "billing").await.unwrap();
    let mut sent = text("poison");
    sent.headers.push_text("tenant", "acme");
    publish(&*broker, &spec.queue, vec![sent]).await;
    for count in 1..=5 {
        let came = receive(&mut source, 1).await;
        assert_eq!((came[0].delivery_count, came[0].redelivered), (Some(count), count > 1));
        settle(&*source, came, Settlement::Again { after: Duration::ZERO }).await;
        // The emulator dead-letters when the subscription is pulled again.
        if count == 5 {
            assert_eq!(source.receive(1, Duration::from_secs(1)).await.unwrap().len(), 0);
        }
    }
    let mut dead = broker.drain(&spec.dlq).await.unwrap();
    let letter = receive(&mut dead, 1).await.remove(0);
    let reading =
        dlo_core::conventions::read(&letter.message, Found { broker: BrokerKind::Pubsub, queue: &spec.dlq });
    assert_eq!(*letter.message.payload.0, *b"poison");
    assert_eq!(letter.message.headers.text("tenant"), Some("acme"));
    assert_eq!((reading.conventions, reading.reason), (vec!["pubsub"], Some(Reason::DeliveryLimit)));
    assert_eq!(reading.attempts, Some(5));
    assert_eq!(reading.consumer, Some(format!("{}.billing", spec.queue)));
    settle(&*dead, vec![letter], Settlement::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_copied_to_the_dead_letter_topic_first() {
    let broker = shared().await.broker;
    let spec = with_policy(&*broker, 5).await;
    let mut source = broker.source(&spec.queue, "billing").await.unwrap();
    let mut sent = Message { key: Some("k".into()), ..text("bad") };
    sent.headers.push("trace", Some(vec![0xff; 3_000].into()));
    publish(&*broker, &spec.queue, vec![sent.clone()]).await;
    let came = receive(&mut source, 1).await;
    settle(&*source, came, Settlement::Refuse).await;
    let mut dead = broker.drain(&spec.dlq).await.unwrap();
    let letter = receive(&mut dead, 1).await.remove(0);
    assert_eq!((&letter.message.key, &letter.message.payload), (&sent.key, &sent.payload));
    assert_eq!(letter.message.headers.last("trace"), sent.headers.last("trace"));
    assert_eq!(source.receive(1, Duration::from_secs(1)).await.unwrap().len(), 0);
    settle(&*dead, vec![letter], Settlement::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn topology_writes_the_policy_of_a_group_and_mends_a_count_that_is_too_low() {
    let broker = shared().await.broker;
    let mut spec = with_policy(&*broker, 5).await;
    assert_eq!(broker.topology().plan(&spec).await.unwrap(), []);
    spec.attempts = 40;
    let plan = broker.topology().plan(&spec).await.unwrap();
    assert_eq!(plan.len(), 1, "{plan:?}");
    assert!(plan[0].gravity == Gravity::Weak && plan[0].what.contains("maxDeliveryAttempts"), "{plan:?}");
    assert!(plan[0].command.as_ref().unwrap().starts_with("gcloud pubsub subscriptions update"), "{plan:?}");
    assert_eq!(broker.topology().apply(&spec).await.unwrap(), plan);
    let path = subscription(&format!("{}.billing", spec.queue));
    let there = ask(reqwest::Method::GET, &path, json!({})).await;
    assert_eq!(
        there["deadLetterPolicy"],
        json!({ "deadLetterTopic": topic(&spec.dlq), "maxDeliveryAttempts": 50 })
    );
    assert_eq!(broker.topology().plan(&spec).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_retention_is_that_of_the_dead_letters_and_is_never_made_shorter() {
    let broker = shared().await.broker;
    let queue = name();
    let days = |days: u64| Some(Duration::from_secs(days * 86_400));
    let mut spec =
        TopologySpec { retention: days(2), ..TopologySpec::new(&queue, format!("{queue}-dlq"), 5) };
    broker.topology().apply(&spec).await.unwrap();
    let office = subscription(&format!("{}.dlo-office", spec.dlq));
    let kept = async |path: String| {
        ask(reqwest::Method::GET, &path, json!({})).await["messageRetentionDuration"].clone()
    };
    assert_eq!(kept(topic(&spec.dlq)).await, "172800s");
    assert_eq!(kept(office.clone()).await, "172800s");
    assert_eq!(kept(topic(&spec.queue)).await, Value::Null, "healthy messages are not kept for it");
    spec.retention = days(5);
    let plan = broker.topology().apply(&spec).await.unwrap();
    assert!(plan.len() == 1 && plan[0].what.contains("for 432000 s instead of 172800 s"), "{plan:?}");
    assert_eq!(kept(office.clone()).await, "432000s");
    spec.retention = days(1);
    assert_eq!(broker.topology().plan(&spec).await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn facts_of_the_service_are_told_and_an_ordering_key_goes_back() {
    let lab = shared().await;
    let queue = lab.fresh_queue().await;
    let broker = lab.broker();
    let mut source = broker.source(&queue, "g").await.unwrap();
    let foreign =
        json!({ "messages": [{ "data": "aGk=", "attributes": { "a": "" }, "orderingKey": "o-1" }] });
    let ids = ask(reqwest::Method::POST, &format!("{}:publish", topic(&queue)), foreign).await;
    let came = receive(&mut source, 1).await;
    let (message, origin) = (came[0].message.clone(), came[0].origin.clone());
    assert_eq!(origin.message_id.as_deref(), ids["messageIds"][0].as_str());
    assert!(came[0].published_at.is_some());
    assert_eq!(message.key, Some("o-1".into()));
    assert_eq!(message.headers.text("a"), Some(""));
    settle(&*source, came, Settlement::Done).await;
    publish(&*broker, &queue, vec![message]).await;
    let again = receive(&mut source, 1).await;
    assert_eq!(again[0].message.headers.transport(BrokerKind::Pubsub, "orderingKey"), Some("o-1"));
    assert_ne!(again[0].origin, origin);
    settle(&*source, again, Settlement::Done).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_of_others_is_read_by_its_path_and_not_published_to() {
    let lab = shared().await;
    let queue = lab.fresh_queue().await;
    let broker = lab.broker();
    let path = subscription(&format!("{queue}-theirs"));
    create(&path, json!({ "topic": topic(&queue), "ackDeadlineSeconds": 10 })).await;
    publish(&*broker, &queue, vec![text("m")]).await;
    let mut source = broker.drain(&path).await.unwrap();
    let came = receive(&mut source, 1).await;
    assert_eq!(came[0].origin.queue, path);
    settle(&*source, came, Settlement::Done).await;
    let outgoing = Outgoing { to: Destination::queue(&path), message: text("m"), delay: None };
    let results = broker.publisher().publish(vec![outgoing]).await;
    assert!(
        matches!(&results[0], Err(PublishError::Refused(why)) if why.contains("name the topic")),
        "{results:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_created_anew_leaves_directions_for_its_old_subscriptions() {
    let lab = shared().await;
    let queue = lab.fresh_queue().await;
    lab.recreate(&queue).await;
    let refusal = lab.broker().drain(&queue).await.err().unwrap().to_string();
    assert!(refusal.contains("subscriptions delete") && refusal.contains(&queue), "{refusal}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_service_is_pinged_and_a_bad_setting_is_refused_before() {
    let lab = shared().await;
    assert_eq!(lab.broker().ping().await.unwrap(), None);
    let refused = broker(PubsubConfig { project: String::new(), ..config("http://127.0.0.1:9") }).await;
    assert!(refused.err().unwrap().to_string().contains("project"));
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_go_through_in_full_requests() {
    let lab = shared().await;
    let queue = lab.fresh_queue().await;
    let broker = lab.broker();
    publish(&*broker, &queue, (0..5_000).map(|n| text(&format!("m{n}"))).collect()).await;
    let mut source = broker.drain(&queue).await.unwrap();
    let mut seen = std::collections::BTreeSet::new();
    while seen.len() < 5_000 {
        let came = source.receive(2_500, Duration::from_secs(10)).await.unwrap();
        assert!(!came.is_empty(), "{} came", seen.len());
        seen.extend(came.iter().map(|delivery| delivery.message.payload.0.clone()));
        settle(&*source, came, Settlement::Done).await;
    }
}
