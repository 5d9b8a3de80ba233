//! STOMP against ActiveMQ Classic: the whole suite, outages, then what only it has.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use dlo_brokers::secret::Secret;
use dlo_brokers::stomp::StompConfig;
use dlo_brokers::{BrokerConfig, connect};
use dlo_core::broker::{
    Broker, BrokerError, Delivery, Destination, Outgoing, Settlement, Source, TopologySpec,
};
use dlo_core::message::{Message, Payload};
use dlo_testkit::clock::TokioClock;
use dlo_testkit::conformance::{Lab, Outages, Patience};
use dlo_testkit::harness::activemq::ActiveMq;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

const PATIENCE: Patience = Patience {
    arrival: Duration::from_secs(20),
    silence: Duration::from_millis(500),
    delay: Duration::from_millis(2_000),
};

fn config(url: String) -> StompConfig {
    StompConfig {
        username: Some("office".to_owned()),
        password: Some(Secret::new("s3cret")),
        scheduler: true,
        statistics: true,
        ..StompConfig::new(url)
    }
}

async fn broker(config: StompConfig) -> Arc<dyn Broker> {
    connect(&BrokerConfig::Stomp(config), Arc::new(TokioClock::new())).await.unwrap()
}

fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("q{}.{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// A queue with its dead-letter queue `<name>.dlq`.
async fn fresh_queue(broker: &dyn Broker) -> String {
    let name = fresh_name();
    let spec = TopologySpec::new(&name, format!("{name}.dlq"), 5);
    broker.topology().apply(&spec).await.unwrap();
    name
}

struct ActiveMqLab {
    broker: Arc<dyn Broker>,
    own: Option<ActiveMq>,
}

async fn lab() -> ActiveMqLab {
    ActiveMqLab { broker: broker(config(ActiveMq::shared().await.url())).await, own: None }
}

async fn own_lab() -> ActiveMqLab {
    let own = ActiveMq::own().await;
    ActiveMqLab { broker: broker(config(own.cuttable_url())).await, own: Some(own) }
}

impl ActiveMqLab {
    fn own(&self) -> &ActiveMq {
        self.own.as_ref().unwrap()
    }
}

#[async_trait]
impl Lab for ActiveMqLab {
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
impl Outages for ActiveMqLab {
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

#[tokio::test]
async fn a_refused_message_is_dead_lettered_by_the_broker_with_where_it_came_from() {
    let broker = lab().await.broker;
    let name = fresh_queue(&*broker).await;
    broker.publisher().publish(vec![to(&name, message("poison"))]).await.remove(0).unwrap();
    let mut source = broker.source(&name, "g").await.unwrap();
    let delivery = one(&mut source).await;
    let id = delivery.origin.message_id.clone();
    settle(&*source, delivery, Settlement::Refuse).await;
    let mut dead = broker.drain(&format!("{name}.dlq")).await.unwrap();
    let letter = one(&mut dead).await;
    let from = letter.message.headers.text("stomp:original-destination");
    assert_eq!(from, Some(&*format!("/queue/{name}")));
    assert_eq!(letter.message.headers.text("tenant"), Some("acme"));
    assert_eq!(
        (&*letter.message.payload.0, &letter.origin.message_id),
        (&b"poison"[..], &id),
        "the id is kept"
    );
    settle(&*dead, letter, Settlement::Done).await;
}

/// Sends as a foreign client does: a text, with a time of expiry that our publisher never sets.
async fn send_expiring(url: &str, queue: &str) {
    let mut stream = TcpStream::connect(url.trim_start_matches("stomp://")).await.unwrap();
    let soon = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap() + Duration::from_millis(200);
    let frames = format!(
        "CONNECT\naccept-version:1.2\nhost:x\nlogin:office\npasscode:s3cret\n\n\0SEND\ndestination:/queue/{queue}\n\
         persistent:true\nexpires:{}\ntenant:acme\nreceipt:1\n\nlate\0",
        soon.as_millis()
    );
    stream.write_all(frames.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    while !String::from_utf8_lossy(&answer).contains("receipt-id:1") {
        assert!(stream.read_buf(&mut answer).await.unwrap() > 0, "no receipt");
    }
}

#[tokio::test]
async fn a_message_that_expired_is_dead_lettered_by_the_broker_with_the_cause() {
    let broker = lab().await.broker;
    let name = fresh_queue(&*broker).await;
    send_expiring(&ActiveMq::shared().await.url(), &name).await;
    let mut dead = broker.drain(&format!("{name}.dlq")).await.unwrap();
    let letter = one(&mut dead).await;
    let headers = &letter.message.headers;
    assert_eq!(headers.text("stomp:original-destination"), Some(&*format!("/queue/{name}")));
    assert!(
        headers.text("dlqDeliveryFailureCause").is_some_and(|why| why.contains("Expired")),
        "{headers:?}"
    );
    assert_eq!((headers.text("stomp:body"), &*letter.message.payload.0), (Some("text"), &b"late"[..]));
    settle(&*dead, letter, Settlement::Done).await;
}

#[tokio::test]
async fn a_key_is_the_group_id_and_comes_back() {
    let broker = lab().await.broker;
    let name = fresh_queue(&*broker).await;
    let sent = Message { key: Some(Payload::from("C-441")), ..message("m") };
    broker.publisher().publish(vec![to(&name, sent.clone())]).await.remove(0).unwrap();
    let mut source = broker.source(&name, "g").await.unwrap();
    let came = one(&mut source).await;
    assert_eq!(came.message.key, sent.key);
    settle(&*source, came, Settlement::Done).await;
}

#[tokio::test]
async fn what_a_dropped_connection_held_comes_again_and_says_so() {
    let broker = lab().await.broker;
    let name = fresh_queue(&*broker).await;
    broker.publisher().publish(vec![to(&name, message("m"))]).await.remove(0).unwrap();
    let mut source = broker.source(&name, "g").await.unwrap();
    let first = one(&mut source).await;
    assert!(!first.redelivered);
    drop((first, source));
    let mut next = broker.source(&name, "g").await.unwrap();
    let again = one(&mut next).await;
    assert!(again.redelivered);
    settle(&*next, again, Settlement::Done).await;
}

#[tokio::test]
async fn a_wrong_password_is_refused_with_the_setting_to_mend() {
    let url = ActiveMq::shared().await.url();
    let broker = broker(StompConfig { password: Some(Secret::new("wrong")), ..config(url) }).await;
    let refusal = broker.ping().await.unwrap_err();
    assert!(matches!(&refusal, BrokerError::Refused(why) if why.contains("password")), "{refusal}");
}

#[tokio::test]
async fn the_server_says_what_it_is() {
    let said = lab().await.broker.ping().await.unwrap().unwrap();
    assert!(said.starts_with("ActiveMQ/5."), "{said}");
}

#[tokio::test]
async fn without_extensions_nothing_is_promised_that_needs_them() {
    let url = ActiveMq::shared().await.url();
    let plain = broker(StompConfig { scheduler: false, statistics: false, ..config(url) }).await;
    assert_eq!((plain.capabilities().delay, plain.capabilities().delayed_publish), (None, None));
    let name = fresh_name();
    assert_eq!(plain.inspector().inspect(&name, None).await.unwrap().depth, None);
    let plan = plain.topology().plan(&TopologySpec::new(&name, "x", 5)).await.unwrap();
    assert!(plan.len() == 1 && !plan[0].appliable, "{plan:?}");
    let mut source = plain.source(&name, "g").await.unwrap();
    plain.publisher().publish(vec![to(&name, message("m"))]).await.remove(0).unwrap();
    let delivery = one(&mut source).await;
    settle(&*source, delivery, Settlement::Again { after: Duration::from_secs(60) }).await;
    let again = one(&mut source).await;
    assert_eq!(&*again.message.payload.0, b"m", "at once, as the capabilities say");
    settle(&*source, again, Settlement::Done).await;
}
