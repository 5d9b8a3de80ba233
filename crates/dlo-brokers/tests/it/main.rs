//! One binary for all brokers: start it, run the suite, then what is its own.

#![expect(clippy::unwrap_used, reason = "in tests, to stop is how a failure is told")]

#[cfg(feature = "amqp1")]
mod amqp1;
#[cfg(feature = "kafka")]
mod kafka;
mod memory;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "pubsub")]
mod pubsub;
#[cfg(feature = "rabbitmq")]
mod rabbitmq;
#[cfg(feature = "redis")]
mod redis;
#[cfg(feature = "sql")]
mod sql;
#[cfg(feature = "sqs")]
mod sqs;
#[cfg(feature = "stomp")]
mod stomp;
