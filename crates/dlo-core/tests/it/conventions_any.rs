//! Conventions against anything that anybody may send: no panic, every bound holds, and what we emit for others is heard as
//! the echo it is.

use bytes::Bytes;
use dlo_core::conventions::emit::{Compatibility, emit};
use dlo_core::conventions::{BATCH, Found, Held, Mapper, Reading, read, read_with};
use dlo_core::envelope::{Envelope, OriginHeaders, encode, strip_for_replay};
use dlo_core::limits;
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use proptest::prelude::*;
use serde_json::Value;

/// Header names of every golden letter: what is worth sending wrongly.
fn names() -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conventions");
    let mut names = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let cases: Vec<Value> =
            serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        for case in &cases {
            let headers = super::conventions::message(&case["message"]).headers;
            names.extend(headers.iter().map(|header| header.name.clone()));
        }
    }
    names.sort();
    names.dedup();
    names
}

/// Payloads of golden letters: JSON to be cut and bent.
fn payloads() -> Vec<Vec<u8>> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/conventions");
    let mut all = Vec::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let cases: Vec<Value> =
            serde_json::from_slice(&std::fs::read(file.unwrap().path()).unwrap()).unwrap();
        all.extend(cases.iter().map(|case| super::conventions::message(&case["message"]).payload.0.to_vec()));
    }
    all
}

