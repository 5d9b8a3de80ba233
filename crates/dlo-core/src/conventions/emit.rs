//! Our story once more in the words of others, so that tools people already have keep reading (an option of the runtime).
//!
//! Written before our own headers are: `envelope::encode` then counts them when it makes the dead letter fit. A message that
//! carries such a story already keeps it: it is somebody else's, of an earlier death. Reading takes what is written here
//! for an echo of our own headers, so that nothing is told twice.

use bytes::Bytes;

use super::catalogue::{ALL, Mark};
use crate::codes::coded;
use crate::envelope::Envelope;
use crate::limits;
use crate::message::Headers;
use crate::time::Timestamp;

coded! {
    /// Whose words.
    pub enum Compatibility as "compatibility" {
        /// `x-retry-count`: how often it was tried again.
        RetryCount = 1 => "retry_count",
        /// `dlq-reason`, `dlq-error-class`, `dlq-original-topic` and their like.
        Dlq = 2 => "dlq",
        /// `__connect.errors.*`, as Kafka Connect writes them.
        Connect = 3 => "connect",
        /// `kafka_dlt-*`, as Spring Kafka writes them, with numbers as bytes. Only for Kafka: other brokers have text headers.
        Spring = 4 => "spring",
    }
}

/// Bytes of a stack that is written once more; the whole one stands in our own headers.
const STACK: usize = 8 * 1024;

/// Writes the story in each of these words.
pub fn emit(words: &[Compatibility], story: &Envelope, headers: &mut Headers) {
    for one in words {
        match one {
            Compatibility::RetryCount => {
                headers.remove_where(|name| name.eq_ignore_ascii_case("x-retry-count"));
                put(headers, "x-retry-count", story.attempts.map(|attempts| attempts.saturating_sub(1)));
            }
            Compatibility::Dlq => dlq(story, headers),
            Compatibility::Connect if !has(headers, "connect") => connect(story, headers),
            Compatibility::Spring if !has(headers, "spring.dlt") => spring(story, headers),
            Compatibility::Connect | Compatibility::Spring => {}
        }
    }
}

fn has(headers: &Headers, id: &str) -> bool {
    let marks = ALL.iter().find(|convention| convention.id == id).map_or(&[] as &[Mark], |found| found.marks);
    headers.iter().any(|header| marks.iter().any(|mark| mark.is(&header.name, false)))
}

fn put(headers: &mut Headers, name: &str, value: Option<impl ToString>) {
    if let Some(value) = value {
        headers.push_text(name, value.to_string());
    }
}

fn put_bytes<const N: usize>(headers: &mut Headers, name: &str, value: Option<[u8; N]>) {
    if let Some(value) = value {
        headers.push(name, Some(Bytes::copy_from_slice(&value)));
    }
}

fn cut(text: Option<&String>, max: usize) -> Option<String> {
    text.cloned().map(|mut text| {
        limits::cut(&mut text, max);
        text
    })
}

fn dlq(story: &Envelope, headers: &mut Headers) {
    headers.remove_where(|name| name.get(..4).is_some_and(|head| head.eq_ignore_ascii_case("dlq-")));
    put(headers, "dlq-reason", story.reason);
    put(headers, "dlq-error-class", cut(story.error_class.as_ref(), limits::NAME));
    put(headers, "dlq-error-message", cut(story.error_message.as_ref(), limits::ERROR_MESSAGE));
    put(headers, "dlq-original-topic", story.origin.queue.as_ref());
    put(headers, "dlq-original-partition", story.origin.partition);
    put(headers, "dlq-original-offset", story.origin.offset);
    put(headers, "dlq-failed-at", story.dead_at.or(story.last_failed_at));
    put(headers, "dlq-attempts", story.attempts);
    put(headers, "dlq-stack", cut(story.error_stack.as_ref(), STACK));
}

fn connect(story: &Envelope, headers: &mut Headers) {
    put(headers, "__connect.errors.topic", story.origin.queue.as_ref());
    put(headers, "__connect.errors.partition", story.origin.partition);
    put(headers, "__connect.errors.offset", story.origin.offset);
    put(headers, "__connect.errors.connector.name", story.consumer_group.as_ref());
    put(headers, "__connect.errors.task.id", story.consumer_id.as_ref());
    put(headers, "__connect.errors.exception.class.name", cut(story.error_class.as_ref(), limits::NAME));
    put(
        headers,
        "__connect.errors.exception.message",
        cut(story.error_message.as_ref(), limits::ERROR_MESSAGE),
    );
    put(headers, "__connect.errors.exception.stacktrace", cut(story.error_stack.as_ref(), STACK));
}

fn spring(story: &Envelope, headers: &mut Headers) {
    let origin = &story.origin;
    put(headers, "kafka_dlt-original-topic", origin.queue.as_ref());
    put_bytes(headers, "kafka_dlt-original-partition", origin.partition.map(i32::to_be_bytes));
    put_bytes(headers, "kafka_dlt-original-offset", origin.offset.map(i64::to_be_bytes));
    let published = origin.timestamp.map(Timestamp::as_millis).map(i64::to_be_bytes);
    put_bytes(headers, "kafka_dlt-original-timestamp", published);
    put(headers, "kafka_dlt-original-consumer-group", story.consumer_group.as_ref());
    put(headers, "kafka_dlt-exception-fqcn", cut(story.error_class.as_ref(), limits::NAME));
    put(headers, "kafka_dlt-exception-message", cut(story.error_message.as_ref(), limits::ERROR_MESSAGE));
    put(headers, "kafka_dlt-exception-stacktrace", cut(story.error_stack.as_ref(), STACK));
}
