//! Redis Streams: the whole suite on a real Redis and on a real Valkey, outages on a server of their own, then what is
//! its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use ::redis::aio::MultiplexedConnection;
use ::redis::{AsyncConnectionConfig, Client, FromRedisValue, cmd};
use async_trait::async_trait;
use dlo_brokers::BrokerConfig;
use dlo_brokers::redis::RedisConfig;
use dlo_brokers::secret::Secret;
use dlo_core::broker::{Broker, Delivery, Destination, Outgoing, Settlement, Source};
use dlo_core::message::{Message, Payload};
use dlo_testkit::clock::TokioClock;
use dlo_testkit::conformance::{Lab, Outages, Patience};
use dlo_testkit::harness::redis::{OwnRedis, Redis};

mod dead;
mod foreign;
mod own;
mod replays;
mod secure;

struct RedisLab {
    url: String,
    broker: Arc<dyn Broker>,
    own: Option<OwnRedis>,
}

async fn lab() -> RedisLab {
    RedisLab::on(&Redis::shared().await.url, None).await
}

async fn valkey() -> RedisLab {
    RedisLab::on(&Redis::shared_valkey().await.url, None).await
}

async fn own() -> RedisLab {
    let own = Redis::own().await;
    RedisLab::on(&own.url(), Some(own)).await
}

impl RedisLab {
    async fn on(url: &str, own: Option<OwnRedis>) -> Self {
        Self { url: url.to_owned(), broker: broker(RedisConfig::default(), url).await, own }
    }
}

async fn broker(config: RedisConfig, url: &str) -> Arc<dyn Broker> {
    let config = BrokerConfig::Redis(RedisConfig { url: Secret::new(url), ..config });
    dlo_brokers::connect(&config, Arc::new(TokioClock::new())).await.unwrap()
}

/// A connection past the adapter: to look, to tamper, and to be somebody else's consumer.
struct Raw(MultiplexedConnection);

impl Raw {
    async fn to(url: &str) -> Self {
        // The client's own patience is half a second, and the servers write to a disk that others use as well.
        let patient = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(Duration::from_secs(10)))
            .set_response_timeout(Some(Duration::from_secs(30)));
        let client = Client::open(url).unwrap();
        Self(client.get_multiplexed_async_connection_with_config(&patient).await.unwrap())
    }

    async fn ask<T: FromRedisValue>(&mut self, words: &[&str]) -> T {
        let mut command = cmd(words[0]);
        for word in &words[1..] {
            command.arg(*word);
        }
        command.query_async(&mut self.0).await.unwrap()
    }

    async fn create(&mut self, stream: &str) {
        let () = self.ask(&["XGROUP", "CREATE", stream, "made", "0", "MKSTREAM"]).await;
        let _: i64 = self.ask(&["XGROUP", "DESTROY", stream, "made"]).await;
    }
}

fn fresh_name() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

#[async_trait]
impl Lab for RedisLab {
    fn broker(&self) -> Arc<dyn Broker> {
        Arc::clone(&self.broker)
    }

    async fn another(&self) -> Arc<dyn Broker> {
        broker(RedisConfig::default(), &self.url).await
    }

    async fn fresh_queue(&self) -> String {
        let name = fresh_name();
        Raw::to(&self.url).await.create(&name).await;
        name
    }

    fn fresh_name(&self) -> String {
        fresh_name()
    }

    async fn recreate(&self, queue: &str) {
        let mut raw = Raw::to(&self.url).await;
        let _: i64 = raw.ask(&["DEL", queue]).await;
        raw.create(queue).await;
    }

    fn patience(&self) -> Patience {
        Patience {
            arrival: Duration::from_secs(10),
            silence: Duration::from_millis(600),
            delay: Duration::from_millis(1_200),
        }
    }
}

#[async_trait]
impl Outages for RedisLab {
    async fn stop(&self) {
        self.own.as_ref().unwrap().kill().await;
    }

    async fn start(&self) {
        self.own.as_ref().unwrap().start().await;
    }

    async fn cut(&self) {
        self.own.as_ref().unwrap().cut();
    }
}

mod on_redis {
    dlo_testkit::broker_conformance! { #[tokio::test] super::lab }
}

mod on_valkey {
    dlo_testkit::broker_conformance! { #[tokio::test] super::valkey }
}

mod outages {
    dlo_testkit::broker_outages! { #[tokio::test(flavor = "multi_thread")] super::own }
}

// What the tests below say over and over.

const LONG: Duration = Duration::from_secs(10);

fn message(body: &str) -> Message {
    Message { payload: Payload::from(body.to_owned()), ..Message::default() }
}

fn body(message: &Message) -> String {
    String::from_utf8_lossy(&message.payload.0).into_owned()
}

fn to(queue: &str, message: Message) -> Outgoing {
    Outgoing { to: Destination::queue(queue), message, delay: None }
}

async fn publish(broker: &Arc<dyn Broker>, queue: &str, bodies: &[&str]) {
    let all = bodies.iter().map(|body| to(queue, message(body))).collect();
    for result in broker.publisher().publish(all).await {
        result.unwrap();
    }
}

async fn one(source: &mut Box<dyn Source>) -> Delivery {
    let mut came = source.receive(1, LONG).await.unwrap();
    assert_eq!(came.len(), 1, "nothing came");
    came.remove(0)
}

async fn settle(source: &dyn Source, delivery: Delivery, how: Settlement) {
    source.settler().settle(vec![delivery.settle(how)]).await.unwrap();
}
