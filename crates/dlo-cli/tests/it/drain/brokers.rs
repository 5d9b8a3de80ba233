//! Every real broker through the same story: the office is killed, the broker stops and starts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dlo_brokers::BrokerConfig;
use dlo_core::broker::{Broker, BrokerError, Settlement, TopologySpec};
use dlo_testkit::clock::TokioClock;
use dlo_testkit::harness::{activemq::ActiveMq, artemis::Artemis, kafka::Kafka, nats, rabbitmq, redis, sqs};
use tokio::sync::Mutex;

use super::{Far, Strike, endure, rounds};

/// The broker that a section describes.
pub(super) async fn broker(section: &str) -> Arc<dyn Broker> {
    let config: BrokerConfig = toml::from_str(section).unwrap();
    dlo_brokers::connect(&config, Arc::new(TokioClock::new())).await.unwrap()
}

/// Makes the queues of a broker that makes queues.
async fn furnished<F: Far>(far: F) -> F {
    let (queue, dlq) = far.queues();
    let (broker, spec) = (broker(&far.section()).await, TopologySpec::new(queue, dlq, 5));
    patiently("the queues cannot be made", async || broker.topology().apply(&spec).await.map(drop)).await;
    far
}

/// Tries until it works. A server that was just started answers before it has found the leaders of its queues, and
/// refuses whatever is asked of them until then.
async fn patiently(what: &str, attempt: impl AsyncFn() -> Result<(), BrokerError>) {
    let deadline = Instant::now() + Duration::from_secs(60);
    while let Err(problem) = attempt().await {
        assert!(Instant::now() < deadline, "{what}: {problem}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// A broker, its server, and how that is stopped and started. What a killed office had in hand comes back within seconds.
macro_rules! far {
    ($name:ident($server:ty), $queues:expr, |$it:ident| $section:expr, stop $stop:expr, start $start:expr) => {
        pub(super) struct $name($server);

        #[async_trait]
        impl Far for $name {
            fn section(&self) -> String {
                let $it = &self.0;
                $section
            }

            fn queues(&self) -> (String, String) {
                let (queue, dlq): (&str, &str) = $queues;
                (queue.to_owned(), dlq.to_owned())
            }

            async fn stop(&self) {
                let $it = &self.0;
                $stop;
            }

            async fn start(&self) {
                let $it = &self.0;
                $start;
            }
        }
    };
}

far!(
    FarRedis(redis::OwnRedis), ("orders", "orders:dlq"),
    |it| format!("kind = \"redis\"\nurl = \"{}\"\nclaim_after = \"3s\"", it.url()),
    stop it.kill().await, start it.start().await
);
far!(
    FarNats(nats::Nats), ("orders", "orders.dlq"),
    |it| format!("kind = \"nats\"\nservers = [\"{}\"]\nack_wait = \"5s\"", it.url()),
    stop it.kill(), start it.start().await
);
far!(
    FarKafka(Kafka), ("orders", "orders.dlq"),
    |it| format!("kind = \"kafka\"\nbootstrap = \"{}\"", it.bootstrap),
    stop it.stop(), start it.start().await
);
far!(
    FarSqs(sqs::OwnSqs), ("orders", "orders-dlq"),
    |it| format!(
        "kind = \"sqs\"\nregion = \"elasticmq\"\nendpoint = \"{}\"\naccess_key_id = \"x\"\nsecret_access_key = \"x\"\nvisibility = \"5s\"",
        it.endpoint
    ),
    stop it.stop().await, start it.start().await
);
/// Killed, and next time stopped by its own way, in which it goes on reading and answering for a while.
fn in_turn(artemis: &Artemis) {
    static WAS_KILLED: AtomicBool = AtomicBool::new(false);
    if WAS_KILLED.fetch_not(Ordering::Relaxed) { artemis.stop() } else { artemis.kill() }
}

far!(
    FarArtemis(Artemis), ("orders", "orders.dlq"),
    |it| format!(
        "kind = \"amqp1\"\nurl = \"{}\"\nflavour = \"artemis\"\nusername = \"office\"\npassword = \"s3cret\"",
        it.url()
    ),
    stop in_turn(it), start it.start().await
);
far!(
    FarActiveMq(ActiveMq), ("orders", "DLQ.orders"),
    |it| format!(
        "kind = \"stomp\"\nurl = \"{}\"\nstatistics = true\nusername = \"office\"\npassword = \"s3cret\"",
        it.url()
    ),
    stop it.kill(), start it.start().await
);

/// RabbitMQ's second server is shared with whoever may stop it, one at a time.
pub(super) struct FarRabbitmq {
    url: String,
    server: Mutex<rabbitmq::Own>,
}

#[async_trait]
impl Far for FarRabbitmq {
    fn section(&self) -> String {
        format!("kind = \"rabbitmq\"\nurl = \"{}\"", self.url)
    }

    fn queues(&self) -> (String, String) {
        ("orders".to_owned(), "orders.dlq".to_owned())
    }

    async fn stop(&self) {
        self.server.lock().await.stop().await;
    }

    async fn start(&self) {
        self.server.lock().await.start().await;
    }
}

async fn rabbitmq() -> FarRabbitmq {
    let server = rabbitmq::Rabbitmq::own().await;
    let far = furnished(FarRabbitmq { url: server.url(), server: Mutex::new(server) }).await;
    patiently("the queue cannot be read", async || swept(&far).await).await;
    far
}

/// Takes away what a test before this one left. What was not settled comes again.
async fn swept(far: &FarRabbitmq) -> Result<(), BrokerError> {
    let mut left = broker(&far.section()).await.drain("orders.dlq").await?;
    loop {
        let found = left.receive(1_000, Duration::from_millis(500)).await?;
        if found.is_empty() {
            return left.close().await;
        }
        let done = found.into_iter().map(|one| one.settle(Settlement::Done)).collect();
        let _ = left.settler().settle(done).await;
    }
}

/// One pair of tests per broker.
macro_rules! endures {
    ($kind:ident, $far:expr) => {
        mod $kind {
            use super::*;

            #[tokio::test(flavor = "multi_thread")]
            async fn loses_and_repeats_nothing_when_the_office_is_killed_in_the_middle_of_a_drain() {
                endure(&$far, "", Strike::Office, rounds()).await;
            }

            #[tokio::test(flavor = "multi_thread")]
            async fn loses_and_repeats_nothing_when_it_stops_and_starts_in_the_middle_of_a_drain() {
                endure(&$far, "", Strike::Broker, rounds()).await;
            }
        }
    };
}

pub(super) async fn far_redis() -> FarRedis {
    furnished(FarRedis(redis::Redis::own().await)).await
}

endures!(of_redis, far_redis().await);
endures!(of_nats, furnished(FarNats(nats::Nats::own(nats::Release::Newest, "").await)).await);
endures!(of_kafka, furnished(FarKafka(Kafka::own().await)).await);
endures!(of_rabbitmq, rabbitmq().await);
endures!(of_sqs, furnished(FarSqs(sqs::OwnSqs::elasticmq().await)).await);
endures!(of_amqp1, furnished(FarArtemis(Artemis::own().await)).await);
endures!(of_stomp, furnished(FarActiveMq(ActiveMq::own().await)).await);
