//! Headers both ways. NATS headers are lines of text: a name without colons, a value on one line without blanks around.
//!
//! What does not fit on a line (a stack trace, bytes, an absent value) travels in one more header, `dlo-encoded`:
//! JSON, a list of `[name, value]`, where a value is text, `[base64]` or `null`. All values of a name go the same way,
//! so repeated ones stay in their order. The key of a message is the header `dlo-key`. Headers that begin with `Nats-`
//! are commands to the server: they are shown to readers and never sent again.
//!
//! The client keeps headers in a map, so their order is not kept; they come sorted by name.

use async_nats::HeaderMap;
use async_nats::header::{HeaderName, HeaderValue};
use bytes::Bytes;
use dlo_core::message::{Header, Headers, Message, Payload};

use crate::folded::{KEY, fold, unfold};

const ENCODED: &str = "dlo-encoded";
const MESSAGE_ID: &str = "Nats-Msg-Id";
const COMMANDS: &str = "nats-";

/// What is sent of a message's headers and key; `id` is what the server knows a repeated send by.
pub(super) fn to_wire(message: &Message, id: Option<&str>) -> HeaderMap {
    let key = message.key.as_ref().map(|key| Header { name: KEY.to_owned(), value: Some(key.0.clone()) });
    let all: Vec<&Header> =
        message.headers.on_wire().filter(|header| is_sent(&header.name)).chain(&key).collect();
    let odd: Vec<&str> =
        all.iter().filter(|header| line(header).is_none()).map(|header| header.name.as_str()).collect();
    let mut wire = HeaderMap::new();
    let mut folded = Vec::new();
    for header in all {
        match line(header) {
            Some((name, value)) if !odd.contains(&header.name.as_str()) => wire.append(name, value),
            Some(_) | None => folded.push(header),
        }
    }
    if !folded.is_empty()
        && let Ok(value) = fold(folded).parse::<HeaderValue>()
    {
        wire.append(ENCODED, value);
    }
    if let Some(value) = id.and_then(|id| id.parse::<HeaderValue>().ok()) {
        wire.append(MESSAGE_ID, value);
    }
    wire
}

/// Bytes that these headers have on the wire.
pub(super) fn wire_size(headers: &HeaderMap) -> usize {
    let lines = headers.iter().flat_map(|(name, values)| values.iter().map(move |value| (name, value)));
    let each = lines.map(|(name, value)| AsRef::<str>::as_ref(name).len() + value.as_str().len() + 4);
    each.sum::<usize>() + "NATS/1.0\r\n\r\n".len()
}

/// A name of the server's own is no header of the message; nor is what we would write ourselves.
fn is_sent(name: &str) -> bool {
    let command = name.get(..COMMANDS.len()).is_some_and(|start| start.eq_ignore_ascii_case(COMMANDS));
    !command && name != ENCODED && name != KEY
}

/// The header as the client takes it, if it comes back as it went.
fn line(header: &Header) -> Option<(HeaderName, HeaderValue)> {
    let value = header.text()?;
    if header.name.is_empty() || value.trim() != value || value.contains(char::is_control) {
        return None;
    }
    Some((header.name.parse().ok()?, value.parse().ok()?))
}

/// The message whose headers came as the client reads them.
pub(super) fn from_map(headers: Option<&HeaderMap>, payload: Bytes) -> Message {
    let lines = headers.into_iter().flat_map(HeaderMap::iter).flat_map(|(name, values)| {
        values.iter().map(move |value| Header {
            name: AsRef::<str>::as_ref(name).to_owned(),
            value: Some(Bytes::copy_from_slice(value.as_str().as_bytes())),
        })
    });
    from_lines(lines.collect(), payload)
}

/// The message whose headers came as the server stores them: a version line, then one header a line.
pub(super) fn from_block(block: &[u8], payload: Bytes) -> Message {
    let mut headers: Vec<Header> = Vec::new();
    for line in block.split(|byte| *byte == b'\n').skip(1) {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let name = String::from_utf8_lossy(&line[..colon]).into_owned();
        let value = Bytes::copy_from_slice(line[colon + 1..].trim_ascii());
        headers.push(Header { name, value: Some(value) });
    }
    from_lines(headers, payload)
}

fn from_lines(lines: Vec<Header>, payload: Bytes) -> Message {
    let mut headers = Vec::with_capacity(lines.len() + 2);
    for header in lines {
        match (header.name == ENCODED).then(|| header.text().and_then(unfold)).flatten() {
            Some(hidden) => headers.extend(hidden),
            None => headers.push(header),
        }
    }
    headers.sort_by(|one, other| one.name.cmp(&other.name));
    let key = headers.iter().position(|header| header.name == KEY);
    let key = key.and_then(|at| headers.remove(at).value).map(Payload);
    Message { key, headers: Headers(headers), payload: Payload(payload) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn there_and_back(message: &Message) -> Message {
        from_map(Some(&to_wire(message, None)), message.payload.0.clone())
    }

    fn sorted(message: &Message) -> Message {
        let mut message = message.clone();
        message.headers.0.sort_by(|one, other| one.name.cmp(&other.name));
        message
    }

    #[test]
    fn a_stack_trace_travels_whole_and_plain_headers_stay_plain() {
        let mut message = Message::default();
        message.headers.push_text("tenant", "acme");
        message.headers.push_text("dlo-error-stack", "at a\n\tat b\n");
        let wire = to_wire(&message, Some("id-1"));
        assert_eq!(wire.get("tenant").map(HeaderValue::as_str), Some("acme"));
        assert_eq!(wire.get(MESSAGE_ID).map(HeaderValue::as_str), Some("id-1"));
        assert!(wire.get("dlo-error-stack").is_none());
        let mut back = there_and_back(&message);
        back.headers.remove_where(|name| name == MESSAGE_ID);
        assert_eq!(back, sorted(&message));
    }

    #[test]
    fn commands_to_the_server_are_not_sent_again() {
        let mut message = Message::default();
        message.headers.push_text("Nats-Msg-Id", "the producer's");
        message.headers.push_text("nats-rollup", "all");
        assert!(to_wire(&message, None).is_empty());
    }

    #[test]
    fn a_stored_block_reads_as_the_client_reads_it() {
        let block = b"NATS/1.0\r\nb: 2\r\na: x\r\nb:3 \r\n\r\n";
        let message = from_block(block, Bytes::new());
        let shown: Vec<_> = message.headers.iter().map(|h| (h.name.as_str(), h.text())).collect();
        assert_eq!(shown, [("a", Some("x")), ("b", Some("2")), ("b", Some("3"))]);
    }

    proptest! {
        #[test]
        fn every_header_and_key_comes_back(
            headers in prop::collection::vec(("[ -~]{0,12}|\\PC{0,4}", prop::option::of(prop::collection::vec(any::<u8>(), 0..20))), 0..8),
            key in prop::option::of(prop::collection::vec(any::<u8>(), 0..20)),
        ) {
            let mut message = Message { key: key.map(|key| Payload(key.into())), ..Message::default() };
            for (name, value) in headers {
                if is_sent(&name) && !dlo_core::message::is_transport(&name) {
                    message.headers.push(name, value.map(Bytes::from));
                }
            }
            prop_assert_eq!(there_and_back(&message), sorted(&message));
        }

        #[test]
        fn no_stored_block_stops_a_reader(block in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = from_block(&block, Bytes::new());
        }
    }
}
