//! Benthos and Redpanda Connect: a fallback output writes the error of the one before it.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "benthos",
    writer: Writer::Client,
    marks: &[Mark::Name("fallback_error")],
    strip: &[Mark::Name("fallback_error")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.header(name);
    Some(Reading {
        // Its Kafka input leaves the coordinates as metadata, which outputs write as headers where told to.
        origin: view.kafka(
            header("kafka_topic").name(),
            header("kafka_partition").partition(),
            header("kafka_offset").decimal(),
        ),
        error_message: header("fallback_error").message(),
        ..Reading::default()
    })
}
