//! AMQP 1.0 against ActiveMQ Artemis: the whole suite, outages, then what only it has.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use dlo_brokers::amqp1::{Amqp1Config, Flavour};
use dlo_brokers::secret::Secret;
use dlo_brokers::tls::TlsConfig;
use dlo_brokers::{BrokerConfig, connect};
use dlo_core::broker::{
    Broker, BrokerError, Delivery, Destination, Outgoing, Settlement, Source, TopologySpec,
};
use dlo_core::message::{Message, Payload};
use dlo_core::origin::BrokerKind;
use dlo_testkit::clock::TokioClock;
use dlo_testkit::conformance::{Lab, Outages, Patience};
use dlo_testkit::harness::artemis::Artemis;

const PATIENCE: Patience = Patience {
    arrival: Duration::from_secs(20),
    silence: Duration::from_millis(400),
    delay: Duration::from_millis(1_500),
};

fn config(url: String) -> Amqp1Config {
    Amqp1Config {
        username: Some("office".to_owned()),
        password: Some(Secret::new("s3cret")),
        flavour: Flavour::Artemis,
        ..Amqp1Config::new(url)
    }
}

async fn broker(config: Amqp1Config) -> Arc<dyn Broker> {
    connect(&BrokerConfig::Amqp1(config), Arc::new(TokioClock::new())).await.unwrap()
}

fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("q{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A queue with its dead-letter queue `<name>.dlq`, whose deliveries nothing limits.
async fn fresh_queue(broker: &dyn Broker) -> String {
    let name = fresh_name();
    let spec = TopologySpec::new(&name, format!("{name}.dlq"), 5);
    broker.topology().apply(&spec).await.unwrap();
    name
}

struct ArtemisLab {
    broker: Arc<dyn Broker>,
    own: Option<Artemis>,
}

async fn lab() -> ArtemisLab {
    ArtemisLab { broker: broker(config(Artemis::shared().await.url())).await, own: None }
}

async fn own_lab() -> ArtemisLab {
    let own = Artemis::own().await;
    ArtemisLab { broker: broker(config(own.cuttable_url())).await, own: Some(own) }
}

impl ArtemisLab {
    fn own(&self) -> &Artemis {
        self.own.as_ref().unwrap()
    }
}

#[async_trait]
impl Lab for ArtemisLab {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    async fn fresh_queue(&self) -> String {
        fresh_queue(&*self.broker).await
    }

    fn fresh_name(&self) -> String {
        fresh_name()
    }

    async fn recreate(&self, queue: &str) {
        unreachable!("`{queue}`: only brokers that can be read by position are asked for this");
    }

    fn patience(&self) -> Patience {
        PATIENCE
    }
}

#[async_trait]
impl Outages for ArtemisLab {
    async fn stop(&self) {
        self.own().kill();
    }

    async fn start(&self) {
        self.own().start().await;
    }

    async fn cut(&self) {
        self.own().cut();
    }
}

dlo_testkit::broker_conformance! { #[tokio::test] lab }

mod outages {
    use super::own_lab;

    dlo_testkit::broker_outages! { #[tokio::test] own_lab }
}

fn to(queue: &str, message: Message) -> Outgoing {
    Outgoing { to: Destination::queue(queue), message, delay: None }
}

fn message(body: &str) -> Message {
    let mut message = Message { payload: Payload::from(body.to_owned()), ..Message::default() };
    message.headers.push_text("tenant", "acme");
    message
}

async fn one(source: &mut Box<dyn Source>) -> Delivery {
    let mut came = source.receive(1, PATIENCE.arrival).await.unwrap();
    assert_eq!(came.len(), 1, "nothing came");
    came.remove(0)
}

async fn settle(source: &dyn Source, delivery: Delivery, how: Settlement) {
    source.settler().settle(vec![delivery.settle(how)]).await.unwrap();
}

fn shown(message: &Message) -> BTreeMap<String, String> {
    let text = |header: &dlo_core::message::Header| header.text().unwrap_or("<bytes>").to_owned();
    message.headers.iter().map(|header| (header.name.clone(), text(header))).collect()
}

/// What the broker itself writes on its dead letters, for the conventions; `kind` is the queue's rule in the harness.
async fn dead_letter(kind: &str, die: impl AsyncFn(&mut Box<dyn Source>)) -> (String, Message) {
    let broker = lab().await.broker;
    let name = format!("{kind}{}", fresh_name());
    let dlq = format!("{name}.dlq");
    broker.topology().apply(&TopologySpec::new(&name, &dlq, 2)).await.unwrap();
    broker.publisher().publish(vec![to(&name, message("poison"))]).await.remove(0).unwrap();
    let mut source = broker.source(&name, "g").await.unwrap();
    die(&mut source).await;
    source.close().await.unwrap();
    let mut dead = broker.drain(&dlq).await.unwrap();
    let letter = one(&mut dead).await;
    assert_eq!(&*letter.message.payload.0, b"poison");
    let message = letter.message.clone();
    settle(&*dead, letter, Settlement::Done).await;
    (name, message)
}

fn assert_came_from(name: &str, letter: &Message) {
    let headers = shown(letter);
    for fact in ["ADDRESS", "QUEUE"] {
        let annotation = format!("amqp1:annotation:x-opt-ORIG-{fact}");
        assert_eq!(headers.get(&annotation).map(String::as_str), Some(name), "{headers:?}");
    }
    assert_eq!(headers.get("tenant").map(String::as_str), Some("acme"));
}

#[tokio::test]
async fn a_refused_message_is_dead_lettered_by_the_broker_with_where_it_came_from() {
    let (name, letter) = dead_letter("", async |source| {
        let delivery = one(source).await;
        settle(&**source, delivery, Settlement::Refuse).await;
    })
    .await;
    assert_came_from(&name, &letter);
}

#[tokio::test]
async fn a_message_delivered_too_often_is_dead_lettered_by_the_broker() {
    let (name, letter) = dead_letter("limited.", async |source| {
        for count in 1..=3 {
            let delivery = one(source).await;
            assert_eq!(delivery.delivery_count, Some(count));
            settle(&**source, delivery, Settlement::Again { after: Duration::ZERO }).await;
        }
    })
    .await;
    assert_came_from(&name, &letter);
}

#[tokio::test]
async fn a_message_that_expired_is_dead_lettered_by_the_broker() {
    // Nobody receives: a consumer would be given it before it expires.
    let broker = lab().await.broker;
    let name = format!("expiring.{}", fresh_name());
    let dlq = format!("{name}.dlq");
    broker.topology().apply(&TopologySpec::new(&name, &dlq, 2)).await.unwrap();
    broker.publisher().publish(vec![to(&name, message("late"))]).await.remove(0).unwrap();
    let mut dead = broker.drain(&dlq).await.unwrap();
    let letter = one(&mut dead).await;
    assert_came_from(&name, &letter.message);
    let expiry = letter.message.headers.text("amqp1:annotation:x-opt-ACTUAL-EXPIRY");
    assert!(expiry.is_some(), "{:?}", shown(&letter.message));
    settle(&*dead, letter, Settlement::Done).await;
}

#[tokio::test]
async fn facts_that_a_producer_set_come_back_typed() {
    let broker = lab().await.broker;
    let name = fresh_queue(&*broker).await;
    let mut sent = Message { key: Some(Payload::from("C-441")), ..message("text") };
    sent.headers.push_text("count", "7");
    let types = r#"{"amqp1:message-id":"ulong","count":"int"}"#;
    let facts = [("message-id", "42"), ("subject", "created"), ("body", "value:string"), ("types", types)];
    for (fact, value) in facts {
        sent.headers.push_transport(BrokerKind::Amqp1, fact, value);
    }
    broker.publisher().publish(vec![to(&name, sent.clone())]).await.remove(0).unwrap();
    let mut source = broker.source(&name, "g").await.unwrap();
    let came = one(&mut source).await;
    assert_eq!(shown(&came.message), shown(&sent));
    assert_eq!((&came.message.key, &came.message.payload), (&sent.key, &sent.payload));
    settle(&*source, came, Settlement::Done).await;
}

#[tokio::test]
async fn a_wrong_password_is_refused_with_the_setting_to_mend() {
    let url = Artemis::shared().await.url();
    let broker = broker(Amqp1Config { password: Some(Secret::new("wrong")), ..config(url) }).await;
    let refusal = broker.ping().await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if why.contains("password")), "{refusal}");
}

#[tokio::test]
async fn a_user_without_rights_is_refused() {
    let url = Artemis::shared().await.url();
    let queue = fresh_queue(&*lab().await.broker).await;
    let username = Some("guest".to_owned());
    let broker = broker(Amqp1Config { username, password: Some(Secret::new("guest")), ..config(url) }).await;
    let refusal = broker.source(&queue, "g").await.unwrap_err();
    assert!(matches!(refusal, BrokerError::Refused(_)), "{refusal}");
}

#[tokio::test]
async fn tls_works_with_the_authority_and_is_refused_without() {
    let artemis = Artemis::shared().await;
    let tls = TlsConfig { ca: Some(artemis.authority()), ..TlsConfig::default() };
    let secure = broker(Amqp1Config { tls, ..config(artemis.tls_url()) }).await;
    let version = secure.ping().await.unwrap().unwrap();
    assert!(version.contains(dlo_testkit::harness::artemis::VERSION), "{version}");
    let stranger = broker(config(artemis.tls_url())).await;
    let refusal = stranger.ping().await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if why.contains("tls.ca")), "{refusal}");
}

