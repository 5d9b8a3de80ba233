//! Micronaut Kafka: all text.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::not_understood;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "micronaut",
    writer: Writer::Client,
    marks: &[Mark::Name("micronaut-kafka-original-topic"), Mark::Name("micronaut-kafka-exception-class")],
    strip: &[Mark::Prefix("micronaut-kafka-")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.prefixed("micronaut-kafka-", name);
    let class = header("exception-class").class();
    Some(Reading {
        origin: view.kafka(
            header("original-topic").name(),
            header("original-partition").partition(),
            header("original-offset").decimal(),
        ),
        reason: not_understood(class.as_deref()),
        error_class: class,
        error_message: header("exception-message").message(),
        ..Reading::default()
    })
}
