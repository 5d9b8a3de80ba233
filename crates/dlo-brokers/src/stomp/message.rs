//! A STOMP message as ours, and back.
//!
//! What the protocol says of a message (`destination`, `timestamp`, `type`, ...) comes as `stomp:<name>`; every other
//! header is a header. A message without a length was a text, and is sent as one again. The key is the group, and travels in
//! `dlo-key` (base64) beside it: ActiveMQ groups by `JMSXGroupID` and does not show it to STOMP consumers.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dlo_core::broker::PublishError;
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use dlo_core::time::Timestamp;

use super::frame::Frame;
use crate::folded::KEY;

pub(super) const KIND: BrokerKind = BrokerKind::Stomp;
const GROUP: &str = "JMSXGroupID";
const DELAY: &str = "AMQ_SCHEDULED_DELAY";

/// Facts that a producer may set, and that are set again.
const SETTABLE: [&str; 4] = ["correlation-id", "reply-to", "type", "priority"];
/// Facts that only the broker knows, or that are not to be repeated: an expiry of a first life among them.
const TOLD: [&str; 11] = [
    "destination",
    "message-id",
    "expires",
    "persistent",
    "redelivered",
    "timestamp",
    "original-destination",
    "JMSXUserID",
    "browser",
    "scheduledJobId",
    DELAY,
];
/// Words of the protocol that say nothing of the message.
const PROTOCOL: [&str; 7] =
    ["ack", "subscription", "content-length", "receipt", "transaction", "id", "selector"];

pub(super) fn queue(name: &str) -> String {
    format!("/queue/{name}")
}

/// What came, with when it was published.
pub(super) fn decode(frame: Frame) -> (Message, Option<Timestamp>) {
    let published = frame.header("timestamp").and_then(|text| text.parse().ok()).map(Timestamp::from_millis);
    let text = frame.header("content-length").is_none();
    let mut headers = Headers::new();
    let mut key = None;
    for (name, value) in frame.headers {
        match &*name {
            GROUP => {
                key.get_or_insert_with(|| Payload::from(value));
            }
            KEY => key = STANDARD.decode(&value).ok().map(Payload::from),
            name if PROTOCOL.contains(&name) => {}
            name if SETTABLE.contains(&name) || TOLD.contains(&name) => {
                headers.push_transport(KIND, name, value)
            }
            _ => headers.push_text(name, value),
        }
    }
    if text {
        headers.push_transport(KIND, "body", "text");
    }
    (Message { key, headers, payload: Payload(frame.body) }, published)
}

/// The frame that sends `message` to a queue, visible after `delay`.
pub(super) fn encode(to: &str, message: &Message, delay: Option<Duration>) -> Result<Frame, PublishError> {
    let mut frame = Frame::new("SEND").with("destination", queue(to)).with("persistent", "true");
    for name in SETTABLE {
        if let Some(value) = message.headers.transport(KIND, name) {
            frame = frame.with(name, value);
        }
    }
    if let Some(delay) = delay {
        // Rounded up: a delay that is kept is not shorter than asked.
        let millis = delay.as_nanos().div_ceil(1_000_000).max(1);
        frame = frame.with(DELAY, millis.to_string());
    }
    if let Some(key) = &message.key {
        if let Ok(text) = std::str::from_utf8(&key.0) {
            frame = frame.with(GROUP, text);
        }
        frame = frame.with(KEY, STANDARD.encode(&key.0));
    }
    for header in message.headers.on_wire() {
        let refused = |why: &str| PublishError::Refused(format!("header `{}`: {why}", header.name));
        if header.value.is_none() {
            return Err(refused("STOMP has no headers without a value"));
        }
        let value = header.text().ok_or_else(|| refused("STOMP carries UTF-8 text only"))?;
        if frame.header(&header.name).is_some() || is_reserved(&header.name) {
            return Err(refused("there twice, or a word of STOMP itself"));
        }
        frame = frame.with(&header.name, value);
    }
    let body = &message.payload.0;
    if message.headers.transport(KIND, "body") != Some("text") || !is_text(body) {
        frame = frame.with("content-length", body.len().to_string());
    }
    frame.body = body.clone();
    Ok(frame)
}

fn is_reserved(name: &str) -> bool {
    PROTOCOL.contains(&name)
        || SETTABLE.contains(&name)
        || TOLD.contains(&name)
        || [GROUP, KEY].contains(&name)
}

/// Whether a body may go without its length, which makes it a text at the broker.
fn is_text(body: &Bytes) -> bool {
    !body.contains(&0) && std::str::from_utf8(body).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(message: &Message) -> Message {
        decode(encode("orders", message, None).unwrap()).0
    }

    #[test]
    fn a_foreign_text_is_a_text_again_with_what_its_producer_set() {
        let mut frame = Frame::new("MESSAGE")
            .with("destination", "/queue/DLQ.orders")
            .with("original-destination", "/queue/orders")
            .with("message-id", "ID:1")
            .with("correlation-id", "c-1")
            .with("timestamp", "1700000000000")
            .with("expires", "1")
            .with("JMSXGroupID", "C-441")
            .with("tenant", "acme");
        frame.body = Bytes::from_static(b"{}");
        let (message, published) = decode(frame);
        assert_eq!(published, Some(Timestamp::from_millis(1_700_000_000_000)));
        assert_eq!(message.headers.transport(KIND, "original-destination"), Some("/queue/orders"));
        assert_eq!(
            (message.headers.text("tenant"), &message.key),
            (Some("acme"), &Some(Payload::from("C-441")))
        );
        let sent = encode("orders", &message, None).unwrap();
        assert_eq!((sent.header("correlation-id"), sent.header("JMSXGroupID")), (Some("c-1"), Some("C-441")));
        assert_eq!((sent.header("content-length"), sent.header("expires")), (None, None));
        assert_eq!(sent.header("original-destination"), None);
    }

    #[test]
    fn bytes_and_keys_that_are_no_text_come_back_as_they_were() {
        let key = Some(Payload::from(&b"k\x00\xff"[..]));
        let message = Message { key, payload: Payload::from(&b"\x00\xff"[..]), ..Message::default() };
        let back = round_trip(&message);
        assert_eq!((back.key, back.payload), (message.key, message.payload));
    }

    #[test]
    fn a_text_that_was_edited_into_bytes_keeps_all_of_them() {
        let mut message = Message { payload: Payload::from(&b"a\x00b"[..]), ..Message::default() };
        message.headers.push_transport(KIND, "body", "text");
        assert_eq!(round_trip(&message).payload, message.payload);
    }

    #[test]
    fn what_stomp_cannot_carry_is_refused_by_name() {
        let refused = |name: &str, value: Option<&'static [u8]>| {
            let mut message = Message::default();
            message.headers.push(name, value.map(Bytes::from_static));
            encode("orders", &message, None).unwrap_err().to_string()
        };
        assert!(refused("b", Some(b"\xff")).contains("`b`"));
        assert!(refused("a", None).contains("without a value"));
        assert!(refused("receipt", Some(b"1")).contains("word of STOMP"));
    }

    #[test]
    fn a_delay_is_rounded_up_to_whole_milliseconds() {
        let frame = encode("orders", &Message::default(), Some(Duration::from_micros(1_500_100))).unwrap();
        assert_eq!(frame.header("AMQ_SCHEDULED_DELAY"), Some("1501"));
    }
}
