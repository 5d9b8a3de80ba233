//! What a handler sees of a message, and what of any message at all.

use std::time::Duration;

use dlo_core::attempt::Attempt;
use dlo_core::envelope::ReplayMark;
use dlo_core::message::Payload;
use dlo_core::origin::BrokerKind;
use proptest::prelude::*;

use super::*;

fn context() -> Context {
    Context {
        origin: Origin::log(BrokerKind::Kafka, "orders", 17, 42),
        published_at: None,
        attempt: Attempt::new(3).unwrap(),
        timeout: Duration::from_secs(10),
        replay: None,
    }
}

fn sent(message: &Message, context: &Context) -> HeaderMap {
    let mut map = HeaderMap::new();
    headers(message, context, Timestamp::EPOCH, &mut map);
    map
}

fn text<'a>(map: &'a HeaderMap, name: &str) -> Option<&'a str> {
    map.get(name).map(|value| value.to_str().unwrap())
}

#[test]
fn a_handler_is_told_what_it_has_in_hands() {
    let mut message = Message {
        key: Some(Payload::from("C-441")),
        payload: Payload::from("{\"a\":1}"),
        ..Message::default()
    };
    message.headers.push_text("x-tenant", "acme & sons");
    message.headers.push_text("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
    message.headers.push_text("dlo-attempt", "9");
    let replay = ReplayMark { letter: None, replay_id: "r-1".into(), count: 1, target_group: None };
    let map = sent(&message, &Context { replay: Some(replay), ..context() });
    for (name, value) in [
        ("content-type", "application/json"),
        ("dlo-message-id", "17-42"),
        ("dlo-queue", "orders"),
        ("dlo-key", "C-441"),
        ("dlo-attempt", "3"),
        ("dlo-deadline", "1970-01-01T00:00:10Z"),
        ("dlo-replay-id", "r-1"),
        ("dlo-header-x-tenant", "acme%20&%20sons"),
        ("traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
    ] {
        assert_eq!(text(&map, name), Some(value), "{name}");
    }
    assert_eq!(map.len(), 9, "{map:?}");
}

#[test]
fn a_cloud_event_keeps_its_names_however_its_broker_spells_them() {
    for name in ["ce_type", "ce-type", "CE_Type", "cloudEvents:type"] {
        let mut message = Message::default();
        message.headers.push_text(name, "order.placed");
        assert_eq!(text(&sent(&message, &context()), "ce-type"), Some("order.placed"), "{name}");
    }
}

#[test]
fn the_content_type_is_the_messages_own_then_the_transports_then_a_look_at_the_body() {
    let mut message = Message { payload: Payload::from(" [1] "), ..Message::default() };
    assert_eq!(content_type(&message), "application/json");
    message.headers.push_transport(BrokerKind::Rabbitmq, "content-type", "text/csv");
    assert_eq!(content_type(&message), "text/csv");
    message.headers.push_text("Content-Type", "application/avro");
    assert_eq!(content_type(&message), "application/avro");
    let plain = Message { payload: Payload::from("{not json"), ..Message::default() };
    assert_eq!(content_type(&plain), "application/octet-stream");
}

#[test]
fn headers_beyond_what_servers_take_are_left_out_and_counted() {
    let mut message = Message::default();
    for n in 0..100 {
        message.headers.push_text(format!("h{n}"), "x");
    }
    assert_eq!(text(&sent(&message, &context()), "dlo-headers-left-out"), Some("36"));
    let mut large = Message::default();
    large.headers.push_text("large", "x".repeat(MOST_BYTES));
    large.headers.push_text("small", "x");
    let map = sent(&large, &context());
    assert_eq!((text(&map, "dlo-headers-left-out"), text(&map, "dlo-header-small")), (Some("1"), Some("x")));
}

proptest! {
    #[test]
    fn every_header_arrives_byte_for_byte_under_a_name_that_tells_it(
        name in "[^:]{1,20}", value in proptest::collection::vec(any::<u8>(), 0..40), key: Vec<u8>,
    ) {
        let header = Header { name: name.clone(), value: Some(value.clone().into()) };
        prop_assume!(is_the_producers(&header) && cloud_event(&name).is_none());
        let message = Message { key: Some(Payload::from(key)), headers: Headers(vec![header]), ..Message::default() };
        let map = sent(&message, &context());
        let (found, carried) = map.iter().find(|(name, _)| name.as_str().starts_with("dlo-header-")).unwrap();
        let expected = name.to_ascii_lowercase();
        let decoded = decoded(&found.as_str()["dlo-header-".len()..]).to_ascii_lowercase();
        prop_assert_eq!(decoded, expected.as_bytes());
        prop_assert_eq!(self::decoded(carried.to_str().unwrap()), value);
    }
}

fn decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next().unwrap(), rest.next().unwrap()];
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            plain => plain,
        });
    }
    bytes
}
