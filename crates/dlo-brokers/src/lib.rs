//! Translators between Dead Letter Office and the brokers. Only here are broker SDKs named.
//!
//! Every broker is one module and one feature with the same rooms, behind the one port of [`dlo_core::broker`], and
//! passes the same conformance suite. [`connect`] is the door: configuration in, a [`Broker`] out. [`memory`] is the
//! reference: the broker that needs no server, for `dlo demo`, tests and trying things out.
//!
//! This is the only file of the crate with `cfg(feature)`: modules, settings and [`connect`] by kind.

#![cfg_attr(
    not(all(
        feature = "amqp1",
        feature = "kafka",
        feature = "nats",
        feature = "pubsub",
        feature = "rabbitmq",
        feature = "redis",
        feature = "sql",
        feature = "sqs",
        feature = "stomp"
    )),
    allow(
        dead_code,
        reason = "parts of the rooms that brokers share are unused where only some brokers are in"
    )
)]

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};
use dlo_core::time::Clock;
use serde::Deserialize;

#[cfg(feature = "_remote")]
mod backoff;
#[cfg(any(feature = "nats", feature = "pubsub", feature = "rabbitmq", feature = "sqs", feature = "stomp"))]
mod folded;
#[cfg(any(feature = "pubsub", feature = "sqs"))]
mod leases;
#[cfg(any(feature = "amqp1", feature = "stomp"))]
mod recent;
pub mod secret;
#[cfg(feature = "_remote")]
pub mod tls;

#[cfg(feature = "amqp1")]
pub mod amqp1;
#[cfg(feature = "kafka")]
pub mod kafka;
pub mod memory;
#[cfg(feature = "nats")]
pub mod nats;
#[cfg(feature = "pubsub")]
pub mod pubsub;
#[cfg(feature = "rabbitmq")]
pub mod rabbitmq;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "sql")]
pub mod sql;
#[cfg(feature = "sqs")]
pub mod sqs;
#[cfg(feature = "stomp")]
pub mod stomp;

/// `[brokers.<name>]` of `dlo.toml`: one variant per broker, chosen by `kind`. Unknown keys are refused by the parser.
///
/// Each broker's module explains its settings.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum BrokerConfig {
    #[cfg(feature = "amqp1")]
    Amqp1(amqp1::Amqp1Config),
    #[cfg(feature = "kafka")]
    Kafka(Box<kafka::KafkaConfig>),
    Memory(memory::MemoryConfig),
    #[cfg(feature = "nats")]
    Nats(Box<nats::NatsConfig>),
    #[cfg(feature = "pubsub")]
    Pubsub(pubsub::PubsubConfig),
    #[cfg(feature = "rabbitmq")]
    Rabbitmq(rabbitmq::RabbitmqConfig),
    #[cfg(feature = "redis")]
    Redis(redis::RedisConfig),
    #[cfg(feature = "sql")]
    Sql(sql::SqlConfig),
    #[cfg(feature = "sqs")]
    Sqs(Box<sqs::SqsConfig>),
    #[cfg(feature = "stomp")]
    Stomp(stomp::StompConfig),
}

/// Makes the broker that `config` describes. Settings that cannot work are [`BrokerError::Refused`]; whether the server
/// is there shows when it is first needed. `clock` is read where the broker has no clock of its own.
pub async fn connect(config: &BrokerConfig, clock: Arc<dyn Clock>) -> Result<Arc<dyn Broker>, BrokerError> {
    match config {
        BrokerConfig::Memory(memory) => Ok(Arc::new(memory::MemoryBroker::new(memory.clone(), clock))),
        #[cfg(feature = "amqp1")]
        BrokerConfig::Amqp1(amqp1) => amqp1::connect(amqp1),
        #[cfg(feature = "kafka")]
        BrokerConfig::Kafka(kafka) => kafka::connect(kafka),
        #[cfg(feature = "nats")]
        BrokerConfig::Nats(nats) => nats::connect(nats),
        #[cfg(feature = "pubsub")]
        BrokerConfig::Pubsub(pubsub) => pubsub::connect(pubsub),
        #[cfg(feature = "rabbitmq")]
        BrokerConfig::Rabbitmq(rabbitmq) => rabbitmq::connect(rabbitmq),
        #[cfg(feature = "redis")]
        BrokerConfig::Redis(redis) => redis::connect(redis),
        #[cfg(feature = "sql")]
        BrokerConfig::Sql(sql) => sql::connect(sql),
        #[cfg(feature = "sqs")]
        BrokerConfig::Sqs(sqs) => sqs::connect(sqs),
        #[cfg(feature = "stomp")]
        BrokerConfig::Stomp(stomp) => stomp::connect(stomp),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::MemoryConfig;

    fn read(text: &str) -> Result<BrokerConfig, String> {
        toml::from_str(text).map_err(|refusal| refusal.message().to_owned())
    }

    #[test]
    fn the_kind_alone_is_a_whole_memory_broker() {
        assert_eq!(read("kind = \"memory\""), Ok(BrokerConfig::Memory(MemoryConfig::default())));
    }

    #[test]
    fn an_unknown_key_is_refused_by_name() {
        let refusal = read("kind = \"memory\"\npartitons = 3").unwrap_err();
        assert!(refusal.contains("partitons") && refusal.contains("partitions"), "{refusal}");
    }

    #[test]
    fn an_unknown_kind_is_refused_with_the_known_ones() {
        let refusal = read("kind = \"carrier-pigeon\"").unwrap_err();
        assert!(refusal.contains("carrier-pigeon") && refusal.contains("memory"), "{refusal}");
    }
}
