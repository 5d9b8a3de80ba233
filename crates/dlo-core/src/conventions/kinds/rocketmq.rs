//! Apache RocketMQ: the consumer group is in the name of the dead-letter topic, the real topic in `RETRY_TOPIC`.

use super::super::Reading;
use super::super::catalogue::{Convention, Mark, Writer};
use super::super::view::View;

pub(in super::super) const CONVENTION: Convention = Convention {
    id: "rocketmq",
    writer: Writer::Client,
    marks: &[
        Mark::Queue("%DLQ%"),
        Mark::Queue("%RETRY%"),
        Mark::Name("DLQ_ORIGIN_TOPIC"),
        Mark::Name("RETRY_TOPIC"),
    ],
    strip: &[
        Mark::Name("RETRY_TOPIC"),
        Mark::Name("RECONSUME_TIME"),
        Mark::Name("MAX_RECONSUME_TIMES"),
        Mark::Name("DLQ_ORIGIN_TOPIC"),
        Mark::Name("DLQ_ORIGIN_MESSAGE_ID"),
        Mark::Name("DELAY"),
    ],
    read,
};

fn read(view: &View<'_>) -> Option<Reading> {
    let queue = view.found.queue;
    let group = queue.strip_prefix("%DLQ%").or_else(|| queue.strip_prefix("%RETRY%"));
    let topic = view.any_header(&["DLQ_ORIGIN_TOPIC", "RETRY_TOPIC", "REAL_TOPIC"]).name();
    if group.is_none() && topic.is_none() {
        return None;
    }
    let message_id = view.any_header(&["DLQ_ORIGIN_MESSAGE_ID", "ORIGIN_MESSAGE_ID"]).id();
    Some(Reading {
        origin: view.queue(topic).map(|origin| crate::origin::Origin { message_id, ..origin }),
        consumer: group.map(str::to_owned),
        attempts: view.header("RECONSUME_TIME").count(),
        ..Reading::default()
    })
}
