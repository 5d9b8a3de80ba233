//! A message as an HTTP request: the payload is the body, everything else is in headers.
//!
//! HTTP carries less than brokers do: names in lower case from a small alphabet, values without control characters,
//! and servers take a few kilobytes of them. So names and values are percent-encoded as CloudEvents' HTTP binding
//! does it, and headers beyond the bounds are left out and counted. In a batch nothing is left out.

use dlo_core::message::{Header, Headers, Message, is_transport, transport_fact};
use dlo_core::origin::Origin;
use dlo_core::time::Timestamp;
use hyper::HeaderMap;
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};

use crate::handler::Context;

/// Headers of a message that one request carries. Python's server takes 100 in all.
pub(super) const MOST_HEADERS: usize = 64;
/// Bytes of them, encoded. Tomcat and Jetty take 8 KiB in all.
pub(super) const MOST_BYTES: usize = 6 * 1024;

const MESSAGE_ID: HeaderName = HeaderName::from_static("dlo-message-id");
const QUEUE: HeaderName = HeaderName::from_static("dlo-queue");
const KEY: HeaderName = HeaderName::from_static("dlo-key");
const ATTEMPT: HeaderName = HeaderName::from_static("dlo-attempt");
const DEADLINE: HeaderName = HeaderName::from_static("dlo-deadline");
const REPLAYED_FROM: HeaderName = HeaderName::from_static("x-replayed-from-dlq");
const REPLAY_ID: HeaderName = HeaderName::from_static("dlo-replay-id");
const LEFT_OUT: HeaderName = HeaderName::from_static("dlo-headers-left-out");
/// Passed on under their own names: tracing works without knowing us.
const TRACING: [HeaderName; 2] =
    [HeaderName::from_static("traceparent"), HeaderName::from_static("tracestate")];

/// Adds everything about the message but its body.
pub(super) fn headers(message: &Message, context: &Context, now: Timestamp, into: &mut HeaderMap) {
    put(into, CONTENT_TYPE, content_type(message).as_bytes());
    put(into, MESSAGE_ID, message_id(&context.origin).as_bytes());
    put(into, QUEUE, context.origin.queue.as_bytes());
    if let Some(key) = &message.key {
        put(into, KEY, &key.0);
    }
    into.insert(ATTEMPT, HeaderValue::from(context.attempt.number()));
    put(into, DEADLINE, now.plus(context.timeout).to_string().as_bytes());
    if let Some(mark) = &context.replay {
        if let Some(letter) = mark.letter {
            put(into, REPLAYED_FROM, letter.to_string().as_bytes());
        }
        put(into, REPLAY_ID, mark.replay_id.as_bytes());
    }
    for name in TRACING {
        if let Some(text) = message.headers.text(name.as_str()) {
            put(into, name, text.as_bytes());
        }
    }
    originals(&message.headers, into);
}

/// The message's own headers: those of a CloudEvent under its names, the others as `dlo-header-<name>`.
fn originals(headers: &Headers, into: &mut HeaderMap) {
    let (mut count, mut bytes, mut left_out) = (0, 0, 0_u32);
    for header in headers.iter().filter(|header| is_the_producers(header)) {
        let name = match cloud_event(&header.name) {
            Some(attribute) => encoded("ce-", attribute.as_bytes(), is_token),
            None => encoded("dlo-header-", header.name.as_bytes(), is_token),
        };
        let value = encoded("", header.value.as_deref().unwrap_or_default(), is_plain);
        let size = name.len() + value.len();
        let parsed = (HeaderName::try_from(name), HeaderValue::try_from(value));
        match parsed {
            (Ok(name), Ok(value)) if count < MOST_HEADERS && bytes + size <= MOST_BYTES => {
                count += 1;
                bytes += size;
                into.append(name, value);
            }
            _ => left_out += 1,
        }
    }
    if left_out > 0 {
        into.insert(LEFT_OUT, HeaderValue::from(left_out));
    }
}

