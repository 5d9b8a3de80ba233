//! A message as RabbitMQ carries it, as ours, and back.
//!
//! Properties and the route are facts of the transport, `rabbitmq:<property>`; headers are headers. AMQP knows no key: a
//! key travels in the header `dlo-key` and is a key again on this side. How persistent a message is, and when it expires,
//! is what its producer said, but for dead letters: `parked.rs`.

use bytes::Bytes;
use dlo_core::broker::PublishError;
use dlo_core::envelope::is_parked;
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use dlo_core::time::Timestamp;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use serde_json::Value as Json;

use super::config::QueueType;
use super::table::{self, Types};
use super::{hops, parked};
use crate::folded::KEY;

pub(super) const KIND: BrokerKind = BrokerKind::Rabbitmq;
const TYPES: &str = "types";
const TRANSIENT: u8 = 1;
pub(super) const PERSISTENT: u8 = 2;
/// Properties and headers of a message are one frame, and servers take frames of 128 KiB unless told otherwise.
const HEADER_FRAME: usize = 128 * 1024 - 64;
/// The most that properties beside the headers take: ten short strings and a few numbers.
const PROPERTIES: usize = 10 * 256 + 32;
/// The last second of the year 9999: a time beyond it is somebody's milliseconds.
const LAST_SECOND: u64 = 253_402_300_799;

/// One delivery, taken apart.
#[derive(Debug)]
pub(super) struct Received {
    pub(super) message: Message,
    /// What the server counted before this delivery. Quorum queues only, and not on the first delivery to a consumer.
    pub(super) before: Option<u32>,
    /// What was counted before the last hop.
    pub(super) aside: u32,
    pub(super) published_at: Option<Timestamp>,
}

/// Reads what came.
pub(super) fn received(
    exchange: &str,
    routing_key: &str,
    properties: &BasicProperties,
    payload: Bytes,
) -> Received {
    let none = FieldTable::default();
    let raw = properties.headers().as_ref().unwrap_or(&none);
    let undone = hops::undo(raw);
    let (wire, aside) = match &undone {
        Some((table, aside)) => (table, Some(aside)),
        None => (raw, None),
    };
    let mut headers = Headers(Vec::with_capacity(wire.inner().len() + 8));
    let (mut key, mut types) = (None, Types::new());
    for (name, value) in wire {
        match (name.as_str(), value) {
            (hops::X_DELIVERY_COUNT, _) => {}
            (KEY, AMQPValue::LongString(bytes)) => {
                key = Some(Payload(Bytes::copy_from_slice(bytes.as_bytes())))
            }
            (name, value) => {
                let (bytes, kind) = table::read(value);
                if let Some(kind) = kind {
                    types.insert(name.to_owned(), kind);
                }
                headers.push(name, bytes);
            }
        }
    }
    let (exchange, routing_key) = match aside.and_then(|aside| aside.route.as_ref()) {
        Some((exchange, routing_key)) => (exchange.as_str(), routing_key.as_str()),
        None => (exchange, routing_key),
    };
    headers.push_transport(KIND, "exchange", exchange);
    headers.push_transport(KIND, "routing-key", routing_key);
    push_properties(&mut headers, properties);
    if !types.is_empty() {
        headers.push_transport(KIND, TYPES, Json::Object(types).to_string());
    }
    let published_at = properties
        .timestamp()
        .filter(|seconds| *seconds <= LAST_SECOND)
        .and_then(|seconds| Some(Timestamp::from_millis(i64::try_from(seconds).ok()?.checked_mul(1_000)?)));
    let message = Message { key, headers, payload: Payload(payload) };
    let before = raw.inner().get(hops::X_DELIVERY_COUNT).and_then(hops::whole);
    let before = before.map(|count| u32::try_from(count).unwrap_or(u32::MAX));
    Received { message, before, aside: aside.map_or(0, |aside| aside.deliveries), published_at }
}

