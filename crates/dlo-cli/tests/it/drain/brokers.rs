//! Every real broker through the same story: the office is killed, the broker stops and starts.

use std::sync::Arc;

use async_trait::async_trait;
use dlo_brokers::BrokerConfig;
use dlo_core::broker::{Broker, TopologySpec};
use dlo_testkit::clock::TokioClock;
use dlo_testkit::harness::{kafka::Kafka, nats, redis};

use super::{Far, Strike, endure, rounds};

/// The broker that a section describes.
pub(super) async fn broker(section: &str) -> Arc<dyn Broker> {
    let config: BrokerConfig = toml::from_str(section).unwrap();
    dlo_brokers::connect(&config, Arc::new(TokioClock::new())).await.unwrap()
}

/// Makes the queues of a broker that makes queues.
async fn furnished<F: Far>(far: F) -> F {
    let (queue, dlq) = far.queues();
    broker(&far.section()).await.topology().apply(&TopologySpec::new(queue, dlq, 5)).await.unwrap();
    far
}

/// A broker, its server, and how that is stopped and started.
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
    |it| format!("kind = \"redis\"\nurl = \"{}\"", it.url()),
    stop it.kill().await, start it.start().await
);
far!(
    FarNats(nats::Nats), ("orders", "orders.dlq"),
    |it| format!("kind = \"nats\"\nservers = [\"{}\"]", it.url()),
    stop it.kill(), start it.start().await
);
far!(
    FarKafka(Kafka), ("orders", "orders.dlq"),
    |it| format!("kind = \"kafka\"\nbootstrap = \"{}\"", it.bootstrap),
    stop it.stop(), start it.start().await
);
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