#[tokio::test]
async fn without_a_flavour_only_the_standard_is_used_and_a_missing_queue_is_still_missing() {
    let url = Artemis::shared().await.url();
    let queue = fresh_queue(&*lab().await.broker).await;
    let generic = broker(Amqp1Config { flavour: Flavour::Generic, ..config(url) }).await;
    assert_eq!(generic.capabilities().delay, None);
    generic.ping().await.unwrap();
    assert_eq!(generic.inspector().inspect(&queue, None).await.unwrap().depth, None);
    let nowhere = fresh_name();
    let looked = generic.inspector().inspect(&nowhere, None).await;
    assert!(matches!(looked, Err(BrokerError::Missing(said)) if said == nowhere));
    let plan = generic.topology().plan(&TopologySpec::new(&queue, &nowhere, 5)).await.unwrap();
    assert!(plan.len() == 1 && !plan[0].appliable && plan[0].what.contains(&nowhere), "{plan:?}");
}

/// Artemis forgets with a broken link that it had delivered a message: whoever keeps what came must hear of the loss first.
#[tokio::test]
async fn a_lost_link_is_told_before_its_messages_come_again() {
    let lab = own_lab().await;
    let queue = lab.fresh_queue().await;
    for result in lab.broker.publisher().publish(vec![to(&queue, message("1"))]).await {
        result.unwrap();
    }
    let mut source = lab.broker.drain(&queue).await.unwrap();
    let first = one(&mut source).await;
    lab.cut().await;
    let told = source.receive(1, PATIENCE.arrival).await;
    assert!(matches!(told, Err(BrokerError::Unavailable(_))), "{told:?}");
    let again = one(&mut source).await;
    assert_eq!(again.message.payload, first.message.payload);
    settle(&*source, again, Settlement::Done).await;
}
