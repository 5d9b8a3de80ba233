//! Starts servers that several test programs share, and keeps them until its input closes.
//!
//! `./test` runs it once. For each server it prints the variables by which the harness finds it, and `ready` at the end.

#![expect(clippy::print_stdout, reason = "the variables are its answer")]
#![expect(clippy::expect_used, clippy::panic, reason = "without a server there is no test")]

use std::io::Read as _;

use dlo_testkit::harness::kafka::Kafka;
use dlo_testkit::harness::nats::Nats;
use dlo_testkit::harness::postgres::Postgres;
use dlo_testkit::harness::rabbitmq::Rabbitmq;
use dlo_testkit::harness::redis::Redis;
use dlo_testkit::harness::sqs::Sqs;

fn main() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    // The servers start beside each other: their starts cannot be sent to other threads, so each has one of its own.
    std::thread::scope(|threads| {
        let names: Vec<String> = std::env::args().skip(1).collect();
        let runtime = &runtime;
        let starts: Vec<_> =
            names.into_iter().map(|name| threads.spawn(move || runtime.block_on(start(name)))).collect();
        for start in starts {
            for (variable, value) in start.join().expect("every server starts") {
                println!("{variable}={value}");
            }
        }
    });
    println!("ready");
    let mut nothing = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut nothing);
    // Statics are not dropped; the supervisor of each server ends it when this process is gone.
}

async fn start(name: String) -> Vec<(&'static str, String)> {
    match name.as_str() {
        "kafka" => {
            let kafka = Kafka::shared().await;
            vec![("DLO_TEST_KAFKA", kafka.bootstrap.clone()), ("DLO_TEST_KAFKA_SASL", kafka.sasl.clone())]
        }
        "nats" => vec![("DLO_TEST_NATS", Nats::shared().await)],
        "postgres" => vec![("DLO_TEST_POSTGRES", Postgres::shared().await.admin_url())],
        "rabbitmq" => vec![("DLO_TEST_RABBITMQ", Rabbitmq::shared().await.description())],
        "redis" => vec![("DLO_TEST_REDIS", Redis::shared().await.url.clone())],
        "sqs" => vec![
            ("DLO_TEST_ELASTICMQ", Sqs::elasticmq().await.endpoint.clone()),
            ("DLO_TEST_LOCALSTACK", Sqs::localstack().await.endpoint.clone()),
        ],
        other => panic!("{other} is no server that can be shared"),
    }
}
