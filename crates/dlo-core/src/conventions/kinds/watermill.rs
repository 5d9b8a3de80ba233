//! Watermill's poison queue: error, topic, handler and subscriber; no count, no time, no stack.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "watermill",
    writer: Writer::Client,
    marks: &[Mark::Name("reason_poisoned")],
    strip: &[
        Mark::Name("reason_poisoned"),
        Mark::Name("topic_poisoned"),
        Mark::Name("handler_poisoned"),
        Mark::Name("subscriber_poisoned"),
        Mark::Prefix("_watermill_delayed_"),
        Mark::Prefix("_watermill_requeuer_"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    Some(Reading {
        origin: view.queue(view.header("topic_poisoned").name()),
        message_id: view.header("_watermill_message_uuid").id(),
        consumer: view.header("handler_poisoned").name(),
        consumer_id: view.header("subscriber_poisoned").id(),
        error_message: view.header("reason_poisoned").message(),
        attempts: view.header("_watermill_requeuer_retries").count(),
        ..Reading::default()
    })
}
