//! Spring Cloud Stream's Kafka binder: Spring's encodings under other names. Both marks are needed, since
//! `x-original-topic` alone is what many write by hand.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::super::{number, time};
use super::not_understood;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "scs.kafka",
    writer: Writer::Client,
    marks: &[Mark::Name("x-exception-fqcn")],
    strip: &[
        Mark::Name("x-original-topic"),
        Mark::Name("x-original-partition"),
        Mark::Name("x-original-offset"),
        Mark::Name("x-original-timestamp"),
        Mark::Name("x-original-timestamp-type"),
        Mark::Prefix("x-exception-"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.header(name);
    let topic = header("x-original-topic").name()?;
    let class = header("x-exception-fqcn").class();
    Some(Reading {
        origin: view.kafka(
            Some(topic),
            header("x-original-partition").big_endian().and_then(number::partition),
            header("x-original-offset").big_endian(),
        ),
        reason: not_understood(class.as_deref()),
        error_class: class,
        error_message: header("x-exception-message").message(),
        error_stack: header("x-exception-stacktrace").stack(),
        published_at: header("x-original-timestamp").big_endian().and_then(time::millis),
        ..Reading::default()
    })
}