fn value() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        Just(None),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Some),
        "[0-9]{1,20}".prop_map(|text| Some(text.into_bytes())),
        "\\PC{0,30}".prop_map(|text| Some(text.into_bytes())),
        Just(Some(br#"[{"count":-1,"queue":7,"time":{"value":"x"},"routing-keys":[[]]},3]"#.to_vec())),
        Just(Some("é".repeat(20_000).into_bytes())),
        Just(Some(vec![0xac, 0xed, 0, 5, 0x73, 0x72, 0xff, 0xff])),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let name = prop_oneof![8 => prop::sample::select(names()), 1 => "\\PC{0,20}"];
    let headers = prop::collection::vec((name, value()), 0..24);
    let payload =
        (prop::sample::select(payloads()), any::<prop::sample::Index>(), any::<u8>(), any::<bool>())
            .prop_map(|(mut payload, at, byte, bend)| {
                if bend && !payload.is_empty() {
                    let at = at.index(payload.len());
                    payload[at] = byte;
                }
                payload
            });
    let key = prop::option::of(prop::collection::vec(any::<u8>(), 0..40));
    (headers, payload, key).prop_map(|(pairs, payload, key)| {
        let mut headers = Headers::new();
        for (name, value) in pairs {
            headers.push(name, value.map(Bytes::from));
        }
        Message { key: key.map(Payload::from), headers, payload: Payload::from(payload) }
    })
}

fn assert_bounded(reading: &Reading) {
    let within = |text: &Option<String>, max: usize| {
        assert!(text.as_ref().is_none_or(|text| text.len() <= max), "{text:?}")
    };
    for name in [&reading.consumer, &reading.consumer_version, &reading.error_class, &reading.error_code] {
        within(name, limits::NAME);
    }
    for name in [
        &reading.event_type,
        &reading.event_version,
        &reading.content_type,
        &reading.exchange,
        &reading.routing_key,
    ] {
        within(name, limits::NAME);
    }
    for id in [&reading.consumer_id, &reading.message_id, &reading.correlation_id, &reading.trace_id] {
        within(id, limits::ID);
    }
    within(&reading.error_message, limits::ERROR_MESSAGE);
    within(&reading.error_stack, limits::ERROR_STACK);
    assert!(reading.history.records().len() <= limits::HISTORY);
    if let Some(origin) = &reading.origin {
        assert!(origin.queue.len() <= limits::NAME && !origin.queue.is_empty());
        within(&origin.message_id, limits::ID);
    }
    if let Held::Batch(records) = &reading.held {
        assert!(!records.is_empty() && records.len() <= BATCH);
    }
    for at in [reading.published_at, reading.first_failed_at, reading.failed_at].into_iter().flatten() {
        assert!(Timestamp::parse(&at.to_string()).is_ok(), "{at}");
    }
}

fn word() -> impl Strategy<Value = Option<String>> {
    prop::option::of("[ -~é]{1,40}")
}

fn story() -> impl Strategy<Value = Envelope> {
    let reason = prop::option::of(prop::sample::select(Reason::ALL));
    let error = (word(), word(), word());
    let place = (word(), any::<Option<i32>>(), any::<Option<i64>>());
    let moment = prop::option::of((0..4_000_000_000_000_000_i64).prop_map(Timestamp::from_micros));
    (reason, error, place, any::<Option<u32>>(), moment, (word(), word())).prop_map(
        |(reason, error, (queue, partition, offset), attempts, dead_at, consumer)| Envelope {
            reason,
            error_class: error.0,
            error_message: error.1,
            error_stack: error.2,
            attempts,
            dead_at,
            origin: OriginHeaders {
                broker: Some(BrokerKind::Kafka),
                queue,
                partition,
                offset,
                timestamp: dead_at,
                ..OriginHeaders::default()
            },
            consumer_group: consumer.0,
            consumer_id: consumer.1,
            ..Envelope::default()
        },
    )
}

proptest! {
    #[test]
    fn no_letter_makes_reading_fail_and_every_bound_holds(
        message in message(),
        broker in prop::sample::select(BrokerKind::ALL),
        queue in prop::sample::select(vec!["orders-dlq", "%DLQ%g", "a/Subscriptions/b/$deadletterqueue", "", "é"]),
    ) {
        let found = Found { broker, queue };
        assert_bounded(&read(&message, found));
        let mapper: Mapper = serde_json::from_str(
            r#"{"payload":["payload","data","a.b.c"],"payload_base64":true,"json":{"queue":"queue","error_message":["error","cause"]}}"#,
        ).unwrap();
        assert_bounded(&read_with(&message, found, &mapper));
        let mut headers = message.headers;
        strip_for_replay(&mut headers);
    }

    #[test]
    fn what_is_written_for_other_tools_is_an_echo_of_our_own_headers(
        story in story(),
        words in prop::collection::vec(prop::sample::select(Compatibility::ALL), 0..4),
        broker in prop::sample::select(BrokerKind::ALL),
    ) {
        let found = Found { broker, queue: "dead" };
        let plain = encode(&Message::default(), &story, 1 << 20).unwrap();
        let mut also = Message::default();
        emit(&words, &story, &mut also.headers);
        let both = encode(&also, &story, 1 << 20).unwrap();
        prop_assert_eq!(read(&both, found), read(&plain, found));
        let mut stripped = both.headers;
        strip_for_replay(&mut stripped);
        prop_assert!(stripped.is_empty(), "{stripped:?}");
    }
}

#[test]
fn what_is_written_for_other_tools_is_read_by_their_own_conventions() {
    let story = Envelope {
        error_class: Some("NoPrice".into()),
        attempts: Some(4),
        origin: OriginHeaders {
            queue: Some("orders".into()),
            partition: Some(3),
            offset: Some(42),
            ..OriginHeaders::default()
        },
        ..Envelope::default()
    };
    for (words, id) in [
        (Compatibility::Connect, "connect"),
        (Compatibility::Spring, "spring.dlt"),
        (Compatibility::Dlq, "custom.headers"),
    ] {
        let mut message = Message::default();
        emit(&[words], &story, &mut message.headers);
        let reading = read(&message, Found { broker: BrokerKind::Kafka, queue: "dead" });
        assert_eq!(reading.conventions, [id]);
        let origin = reading.origin.unwrap();
        assert_eq!((origin.queue.as_str(), origin.partition, origin.offset), ("orders", Some(3), Some(42)));
        assert_eq!(reading.error_class.as_deref(), Some("NoPrice"));
    }
}

#[test]
fn a_story_that_is_there_already_is_not_written_over() {
    let mut message = Message::default();
    message.headers.push_text("__connect.errors.topic", "first");
    let story = Envelope {
        origin: OriginHeaders { queue: Some("second".into()), ..OriginHeaders::default() },
        ..Envelope::default()
    };
    emit(&[Compatibility::Connect], &story, &mut message.headers);
    assert_eq!(message.headers.len(), 1);
}

#[test]
fn a_batch_is_bounded_and_what_lies_beyond_is_counted() {
    let body = r#"{"requestContext":{"condition":"RetryAttemptsExhausted"},"KafkaBatchInfo":{"recordsInfo":{
        "a-0":{"firstRecordOffset":0,"lastRecordOffset":9},
        "b-1":{"firstRecordOffset":5,"lastRecordOffset":9223372036854775807},
        "c-2":{"firstRecordOffset":1,"lastRecordOffset":2}}}}"#;
    let message = Message { payload: Payload::from(body), ..Message::default() };
    let reading = read(&message, Found { broker: BrokerKind::Sqs, queue: "dlq" });
    let Held::Batch(records) = reading.held else { panic!("{:?}", reading.held) };
    assert_eq!(records.len(), BATCH);
    assert_eq!((records[9].offset, records[10].offset, records[999].offset), (Some(9), Some(5), Some(994)));
    assert_eq!(reading.left_out, (i64::MAX as u64 - 994) + 2);
}

#[test]
fn unknown_keys_of_a_mapper_are_refused() {
    let refusal = serde_json::from_str::<Mapper>(r#"{"json":{"error_mesage":"x"}}"#).unwrap_err().to_string();
    assert!(
        refusal.contains("unknown field `error_mesage`") && refusal.contains("`error_message`"),
        "{refusal}"
    );
    let refusal = serde_json::from_str::<Mapper>(r#"{"payload":7}"#).unwrap_err().to_string();
    assert!(refusal.contains("expected a name or a list of names"), "{refusal}");
}
