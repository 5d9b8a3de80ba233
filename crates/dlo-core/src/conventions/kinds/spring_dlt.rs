//! Spring Kafka's `DeadLetterPublishingRecoverer`: numbers are big-endian bytes, and `original` headers repeat, one set
//! a hop, of which the last is current. The class is usually a wrapper, so the cause speaks where it is named.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::super::{number, time};
use super::not_understood;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "spring.dlt",
    writer: Writer::Client,
    marks: &[Mark::Name("kafka_dlt-original-topic"), Mark::Name("kafka_dlt-exception-fqcn")],
    strip: &[
        Mark::Prefix("kafka_dlt-"),
        Mark::Name("kafka_deliveryAttempt"),
        Mark::Name("kafka_listenerInfo"),
        Mark::Prefix("springDeserializerException"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.header(name);
    let class = header("kafka_dlt-exception-cause-fqcn")
        .or(header("kafka_dlt-exception-fqcn"))
        .or(header("kafka_dlt-key-exception-fqcn"))
        .or(header("springDeserializerExceptionValue"))
        .class();
    Some(Reading {
        origin: view.kafka(
            header("kafka_dlt-original-topic").name(),
            header("kafka_dlt-original-partition").big_endian().and_then(number::partition),
            header("kafka_dlt-original-offset").big_endian(),
        ),
        consumer: header("kafka_dlt-original-consumer-group").name(),
        reason: not_understood(class.as_deref())
            .or_else(|| not_understood(header("kafka_dlt-exception-fqcn").text())),
        error_class: class,
        error_message: header("kafka_dlt-exception-message")
            .or(header("kafka_dlt-key-exception-message"))
            .message(),
        error_stack: header("kafka_dlt-exception-stacktrace")
            .or(header("kafka_dlt-key-exception-stacktrace"))
            .stack(),
        attempts: header("kafka_deliveryAttempt").big_endian().and_then(|count| u32::try_from(count).ok()),
        published_at: header("kafka_dlt-original-timestamp").big_endian().and_then(time::millis),
        ..Reading::default()
    })
}
