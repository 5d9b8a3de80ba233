//! What is taken off a message before it is replayed: our own story of a failure, and that of other conventions.
//!
//! A consumer that met the old story again would take it for its own: Spring counts attempts by such headers, RabbitMQ
//! drops a message whose `x-death` shows a cycle. All of it stays in the letter's history. Names that an
//! application may use for itself (`attempts`, `source`) are left alone.

use super::names;
use crate::message::Headers;

/// What one convention writes about a failure.
struct Convention {
    /// Taken off when the name is one of these.
    names: &'static [&'static str],
    /// Taken off when the name begins with one of these.
    prefixes: &'static [&'static str],
}

const CONVENTIONS: &[Convention] = &[
    // RabbitMQ, also over AMQP 1.0
    Convention {
        names: &["x-death", "x-delivery-count", "x-opt-deaths"],
        prefixes: &["x-first-death-", "x-last-death-"],
    },
    // Spring Kafka: dead-letter recoverer and retry topics
    Convention {
        names: &[
            "kafka_deliveryAttempt",
            "springDeserializerExceptionKey",
            "springDeserializerExceptionValue",
        ],
        prefixes: &[
            "kafka_dlt-",
            "kafka_original-",
            "kafka_exception-",
            "kafka_key-exception-",
            "retry_topic-",
        ],
    },
    // Spring Cloud Stream, Spring AMQP
    Convention { names: &["x-original-exchange", "x-original-routingKey"], prefixes: &["x-exception-"] },
    Convention {
        names: &[
            "x-original-topic",
            "x-original-partition",
            "x-original-offset",
            "x-original-timestamp",
            "x-original-timestamp-type",
        ],
        prefixes: &[],
    },
    // Kafka Connect, Kafka Streams, share groups
    Convention {
        names: &[],
        prefixes: &["__connect.errors.", "__streams.errors.", "__dlq.errors.", "_dlq.errors."],
    },
    // SmallRye, Micronaut
    Convention { names: &[], prefixes: &["dead-letter-", "delayed-retry-", "micronaut-kafka-"] },
    // Karafka, Silverback, Brighter
    Convention {
        names: &[
            "source_topic",
            "source_partition",
            "source_offset",
            "source_consumer_group",
            "source_attempts",
        ],
        prefixes: &[],
    },
    Convention { names: &["x-failed-attempts", "x-failure-reason"], prefixes: &["x-source-"] },
    Convention {
        names: &[
            "OriginalTopic",
            "OriginalType",
            "RejectionReason",
            "RejectionMessage",
            "RejectionTimestamp",
        ],
        prefixes: &[],
    },
    // Wolverine, MassTransit, NServiceBus, Rebus
    Convention {
        names: &["exception-type", "exception-message", "exception-stack", "failed-at"],
        prefixes: &["wolverine-kafka-retry-"],
    },
    Convention { names: &["MT-Reason", "MT-Redelivery-Count"], prefixes: &["MT-Fault-"] },
    Convention {
        names: &["NServiceBus.FailedQ", "NServiceBus.TimeOfFailure", "NServiceBus.Retries"],
        prefixes: &["NServiceBus.ExceptionInfo.", "NServiceBus.Retries."],
    },
    Convention { names: &["rbs2-error-details", "rbs2-delivery-count", "rbs2-defer-count"], prefixes: &[] },
    // Watermill, Benthos, Knative
    Convention {
        names: &[
            "reason_poisoned",
            "topic_poisoned",
            "handler_poisoned",
            "subscriber_poisoned",
            "fallback_error",
        ],
        prefixes: &["_watermill_delayed_", "_watermill_requeuer_"],
    },
    Convention { names: &[], prefixes: &["ce-knativeerror", "ce_knativeerror"] },
    // Google Pub/Sub, Azure Service Bus, ActiveMQ, Artemis, Pulsar
    Convention {
        names: &[
            "DeadLetterReason",
            "DeadLetterErrorDescription",
            "dlqDeliveryFailureCause",
            "originalExpiration",
        ],
        prefixes: &["CloudPubSubDeadLetterSource", "x-opt-deadletter-", "_AMQ_ORIG_"],
    },
    Convention { names: &["REAL_TOPIC", "ORIGIN_MESSAGE_ID", "RECONSUMETIMES", "DELAY_TIME"], prefixes: &[] },
    // Hand-written consumers
    Convention {
        names: &["x-retry-count", "x-error", "x-error-message", "x-error-stack"],
        prefixes: &["dlq-", "x-dlq-"],
    },
];

/// Takes the story of every failure off, ours and others'. The mark of a replay stays; see [`super::mark_replayed`].
pub fn strip_for_replay(headers: &mut Headers) {
    headers.remove_where(|name| {
        is_ours(name)
            || CONVENTIONS.iter().any(|convention| {
                names::is_one_of(name, convention.names)
                    || convention.prefixes.iter().any(|prefix| starts_with(name, prefix))
            })
    });
}

/// By prefix, not by list: what a newer version writes about a failure must not travel on either.
fn is_ours(name: &str) -> bool {
    starts_with(name, names::PREFIX) && !names::is_one_of(name, names::OF_A_REPLAY)
}

/// Whether `name` begins with `prefix`, without regard to ASCII case.
fn starts_with(name: &str, prefix: &str) -> bool {
    name.as_bytes().get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix.as_bytes()))
}