impl Received {
    /// Which delivery this is, from one; `None` where nobody counts.
    pub(super) fn count(&self, redelivered: bool, queue_type: QueueType) -> Option<u32> {
        let before = match (self.before, queue_type) {
            (Some(before), _) => before,
            (None, QueueType::Quorum) if !redelivered => 0,
            (None, QueueType::Quorum | QueueType::Classic) => return None,
        };
        Some(before.saturating_add(1).saturating_add(self.aside))
    }
}

fn push_properties(headers: &mut Headers, properties: &BasicProperties) {
    let texts = [
        ("content-type", properties.content_type()),
        ("content-encoding", properties.content_encoding()),
        ("correlation-id", properties.correlation_id()),
        ("reply-to", properties.reply_to()),
        ("expiration", properties.expiration()),
        ("message-id", properties.message_id()),
        ("type", properties.kind()),
        ("user-id", properties.user_id()),
        ("app-id", properties.app_id()),
        ("cluster-id", properties.cluster_id()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            headers.push_transport(KIND, name, text.as_str());
        }
    }
    let numbers = [
        ("delivery-mode", properties.delivery_mode().map(u64::from)),
        ("priority", properties.priority().map(u64::from)),
        ("timestamp", *properties.timestamp()),
    ];
    for (name, number) in numbers {
        if let Some(number) = number {
            headers.push_transport(KIND, name, number.to_string());
        }
    }
}

/// Bytes of a message as our limits count them.
pub(super) fn size(message: &Message) -> usize {
    message.payload.0.len() + message.headers.size() + message.key.as_ref().map_or(0, |key| key.0.len())
}

/// The properties and headers to send a message with, or why it cannot be sent. `user`: whom the server knows us as.
pub(super) fn properties(message: &Message, user: &str) -> Result<BasicProperties, PublishError> {
    let headers = &message.headers;
    let types: Types =
        headers.transport(KIND, TYPES).and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut table = FieldTable::default();
    // A table has each name once: of several headers of one name the last one speaks, as everywhere.
    for header in headers.on_wire().filter(|h| !hops::is_of_the_server(&h.name) && !hops::is_aside(&h.name)) {
        let name = ShortString::try_new(header.name.as_str()).map_err(|_| {
            refused(format!("a header's name has {} bytes, AMQP takes 255", header.name.len()))
        })?;
        table.insert(name, table::write(header.value.as_ref(), types.get(&header.name)));
    }
    if let Some(key) = &message.key {
        table.insert(ShortString::from(KEY), table::long_string(&key.0));
    }
    let (mut properties, texts) = set_properties(headers, user)?;
    if is_parked(headers) {
        properties = parked::kept(properties, headers, &mut table);
    } else if let Some(mode) = delivery_mode(headers) {
        properties = properties.with_delivery_mode(mode);
    }
    let size = texts + table::encoded_len(&table);
    if size > HEADER_FRAME {
        return Err(refused(format!(
            "properties and headers take {size} bytes, RabbitMQ takes {HEADER_FRAME}"
        )));
    }
    Ok(properties.with_headers(table))
}

/// How persistent a message is sent: as it was received, and persistent if it did not come from RabbitMQ.
fn delivery_mode(headers: &Headers) -> Option<u8> {
    let told = headers.transport(KIND, "delivery-mode");
    let came_without = told.is_none() && headers.transport(KIND, "routing-key").is_some();
    (!came_without).then(|| told.filter(|mode| *mode == "1").map_or(PERSISTENT, |_| TRANSIENT))
}

