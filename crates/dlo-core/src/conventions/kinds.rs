//! The conventions, one file each: its names, its encodings, its traps.

pub(super) mod activemq;
pub(super) mod artemis;
pub(super) mod benthos;
pub(super) mod brighter;
pub(super) mod bullmq;
pub(super) mod celery;
pub(super) mod connect;
pub(super) mod dapr;
pub(super) mod dlo;
pub(super) mod jetstream;
pub(super) mod karafka;
pub(super) mod knative;
pub(super) mod lambda_async;
pub(super) mod lambda_esm;
pub(super) mod masstransit;
pub(super) mod micronaut;
pub(super) mod nservicebus;
pub(super) mod oban;
pub(super) mod pubsub;
pub(super) mod pulsar;
pub(super) mod rabbitmq;
pub(super) mod rebus;
pub(super) mod redis;
pub(super) mod resque;
pub(super) mod rocketmq;
pub(super) mod scs_kafka;
pub(super) mod servicebus;
pub(super) mod share_group;
pub(super) mod sidekiq;
pub(super) mod silverback;
pub(super) mod smallrye;
pub(super) mod spring_amqp;
pub(super) mod spring_dlt;
pub(super) mod spring_retrytopic;
pub(super) mod sqs;
pub(super) mod streams;
pub(super) mod uforwarder;
pub(super) mod watermill;
pub(super) mod wolverine;

use crate::reason::Reason;

/// Whether the class of an exception says that the bytes were not understood.
fn not_understood(class: Option<&str>) -> Option<Reason> {
    const SIGNS: [&str; 4] =
        ["DeserializationException", "SerializationException", "JsonParse", "DataException"];
    SIGNS
        .iter()
        .any(|sign| class.is_some_and(|class| class.contains(sign)))
        .then_some(Reason::DeserializationError)
}

/// The last part of a path or an address: `orders` of `rabbitmq://host/vhost/orders?durable=true`.
fn last_segment(address: &str) -> &str {
    let path = address.split(['?', '#']).next().unwrap_or(address);
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}
