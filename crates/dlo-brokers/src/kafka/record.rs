//! A Kafka record as our message, and back, byte for byte.
//!
//! Kafka keeps headers in order, repeated, binary and absent; so do we. A record without a value is a tombstone,
//! which is not the same as an empty value: `kafka:tombstone` says so, and makes a tombstone of it again.

use bytes::Bytes;
use dlo_core::broker::Seen;
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::time::Timestamp;
use rdkafka::message::{BorrowedMessage, Header, Message as _, OwnedHeaders};

use super::{native, retry};

const TOMBSTONE: &str = "tombstone";

/// The message in a record: each byte is copied once.
pub(super) fn message(record: &BorrowedMessage<'_>) -> Message {
    let mut headers = Headers::new();
    native::each_header(record, |name, value| {
        headers.push(String::from_utf8_lossy(name), value.map(Bytes::copy_from_slice));
    });
    let payload = match record.payload() {
        Some(bytes) => Bytes::copy_from_slice(bytes),
        None => {
            headers.push_transport(BrokerKind::Kafka, TOMBSTONE, "true");
            Bytes::new()
        }
    };
    let key = record.key().map(|bytes| Payload(Bytes::copy_from_slice(bytes)));
    Message { key, headers, payload: Payload(payload) }
}

pub(super) fn published_at(record: &BorrowedMessage<'_>) -> Option<Timestamp> {
    record.timestamp().to_millis().map(Timestamp::from_millis)
}

/// Where a record stands.
pub(super) fn origin(queue: &str, incarnation: Option<&str>, partition: i32, offset: i64) -> Origin {
    Origin {
        incarnation: incarnation.map(ToOwned::to_owned),
        ..Origin::log(BrokerKind::Kafka, queue, partition, offset)
    }
}

pub(super) fn seen(record: &BorrowedMessage<'_>, queue: &str, incarnation: Option<&str>) -> Seen {
    Seen {
        message: message(record),
        origin: origin(queue, incarnation, record.partition(), record.offset()),
        published_at: published_at(record),
    }
}

/// The headers that go on the wire, and the ticket of a retry behind them. A name with a zero byte cannot be carried.
pub(super) fn wire_headers(headers: &Headers, ticket: Option<&[u8]>) -> Result<Option<OwnedHeaders>, String> {
    let mut wire = None;
    for header in headers.on_wire() {
        if header.name.contains('\0') {
            return Err(
                "a header's name has a zero byte in it, which Kafka's clients cannot carry".to_owned()
            );
        }
        let all = wire.take().unwrap_or_else(|| OwnedHeaders::new_with_capacity(headers.len()));
        wire = Some(all.insert(Header { key: &header.name, value: header.value.as_deref() }));
    }
    if let Some(ticket) = ticket {
        let all = wire.take().unwrap_or_default();
        wire = Some(all.insert(Header { key: retry::HEADER, value: Some(ticket) }));
    }
    Ok(wire)
}

/// The value that goes on the wire: none for what came as a tombstone and is still empty.
pub(super) fn wire_value(message: &Message) -> Option<&[u8]> {
    let tombstone = message.headers.transport(BrokerKind::Kafka, TOMBSTONE).is_some();
    (!(tombstone && message.payload.0.is_empty())).then_some(&*message.payload.0)
}

/// Bytes of a message as they are counted here: key, payload, and names and values of what goes on the wire.
pub(super) fn size(message: &Message) -> usize {
    let headers: usize =
        message.headers.on_wire().map(|h| h.name.len() + h.value.as_ref().map_or(0, Bytes::len)).sum();
    message.payload.0.len() + message.key.as_ref().map_or(0, |key| key.0.len()) + headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tombstone_stays_one_unless_it_was_given_a_value() {
        let mut message = Message::default();
        assert_eq!(wire_value(&message), Some(&b""[..]));
        message.headers.push_transport(BrokerKind::Kafka, TOMBSTONE, "true");
        assert_eq!(wire_value(&message), None);
        message.payload = Payload::from("repaired");
        assert_eq!(wire_value(&message), Some(&b"repaired"[..]));
    }

    #[test]
    fn facts_of_transports_are_not_sent_and_a_zero_byte_in_a_name_is_refused() {
        let mut headers = Headers::new();
        headers.push_transport(BrokerKind::Rabbitmq, "exchange", "x");
        assert!(wire_headers(&headers, None).unwrap().is_none());
        headers.push_text("a\0b", "x");
        assert!(wire_headers(&headers, None).is_err());
    }
}