/// The properties of a copy with `carry` in its headers, in place of those of the same names. A copy that would be more
/// than RabbitMQ takes goes without: the server would close the channel, and everything on it would come again.
pub(super) fn carrying(copy: BasicProperties, carry: &Headers) -> BasicProperties {
    let mut table = copy.headers().as_ref().map(|headers| headers.inner().clone()).unwrap_or_default();
    table.retain(|name, _| carry.last(name.as_str()).is_none());
    for header in carry.on_wire() {
        let Ok(name) = ShortString::try_new(header.name.as_str()) else { continue };
        table.insert(name, table::write(header.value.as_ref(), None));
    }
    let table = FieldTable::from(table);
    let size = table::encoded_len(&table) + PROPERTIES;
    if size > HEADER_FRAME {
        tracing::warn!(target: "rabbitmq", size, limit = HEADER_FRAME, "a retry is too large for its story");
        return copy;
    }
    copy.with_headers(table)
}

/// The properties that a producer may set, and their bytes.
fn set_properties(headers: &Headers, user: &str) -> Result<(BasicProperties, usize), PublishError> {
    let mut size = 0;
    let mut text = |name: &str| -> Result<Option<ShortString>, PublishError> {
        let Some(text) = headers.transport(KIND, name) else { return Ok(None) };
        size += text.len() + 1;
        let short = ShortString::try_new(text);
        short
            .map(Some)
            .map_err(|_| refused(format!("`rabbitmq:{name}` has {} bytes, AMQP takes 255", text.len())))
    };
    let mut properties = BasicProperties::default();
    macro_rules! set {
        ($($name:literal => $with:ident),+ $(,)?) => {
            $( if let Some(value) = text($name)? { properties = properties.$with(value); } )+
        };
    }
    set!(
        "content-type" => with_content_type,
        "content-encoding" => with_content_encoding,
        "correlation-id" => with_correlation_id,
        "reply-to" => with_reply_to,
        "message-id" => with_message_id,
        "type" => with_type,
        "app-id" => with_app_id,
        "cluster-id" => with_cluster_id,
    );
    // The server closes the channel on a name that is not the sender's, and on an expiration that is no number.
    if let Some(name) = text("user-id")?.filter(|name| name.as_str() == user) {
        properties = properties.with_user_id(name);
    }
    let expiration = if is_parked(headers) { None } else { text("expiration")? };
    if let Some(millis) = expiration.filter(|millis| millis.as_str().parse::<u32>().is_ok()) {
        properties = properties.with_expiration(millis);
    }
    if let Some(priority) = headers.transport(KIND, "priority").and_then(|text| text.parse().ok()) {
        properties = properties.with_priority(priority);
    }
    if let Some(seconds) = headers.transport(KIND, "timestamp").and_then(|text| text.parse().ok()) {
        properties = properties.with_timestamp(seconds);
    }
    Ok((properties, size))
}