/// Not a fact of the transport, not what the office or this runtime wrote, not what is sent under its own name.
pub(super) fn is_the_producers(header: &Header) -> bool {
    let name = header.name.as_str();
    let ours = name.get(..4).is_some_and(|begin| begin.eq_ignore_ascii_case("dlo-"))
        || name.eq_ignore_ascii_case(REPLAYED_FROM.as_str());
    let otherwise = name.eq_ignore_ascii_case(CONTENT_TYPE.as_str())
        || TRACING.iter().any(|own| name.eq_ignore_ascii_case(own.as_str()));
    !ours && !otherwise && !is_transport(name)
}

/// The attribute that a header of a CloudEvent carries, in the spellings of the Kafka, NATS and AMQP bindings.
fn cloud_event(name: &str) -> Option<&str> {
    const PREFIXES: [&str; 4] = ["ce_", "ce-", "cloudEvents:", "cloudEvents_"];
    PREFIXES.iter().find_map(|prefix| {
        let begin = name.get(..prefix.len())?;
        begin.eq_ignore_ascii_case(prefix).then(|| &name[prefix.len()..]).filter(|rest| !rest.is_empty())
    })
}

/// What the message says of its body; else JSON if it looks like it, which saves handlers a guess.
pub(super) fn content_type(message: &Message) -> &str {
    let by_header =
        message.headers.text(CONTENT_TYPE.as_str()).or_else(|| message.headers.text("contentType"));
    let by_transport = || {
        let named = |header: &&Header| transport_fact(&header.name) == Some(CONTENT_TYPE.as_str());
        message.headers.iter().filter(named).last().and_then(Header::text)
    };
    let said = by_header.or_else(by_transport).filter(|kind| !kind.is_empty() && kind.len() <= 256);
    said.unwrap_or_else(|| match message.payload.0.trim_ascii() {
        [b'{', .., b'}'] | [b'[', .., b']'] => "application/json",
        _ => "application/octet-stream",
    })
}

/// The broker's id of a message; in a log its partition and offset.
pub(super) fn message_id(origin: &Origin) -> String {
    match (&origin.message_id, origin.partition, origin.offset) {
        (Some(id), _, _) => id.clone(),
        (None, Some(partition), Some(offset)) => format!("{partition}-{offset}"),
        (None, None, Some(offset)) => offset.to_string(),
        (None, _, None) => String::new(),
    }
}

fn put(into: &mut HeaderMap, name: HeaderName, value: &[u8]) {
    // What is plain already goes as it is: a media type or a time has no use for encoding.
    let made = if value.iter().all(|byte| (0x20..0x7f).contains(byte) && *byte != b'%') {
        HeaderValue::from_bytes(value.trim_ascii())
    } else {
        HeaderValue::try_from(encoded("", value, is_plain))
    };
    if let Ok(value) = made
        && !value.is_empty()
    {
        into.insert(name, value);
    }
}

/// `prefix`, then the bytes, each that does not pass as `%` and two digits.
fn encoded(prefix: &str, bytes: &[u8], passes: fn(u8) -> bool) -> String {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut text = String::with_capacity(prefix.len() + bytes.len());
    text.push_str(prefix);
    for byte in bytes {
        if passes(*byte) {
            text.push(char::from(*byte));
        } else {
            text.push('%');
            text.push(char::from(DIGITS[usize::from(byte >> 4)]));
            text.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    text
}

/// What CloudEvents leaves as it is in a header's value.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, 0x21..=0x7e) && !matches!(byte, b'"' | b'%')
}

/// What HTTP allows in a header's name, but for `%`.
const fn is_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric()
        || matches!(
            byte,
            b'!' | b'#' | b'$' | b'&' | b'\'' | b'*' | b'+' | b'-' | b'.' | b'^' | b'_' | b'`' | b'|' | b'~'
        )
}

#[cfg(test)]
mod tests;
