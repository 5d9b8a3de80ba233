//! Apache Pulsar: properties of the client's retry and dead-letter producers. The Go client can leave the topic empty; then
//! the dead-letter topic's name, `<topic>-<subscription>-DLQ`, still tells it.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "pulsar",
    writer: Writer::Client,
    marks: &[
        Mark::Name("REAL_TOPIC"),
        Mark::Name("ORIGIN_MESSAGE_ID"),
        Mark::Name("ORIGIN_MESSAGE_IDY_TIME"),
        Mark::Name("REAL_SUBSCRIPTION"),
    ],
    strip: &[
        Mark::Name("REAL_TOPIC"),
        Mark::Name("REAL_SUBSCRIPTION"),
        Mark::Name("ORIGIN_MESSAGE_ID"),
        Mark::Name("ORIGIN_MESSAGE_IDY_TIME"),
        Mark::Name("RECONSUMETIMES"),
        Mark::Name("DELAY_TIME"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    if view.has("RETRY_TOPIC") || view.has("DLQ_ORIGIN_TOPIC") || view.found.queue.starts_with('%') {
        // RocketMQ has taken over two of the names.
        return None;
    }
    let subscription = view.header("REAL_SUBSCRIPTION").name();
    let topic =
        view.header("REAL_TOPIC").name().or_else(|| by_name(view.found.queue, subscription.as_deref()));
    let message_id = view.any_header(&["ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_IDY_TIME"]).id();
    Some(Reading {
        origin: view.queue(topic).map(|origin| crate::origin::Origin { message_id, ..origin }),
        consumer: subscription,
        attempts: view.header("RECONSUMETIMES").count(),
        ..Reading::default()
    })
}

fn by_name(queue: &str, subscription: Option<&str>) -> Option<String> {
    let bare = queue.strip_suffix("-DLQ").or_else(|| queue.strip_suffix("-RETRY"))?;
    bare.strip_suffix(subscription?)?.strip_suffix('-').map(str::to_owned)
}
