//! Spring Kafka's `@RetryableTopic`: the first origin is kept, the last failure is told. The attempts header holds attempts
//! so far plus one, four bytes or, from older versions, one; its times are Java `BigInteger`s.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::super::{number, time};
use super::not_understood;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "spring.retrytopic",
    writer: Writer::Client,
    marks: &[Mark::Name("kafka_original-topic"), Mark::Name("retry_topic-attempts")],
    strip: &[
        Mark::Prefix("kafka_original-"),
        Mark::Prefix("kafka_exception-"),
        Mark::Prefix("kafka_key-exception-"),
        Mark::Prefix("retry_topic-"),
    ],
    read,
};

/// More attempts than any retry topic is set up for: then it was no number.
const MOST_ATTEMPTS: i64 = 10_000;

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.header(name);
    let class = header("kafka_exception-cause-fqcn")
        .or(header("kafka_exception-fqcn"))
        .or(header("kafka_key-exception-fqcn"))
        .class();
    let first = header("retry_topic-original-timestamp").big_integer().and_then(time::millis);
    Some(Reading {
        origin: view.kafka(
            header("kafka_original-topic").name(),
            header("kafka_original-partition").big_endian().and_then(number::partition),
            header("kafka_original-offset").big_endian(),
        ),
        consumer: header("kafka_dlt-original-consumer-group").name(),
        reason: not_understood(class.as_deref()),
        error_class: class,
        error_message: header("kafka_exception-message").or(header("kafka_key-exception-message")).message(),
        error_stack: header("kafka_exception-stacktrace")
            .or(header("kafka_key-exception-stacktrace"))
            .stack(),
        attempts: attempts(header("retry_topic-attempts").bytes()),
        published_at: header("kafka_original-timestamp").big_endian().and_then(time::millis).or(first),
        ..Reading::default()
    })
}

/// The header numbers the attempt to come: those before it failed.
fn attempts(bytes: Option<&[u8]>) -> Option<u32> {
    let number = match bytes? {
        [one] => i64::from(*one),
        more => number::big_endian(more)?,
    };
    let number = if (1..=MOST_ATTEMPTS).contains(&number) { number } else { 1 };
    u32::try_from(number).ok().map(|number| number.saturating_sub(1).max(1))
}
