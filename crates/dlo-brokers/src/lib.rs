//! Translators between Dead Letter Office and the brokers. Only here are broker SDKs named.
//!
//! Every broker is one module and one feature with the same rooms, behind the one port of [`dlo_core::broker`], and
//! passes the same conformance suite. [`connect`] is the door: configuration in, a [`Broker`] out. [`memory`] is the
//! reference: the broker that needs no server, for `dlo demo`, tests and trying things out.

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};
use dlo_core::time::Clock;

mod backoff;
pub mod config;
#[cfg(any(feature = "nats", feature = "pubsub", feature = "rabbitmq", feature = "sqs", feature = "stomp"))]
mod folded;
#[cfg(any(feature = "pubsub", feature = "sqs"))]
mod leases;
#[cfg(any(feature = "amqp1", feature = "stomp"))]
mod recent;
pub mod secret;
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

pub use config::BrokerConfig;

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
