//! Kafka Connect with `errors.deadletterqueue.context.headers.enable`: all text, numbers in decimal. The message may be null;
//! a record that failed in two connectors has every header twice.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;
use crate::reason::Reason;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "connect",
    writer: Writer::Client,
    marks: &[Mark::Prefix("__connect.errors.")],
    strip: &[Mark::Prefix("__connect.errors.")],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let header = |name: &str| view.prefixed("__connect.errors.", name);
    let stage = header("stage").name();
    let converter = stage.as_deref().is_some_and(|stage| stage.ends_with("_CONVERTER"));
    Some(Reading {
        origin: view.kafka(
            header("topic").name(),
            header("partition").partition(),
            header("offset").decimal(),
        ),
        consumer: header("connector.name").name(),
        consumer_id: header("task.id").id(),
        error_class: header("exception.class.name").or(header("class.name")).class(),
        error_message: header("exception.message").message(),
        error_stack: header("exception.stacktrace").stack(),
        reason: converter.then_some(Reason::DeserializationError),
        error_code: stage,
        ..Reading::default()
    })
}
