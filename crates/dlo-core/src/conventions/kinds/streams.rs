//! Kafka Streams' dead-letter handler (KIP-1034). Early builds wrote class and message as one text.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use super::not_understood;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "streams",
    writer: Writer::Client,
    marks: &[Mark::Prefix("__streams.errors.")],
    strip: &[Mark::Prefix("__streams.errors.")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.prefixed("__streams.errors.", name);
    let exception = header("exception").class();
    let (class, rest) = match exception.as_deref().and_then(|text| text.split_once(": ")) {
        Some((class, rest)) => (Some(class.to_owned()), Some(rest.to_owned())),
        None => (exception, None),
    };
    Some(Reading {
        origin: view.kafka(
            header("topic").name(),
            header("partition").partition(),
            header("offset").decimal(),
        ),
        consumer_id: header("task.id").id(),
        reason: not_understood(class.as_deref()),
        error_class: class,
        error_message: header("message").message().or(rest),
        error_stack: header("stacktrace").stack(),
        error_code: header("processor.node.id").class(),
        ..Reading::default()
    })
}
