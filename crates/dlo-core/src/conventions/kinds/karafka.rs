//! Karafka Pro: all text. The open-source edition writes nothing.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "karafka.pro",
    writer: Writer::Client,
    marks: &[Mark::Name("source_attempts")],
    strip: &[
        Mark::Name("source_topic"),
        Mark::Name("source_partition"),
        Mark::Name("source_offset"),
        Mark::Name("source_consumer_group"),
        Mark::Name("source_attempts"),
        Mark::Name("source_trace_id"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.prefixed("source_", name);
    let topic = header("topic").name()?;
    Some(Reading {
        origin: view.kafka(Some(topic), header("partition").partition(), header("offset").decimal()),
        consumer: header("consumer_group").name(),
        attempts: header("attempts").count(),
        trace_id: header("trace_id").id(),
        ..Reading::default()
    })
}