fn refused(why: String) -> PublishError {
    PublishError::Refused(why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(entries: Vec<(&str, AMQPValue)>) -> FieldTable {
        let mut table = FieldTable::default();
        for (name, value) in entries {
            table.insert(name.into(), value);
        }
        table
    }

    #[test]
    fn what_was_received_is_sent_as_it_came() {
        let headers = table(vec![
            ("tenant", table::long_string(b"acme")),
            ("attempt", AMQPValue::LongInt(1)),
            ("binary", table::long_string(b"\xff\x00")),
            ("nothing", AMQPValue::Void),
            ("dlo-key", table::long_string(b"C-441\xfe")),
        ]);
        let came = BasicProperties::default()
            .with_headers(headers)
            .with_content_type("application/json".into())
            .with_message_id("m-1".into())
            .with_type("order.created".into())
            .with_timestamp(1_700_000_000)
            .with_priority(3)
            .with_delivery_mode(2);
        let read = received("orders", "orders.created", &came, Bytes::from_static(b"{}"));
        assert_eq!(read.message.key, Some(Payload(Bytes::from_static(b"C-441\xfe"))));
        assert_eq!(read.message.headers.text("attempt"), Some("1"));
        assert_eq!(read.message.headers.transport(KIND, "routing-key"), Some("orders.created"));
        assert_eq!(read.published_at, Some(Timestamp::from_millis(1_700_000_000_000)));
        assert_eq!(properties(&read.message, "guest").unwrap(), came);
    }

    #[test]
    fn what_the_server_would_choke_on_is_not_sent() {
        let mut message = Message::default();
        message.headers.push_transport(KIND, "user-id", "somebody");
        message.headers.push_transport(KIND, "expiration", "soon");
        message.headers.push_text("CC", "everybody");
        message.headers.push_text("x-delivery-count", "7");
        let sent = properties(&message, "guest").unwrap();
        assert_eq!((sent.user_id(), sent.expiration()), (&None, &None));
        assert_eq!(sent.headers(), &Some(FieldTable::default()));
        message.headers.push_transport(KIND, "user-id", "guest");
        assert!(properties(&message, "guest").unwrap().user_id().is_some());
    }

    #[test]
    fn a_message_is_as_persistent_as_its_producer_said() {
        let mode = |facts: &[(&str, &str)]| {
            let mut message = Message::default();
            for (name, value) in facts {
                message.headers.push_transport(KIND, name, *value);
            }
            *properties(&message, "guest").unwrap().delivery_mode()
        };
        assert_eq!(mode(&[]), Some(2), "a message of another broker");
        assert_eq!(mode(&[("routing-key", "q")]), None);
        assert_eq!(mode(&[("routing-key", "q"), ("delivery-mode", "1")]), Some(1));
        assert_eq!(mode(&[("routing-key", "q"), ("delivery-mode", "2")]), Some(2));
    }

    #[test]
    fn a_dead_letter_is_persistent_does_not_expire_and_says_how_it_was_published() {
        let headers = table(vec![("CC", AMQPValue::FieldArray(vec![table::long_string(b"audit")].into()))]);
        let came = BasicProperties::default().with_headers(headers).with_expiration("60000".into());
        let mut read = received("shop", "orders.created", &came, Bytes::new()).message;
        read.headers.push_text("dlo-version", "1");
        let sent = properties(&read, "guest").unwrap();
        assert_eq!((sent.delivery_mode(), sent.expiration()), (&Some(2), &None));
        let text = |name: &str| {
            sent.headers()
                .as_ref()
                .unwrap()
                .inner()
                .get(name)
                .and_then(|v| v.as_long_string())
                .unwrap()
                .to_string()
        };
        assert_eq!([text("dlo-origin-exchange"), text("dlo-origin-routing-key")], ["shop", "orders.created"]);
        assert_eq!([text("dlo-origin-cc"), text("dlo-origin-expiration")], ["[\"audit\"]", "60000"]);
        assert_eq!(text("dlo-origin-delivery-mode"), "0");
    }

    #[test]
    fn a_name_or_a_header_frame_that_amqp_cannot_carry_is_refused() {
        let mut message = Message::default();
        message.headers.push_text("n".repeat(256), "v");
        assert!(
            matches!(properties(&message, "guest"), Err(PublishError::Refused(why)) if why.contains("256"))
        );
        let mut message = Message::default();
        message.headers.push("blob", Some(vec![0; 200_000].into()));
        assert!(matches!(properties(&message, "guest"), Err(PublishError::Refused(_))));
    }

    #[test]
    fn the_count_of_a_quorum_queue_begins_with_one_and_is_no_header() {
        let headers = table(vec![("x-delivery-count", AMQPValue::LongLongInt(2))]);
        let third = received("", "q", &BasicProperties::default().with_headers(headers), Bytes::new());
        assert_eq!(third.count(true, QueueType::Quorum), Some(3));
        assert_eq!(third.message.headers.on_wire().count(), 0);
        let first = received("", "q", &BasicProperties::default(), Bytes::new());
        assert_eq!(first.count(false, QueueType::Quorum), Some(1));
        // A classic queue after all.
        assert_eq!(
            (first.count(true, QueueType::Quorum), first.count(false, QueueType::Classic)),
            (None, None)
        );
    }
}
