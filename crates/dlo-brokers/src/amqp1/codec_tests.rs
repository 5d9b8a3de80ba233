//! Both ways of the codec: what a foreign client sent comes back from our hands as it was.

use dlo_core::message::{Headers, Payload};
use fe2o3_amqp::types::messaging::Priority;

use super::super::decode::decode;
use super::*;

fn foreign(body: Body<Value>) -> Wire {
    let mut annotations = Annotations::new();
    annotations.insert(OwnedKey::from("x-opt-jms-msg-type"), Value::Byte(5));
    annotations.insert(OwnedKey::from("x-opt-partition-key"), Value::String("p".into()));
    let mut application = OrderedMap::new();
    application.insert("count".to_owned(), SimpleValue::Int(7));
    application.insert("tenant".to_owned(), SimpleValue::String("acme".into()));
    application.insert("nothing".to_owned(), SimpleValue::Null);
    application.insert("raw".to_owned(), SimpleValue::Binary(vec![0, 255].into()));
    AmqpMessage {
        header: Some(Header { durable: true, priority: Priority(9), ..Header::default() }),
        delivery_annotations: None,
        message_annotations: Some(MessageAnnotations(annotations)),
        properties: Some(Properties {
            message_id: Some(MessageId::Ulong(42)),
            user_id: Some(vec![1, 255].into()),
            to: Some("orders".to_owned()),
            correlation_id: Some(MessageId::Binary(vec![0, 200].into())),
            content_type: Some(Symbol::new("application/json")),
            creation_time: Some(AmqpTime::from_milliseconds(1_700_000_000_000)),
            group_id: Some("C-441".to_owned()),
            group_sequence: Some(3),
            ..Properties::default()
        }),
        application_properties: Some(ApplicationProperties(application)),
        body,
        footer: None,
    }
}

fn data(parts: &[&[u8]]) -> Body<Value> {
    let parts: Vec<Data> = parts.iter().map(|part| Data(part.to_vec().into())).collect();
    Body::Data(Batch::new(parts))
}

#[test]
fn every_shape_of_body_and_every_section_comes_back_as_it_was() {
    let bodies = [
        data(&[b"\x00\xff"]),
        data(&[b""]),
        data(&[b"abc", b"", b"de"]),
        Body::Value(AmqpValue(Value::String("text".into()))),
        Body::Value(AmqpValue(Value::Binary(vec![0, 255].into()))),
        Body::Value(AmqpValue(Value::Null)),
        Body::Value(AmqpValue(Value::Long(-5))),
        Body::Sequence(Batch::new(vec![AmqpSequence(vec![Value::Int(1), Value::Null])])),
        Body::Empty,
    ];
    for body in bodies {
        let sent = foreign(body);
        let decoded = decode(sent.clone());
        assert_eq!(decoded.message.key, Some(Payload::from("C-441")));
        assert_eq!(decoded.message.headers.text("tenant"), Some("acme"));
        assert_eq!(decoded.message.headers.transport(KIND, "message-id"), Some("42"));
        let back = encode(&decoded.message, None, Flavour::Artemis).unwrap();
        assert_eq!(back, sent);
    }
}

#[test]
fn what_a_broker_wrote_is_seen_and_not_sent_again() {
    let mut dead = foreign(data(&[b"x"]));
    let annotations = &mut dead.message_annotations.as_mut().unwrap().0;
    annotations.insert(OwnedKey::from("x-opt-ORIG-ADDRESS"), Value::String("orders".into()));
    annotations.insert(OwnedKey::from("x-opt-sequence-number"), Value::Long(7));
    let enqueued = Value::Timestamp(AmqpTime::from_milliseconds(1_700_000_000_123));
    annotations.insert(OwnedKey::from("x-opt-enqueued-time"), enqueued);
    dead.header.as_mut().unwrap().ttl = Some(1_000);
    dead.header.as_mut().unwrap().delivery_count = 2;
    let decoded = decode(dead);
    assert_eq!(decoded.message.headers.text("amqp1:annotation:x-opt-ORIG-ADDRESS"), Some("orders"));
    assert_eq!((decoded.earlier, decoded.sequence.as_deref()), (2, Some("7@1700000000123")));
    assert_eq!(decoded.published_at, Some(Timestamp::from_millis(1_700_000_000_123)));
    let back = encode(&decoded.message, None, Flavour::Artemis).unwrap();
    assert_eq!(back, foreign(data(&[b"x"])));
}

#[test]
fn a_service_bus_dead_letter_shows_its_reason_as_headers() {
    let mut letter = foreign(data(&[b"x"]));
    let application = &mut letter.application_properties.as_mut().unwrap().0;
    application.insert("DeadLetterReason".into(), SimpleValue::from("MaxDeliveryCountExceeded"));
    application.insert("DeadLetterErrorDescription".into(), SimpleValue::from("delivered 10 times"));
    let headers = decode(letter).message.headers;
    assert_eq!(headers.text("DeadLetterReason"), Some("MaxDeliveryCountExceeded"));
    assert_eq!(headers.text("DeadLetterErrorDescription"), Some("delivered 10 times"));
}

#[test]
fn a_key_that_is_no_text_keeps_its_bytes() {
    let message = Message { key: Some(Payload::from(&b"k\x00\xff"[..])), ..Message::default() };
    let wire = encode(&message, None, Flavour::Generic).unwrap();
    assert_eq!(wire.properties, None);
    let back = decode(wire).message;
    assert_eq!((back.key, back.headers), (message.key, Headers::new()));
}

#[test]
fn repeated_headers_are_refused_by_name() {
    let mut message = Message::default();
    message.headers.push_text("x", "1");
    message.headers.push_text("x", "2");
    let refusal = encode(&message, None, Flavour::Generic).unwrap_err();
    assert!(matches!(&refusal, PublishError::Refused(why) if why.contains("`x`")), "{refusal}");
}

#[test]
fn each_broker_is_told_of_a_delay_in_its_own_words() {
    let delay = Some(Duration::from_secs(3));
    let annotation = |flavour| {
        let wire = encode(&Message::default(), delay, flavour).unwrap();
        wire.message_annotations.unwrap().0.into_iter().next().unwrap()
    };
    assert_eq!(annotation(Flavour::Artemis), (OwnedKey::from("x-opt-delivery-delay"), Value::Long(3_000)));
    assert_eq!(annotation(Flavour::ServiceBus).0, OwnedKey::from("x-opt-scheduled-enqueue-time"));
    assert!(matches!(
        encode(&Message::default(), delay, Flavour::Generic),
        Err(PublishError::Refused(why)) if why.contains("flavour")
    ));
}
