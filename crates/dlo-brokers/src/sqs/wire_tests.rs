//! Messages to the wire and back, whatever is in them; and messages as a server gave them.

use std::collections::HashMap;

use aws_sdk_sqs::types::{self, MessageAttributeValue, MessageSystemAttributeName as System};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use dlo_core::message::{Header, Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use proptest::prelude::*;

use super::*;
use crate::sqs::text::is_legal;

/// As the service would hand it out again.
fn carried(encoded: Encoded) -> types::Message {
    let system = encoded.group.map(|group| HashMap::from([(System::MessageGroupId, group)]));
    types::Message::builder()
        .body(encoded.body)
        .set_message_attributes(Some(encoded.attributes))
        .set_attributes(system)
        .build()
}

fn round_trip(message: &Message, fifo: bool) -> Message {
    let mut came = decode(carried(Encoded::of(message, fifo).unwrap()), fifo);
    came.headers = Headers(came.headers.on_wire().cloned().collect());
    came
}

fn bytes() -> impl Strategy<Value = Bytes> {
    prop_oneof![any::<Vec<u8>>().prop_map(Bytes::from), ".{0,20}".prop_map(|text: String| Bytes::from(text))]
}

fn header() -> impl Strategy<Value = Header> {
    let name = prop_oneof![
        "[a-zA-Z0-9_.-]{0,12}",
        ".{0,8}",
        Just(HEADERS.to_owned()),
        Just(KEY.to_owned()),
        Just(PAYLOAD.to_owned()),
        Just("same".to_owned()),
    ];
    (name, proptest::option::of(bytes())).prop_map(|(name, value)| Header { name, value })
}

proptest! {
    #[test]
    fn every_message_comes_back_byte_for_byte_and_is_one_that_sqs_takes(
        key in proptest::option::of(bytes()),
        headers in proptest::collection::vec(header(), 0..24),
        payload in bytes(),
        fifo: bool,
    ) {
        let headers: Vec<Header> =
            headers.into_iter().filter(|header| !dlo_core::message::is_transport(&header.name)).collect();
        let message = Message { key: key.map(Payload), headers: Headers(headers), payload: Payload(payload) };
        let encoded = Encoded::of(&message, fifo).unwrap();
        prop_assert!(is_legal(&encoded.body) && encoded.attributes.len() <= crate::sqs::pack::MOST);
        for (name, value) in &encoded.attributes {
            prop_assert!(crate::sqs::text::is_attribute_name(name));
            prop_assert!(value.string_value().is_none_or(is_legal));
            prop_assert!(value.binary_value().is_none_or(|blob| !blob.as_ref().is_empty()));
        }
        prop_assert!(encoded.group.as_deref().is_none_or(crate::sqs::text::is_group));
        prop_assert_eq!(encoded.group.is_some(), fifo);
        prop_assert_eq!(round_trip(&message, fifo), message);
    }

    #[test]
    fn whatever_others_write_under_our_names_is_kept(list in ".{0,60}", payload in ".{1,9}", fifo: bool) {
        let attribute = |text: &str| {
            MessageAttributeValue::builder().data_type("String").string_value(text).build().unwrap()
        };
        let message = types::Message::builder()
            .body("body")
            .message_attributes(HEADERS, attribute(&list))
            .message_attributes(PAYLOAD, attribute(&payload))
            .message_attributes("x", attribute("1"))
            .build();
        let came = decode(message, fifo);
        prop_assert_eq!(&*came.payload.0, b"body");
        prop_assert_eq!(came.headers.text(PAYLOAD), Some(payload.as_str()));
        prop_assert_eq!(came.headers.text("x"), Some("1"));
    }
}

/// Messages as LocalStack 4.14.0 gave them to boto3, verbatim.
fn recorded(case: &str) -> types::Message {
    let file = include_str!("../../tests/golden/sqs-localstack-4.14.0.json");
    let cases: serde_json::Value = serde_json::from_str(file).unwrap();
    let found = &cases["cases"][case];
    let found = if found.is_array() { &found[0] } else { found };
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut message =
        types::Message::builder().message_id(text(&found["MessageId"])).body(text(&found["Body"]));
    for (name, value) in found["Attributes"].as_object().unwrap() {
        message = message.attributes(System::from(name.as_str()), text(value));
    }
    for (name, value) in found["MessageAttributes"].as_object().into_iter().flatten() {
        let attribute = MessageAttributeValue::builder().data_type(text(&value["DataType"]));
        let attribute = match value["BinaryValue"]["$base64"].as_str() {
            Some(encoded) => attribute.binary_value(Blob::new(BASE64.decode(encoded).unwrap())),
            None => attribute.string_value(text(&value["StringValue"])),
        };
        message = message.message_attributes(name, attribute.build().unwrap());
    }
    message.build()
}

#[test]
fn a_recorded_message_is_read_whole_before_and_after_the_service_dead_lettered_it() {
    for (case, count, source) in [
        ("04_source_message_first_receive", "1", None),
        ("11_back_on_source_after_move_task", "5", Some("arn:aws:sqs:us-east-1:000000000000:orders")),
    ] {
        let message = decode(recorded(case), false);
        let sqs = |name| message.headers.transport(BrokerKind::Sqs, name);
        assert_eq!(&*message.payload.0, br#"{"id":1}"#, "{case}");
        assert_eq!((sqs("ApproximateReceiveCount"), sqs("DeadLetterQueueSourceArn")), (Some(count), source));
        assert_eq!(
            (sqs("SentTimestamp"), sqs("types")),
            (Some("1794773228804"), Some(r#"{"attempt":"Number"}"#))
        );
        let wire: Vec<&str> = message.headers.on_wire().map(|header| header.name.as_str()).collect();
        assert_eq!(wire, ["attempt", "bin", "tenant"]);
        assert_eq!(message.headers.last("bin").unwrap().value.as_deref(), Some(&[0, 255][..]));
        // Sent again, it is what its producer sent, trace included.
        let again = Encoded::of(&message, false).unwrap();
        assert_eq!(Some(again.attributes), recorded(case).message_attributes, "{case}");
        assert!(again.trace.is_some_and(|trace| trace.starts_with("Root=1-5759e988")));
    }
}

#[test]
fn the_group_of_a_recorded_fifo_message_is_its_key_and_its_first_id_is_not_used_again() {
    let message = decode(recorded("24_fifo_receive_1"), true);
    assert_eq!(message.key, Some(Payload::from("g1")));
    let first = message.headers.transport(BrokerKind::Sqs, "MessageDeduplicationId").map(str::to_owned);
    let again = Encoded::of(&message, true).unwrap();
    assert_eq!(again.group.as_deref(), Some("g1"));
    assert!(first.is_some() && again.dedupe != first);
}

#[test]
fn few_plain_headers_in_order_of_name_need_no_list() {
    let mut message = Message { payload: "m".into(), ..Message::default() };
    message.headers.push_text("a", "1");
    message.headers.push_text("b", "2");
    let encoded = Encoded::of(&message, false).unwrap();
    let mut names: Vec<&str> = encoded.attributes.keys().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!((names, encoded.size), (vec!["a", "b"], 1 + 2 * (1 + 6 + 1)));
}
