//! Dead letters of anyone: reading never fails, its bounds hold, and what a replay strips stays stripped.
#![no_main]

use bytes::Bytes;
use dlo_core::conventions::{BATCH, Found, Held, Mapper, read};
use dlo_core::envelope::strip_message;
use dlo_core::limits;
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use dlo_core::replay::produced::{Place, unwrapped};
use libfuzzer_sys::fuzz_target;

/// Names worth sending wrongly: one of each reader.
const NAMES: &[&str] = &[
    "x-death",
    "x-first-death-queue",
    "amqp1:annotation:x-opt-deaths",
    "kafka_dlt-original-topic",
    "kafka_dlt-original-partition",
    "kafka_dlt-exception-fqcn",
    "retry_topic-attempts",
    "retry_topic-original-timestamp",
    "x-exception-stacktrace",
    "x-original-exchange",
    "__connect.errors.offset",
    "__streams.errors.exception",
    "__dlq.errors.topic",
    "dead-letter-topic",
    "failed-at",
    "exception-type",
    "MT-Fault-InputAddress",
    "MT-Reason",
    "NServiceBus.FailedQ",
    "NServiceBus.TimeOfFailure",
    "rbs2-error-details",
    "ce_knativeerrordest",
    "ce_knativeerrordata",
    "DeadLetterReason",
    "CloudPubSubDeadLetterSourceSubscription",
    "sqs:DeadLetterQueueSourceArn",
    "dlqDeliveryFailureCause",
    "redis:deliveries",
    "dlq_reason",
    "x-error",
    "traceparent",
    "dlo-version",
    "error_message",
    "original_stream",
    "consumer_group",
    "retryCount",
    "redis:layout",
];

type Input = (u8, Option<Vec<u8>>, Vec<(u8, Option<Vec<u8>>)>, Vec<u8>);

fuzz_target!(|input: Input| {
    let (broker, key, pairs, payload) = input;
    let broker = BrokerKind::ALL[usize::from(broker) % BrokerKind::ALL.len()];
    let mut headers = Headers::new();
    for (name, value) in pairs {
        headers.push(NAMES[usize::from(name) % NAMES.len()], value.map(Bytes::from));
    }
    let mut message = Message { key: key.map(Payload::from), headers, payload: Payload::from(payload) };
    let found = Found { broker, queue: "orders-dlq" };
    let reading = read(&message, found);
    assert!(reading.error_message.is_none_or(|text| text.len() <= limits::ERROR_MESSAGE));
    assert!(reading.error_stack.is_none_or(|text| text.len() <= limits::ERROR_STACK));
    assert!(reading.error_class.is_none_or(|text| text.len() <= limits::NAME));
    assert!(reading.origin.is_none_or(|origin| origin.queue.len() <= limits::NAME));
    if let Held::Batch(records) = reading.held {
        assert!(records.len() <= BATCH);
    }
    let mapper = Mapper::default();
    if let Some(inside) = unwrapped(&message, Place { dead: found, mapper: &mapper, queue: "orders" }) {
        assert!(inside.payload.0.len() <= message.payload.0.len());
    }
    strip_message(&mut message, broker, &mapper);
    let once = message.clone();
    strip_message(&mut message, broker, &mapper);
    assert_eq!(once, message);
});
