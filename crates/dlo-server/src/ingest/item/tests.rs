//! The shapes that are taken, the mistakes that are named, and arbitrary bytes.

use proptest::prelude::*;

use super::*;
use dlo_core::reason::Reason;
use dlo_core::verdict::VerdictKind;

fn read(item: &str) -> Result<Draft, Refusal> {
    let slab = Bytes::copy_from_slice(item.as_bytes());
    parse(&slab, 0..slab.len())
}

/// The example of the design, word for word but for its ellipses.
const FULL: &str = r#"{"source":"orders","queue":"orders.eu","partition":17,"offset":42,"message_id":"msg_9ab31","key":"C-441","headers":[["x-tenant","acme"]],"content_type":"application/json",
 "payload":{"order_id":"ORD-88812"},"event_type":"order.placed","event_version":1,"correlation_id":"req_274ad","consumer":"pricing","consumer_id":"pod-7","attempts":3,
 "error_class":"KeyError","error_message":"pin 560001 not in tax table","error_stack":"at x","reason":"timeout","received_at":"2026-11-01T12:30:00Z","first_failed_at":"2026-11-01T12:30:01Z","failed_at":"2026-11-01T12:30:02.5Z",
 "trace_id":"t","published_at":"2026-11-01T12:29:00Z","verdict":"retry","replay_id":"r-1","attempt_history":[{"number":1,"at":"2026-11-01T12:30:01Z","error_class":"KeyError","delay_ms":200}]}"#;

#[test]
fn the_shape_of_the_design_is_read_whole() {
    let draft = read(FULL).unwrap();
    assert_eq!((draft.source.as_str(), draft.origin.queue.as_str()), ("orders", "orders.eu"));
    assert_eq!((draft.origin.partition, draft.origin.offset), (Some(17), Some(42)));
    assert_eq!(draft.origin.message_id.as_deref(), Some("msg_9ab31"));
    assert_eq!(&draft.message.payload.0[..], br#"{"order_id":"ORD-88812"}"#);
    assert_eq!(&draft.message.key.unwrap().0[..], b"C-441");
    assert_eq!(draft.message.headers.text("x-tenant"), Some("acme"));
    assert_eq!(draft.event_version.as_deref(), Some("1"));
    assert_eq!((draft.reason, draft.verdict), (Some(Reason::Timeout), Some(VerdictKind::Retry)));
    assert_eq!(draft.attempts, Some(3));
    assert_eq!(draft.history.records()[0].delay_ms, Some(200));
    assert_eq!(draft.failed_at.unwrap().to_string(), "2026-11-01T12:30:02.5Z");
}

#[test]
fn a_source_and_a_payload_are_enough() {
    let draft = read(r#"{"source":"orders","payload":null}"#).unwrap();
    assert_eq!(draft.origin.queue, "orders");
    assert_eq!(&draft.message.payload.0[..], b"null");
    assert_eq!(draft.content_type.as_deref(), Some("application/json"));
}

#[test]
fn a_payload_is_kept_exactly_as_it_was_written() {
    for payload in [r#"{ "b" : 1.0,  "a":1e2 , "a":"é\u00e9" }"#, "\"text\"", "0.10", "[ ]", "\"\\u0000\""] {
        let draft = read(&format!(r#"{{"payload":{payload},"source":"s"}}"#)).unwrap();
        assert_eq!(&draft.message.payload.0[..], payload.as_bytes());
    }
    let draft = read(r#"{"source":"s","payload":null,"payload_base64":"AP8="}"#).unwrap();
    assert_eq!(&draft.message.payload.0[..], [0, 255]);
    assert_eq!(draft.content_type, None);
}

#[test]
fn a_mistake_is_named_by_code_and_field() {
    let table = [
        (r#"{"payload":1}"#, "missing_field", Some("source")),
        (r#"{"source":"s"}"#, "missing_field", Some("payload")),
        (r#"{"source":null,"payload":1}"#, "missing_field", Some("source")),
        (r#"{"source":7,"payload":1}"#, "wrong_type", Some("source")),
        (r#"{"source":"s","payload":1,"ofset":1}"#, "unknown_field", Some("ofset")),
        (r#"{"source":"s","payload":1,"source":"t"}"#, "duplicate_field", Some("source")),
        (r#"{"source":"s","payload":1,"payload_base64":"AA=="}"#, "conflicting_fields", Some("payload")),
        (r#"{"source":"s","payload_base64":"A"}"#, "bad_base64", Some("payload_base64")),
        (r#"{"source":"s","payload":1,"key":"a","key_base64":"AA=="}"#, "conflicting_fields", Some("key")),
        (r#"{"source":"s","payload":1,"key":7}"#, "wrong_type", Some("key")),
        (r#"{"source":"s","payload":1,"offset":-1}"#, "out_of_range", Some("offset")),
        (r#"{"source":"s","payload":1,"offset":1.5}"#, "out_of_range", Some("offset")),
        (r#"{"source":"s","payload":1,"partition":2147483648}"#, "out_of_range", Some("partition")),
        (r#"{"source":"s","payload":1,"attempts":"3"}"#, "wrong_type", Some("attempts")),
        (r#"{"source":"s","payload":1,"reason":"timeuot"}"#, "unknown_word", Some("reason")),
        (r#"{"source":"s","payload":1,"verdict":"park"}"#, "unknown_word", Some("verdict")),
        (r#"{"source":"s","payload":1,"failed_at":"yesterday"}"#, "bad_time", Some("failed_at")),
        (r#"{"source":"s","payload":1,"failed_at":17}"#, "wrong_type", Some("failed_at")),
        (r#"{"source":"s","payload":1,"headers":[["a"]]}"#, "wrong_type", Some("headers[0]")),
        (r#"{"source":"s","payload":1,"attempt_history":[{"at":1}]}"#, "wrong_type", Some("attempt_history")),
        (r#"{"source":"s","payload":1,"status":"sent"}"#, "bad_status", Some("status")),
        (r#"{"source":"s","payload":1,"id":"7"}"#, "bad_id", Some("id")),
        (r#"{"source":"s","payload":1,"event_version":[]}"#, "wrong_type", Some("event_version")),
        (r#"{"source":"s","payload":1"#, "malformed_json", None),
        (r#"{"source":"s","payload":1} x"#, "malformed_json", None),
        (r#"["source"]"#, "malformed_json", None),
        ("", "malformed_json", None),
        ("{\"source\":\"s\",\"payload\":\"a\0b\"}", "malformed_json", None),
    ];
    for (item, code, field) in table {
        let refusal = read(item).expect_err(item);
        assert_eq!((refusal.code, refusal.field.as_deref()), (code, field), "{item}: {}", refusal.detail);
    }
}

#[test]
fn a_misspelled_field_is_refused_with_the_near_one() {
    let refusal = read(r#"{"source":"s","payload":1,"error_mesage":"x"}"#).unwrap_err();
    assert_eq!(refusal.detail, "unknown field `error_mesage`; did you mean `error_message`?");
    let refusal = read(r#"{"source":"s","payload":1,"zzz":"x"}"#).unwrap_err();
    assert!(refusal.detail.contains("known are source, broker"), "{}", refusal.detail);
}

#[test]
fn bytes_that_are_no_text_are_refused_by_their_place() {
    let slab = Bytes::from_static(b"{\"source\":\"\xff\",\"payload\":1}");
    let refusal = parse(&slab, 0..slab.len()).unwrap_err();
    assert_eq!(
        (refusal.code, refusal.detail.as_ref()),
        ("invalid_utf8", "the item is not UTF-8 from byte 11")
    );
}

#[test]
fn no_error_text_repeats_the_payload() {
    for item in [
        r#"{"source":"s","payload":{"card":"4111"},"ofset":1}"#,
        r#"{"source":"s","payload":{"card":"4111"}"#,
        r#"{"source":"s","payload":"4111","payload_base64":"AA=="}"#,
        r#"{"source":"s","payload":4111x}"#,
    ] {
        let refusal = read(item).unwrap_err();
        assert!(!refusal.detail.contains("4111"), "{}", refusal.detail);
    }
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let slab = Bytes::from(bytes);
        let _ = parse(&slab, 0..slab.len());
    }

    #[test]
    fn no_damage_to_a_letter_makes_the_parser_panic(at in 0..FULL.len(), byte in any::<u8>(), cut in 0..FULL.len()) {
        let mut bytes = FULL.as_bytes().to_vec();
        bytes[at] = byte;
        bytes.truncate(FULL.len() - cut / 3);
        let slab = Bytes::from(bytes);
        let _ = parse(&slab, 0..slab.len());
    }

    #[test]
    fn any_field_may_hold_any_value_without_a_panic(
        name in proptest::sample::select(KNOWN),
        value in prop_oneof!["\"[^\"\\\\]{0,20}\"", "-?[0-9]{1,25}", "[\\[\\]{},\"0-9a-z:]{0,30}", Just("null".to_string())],
    ) {
        let _ = read(&format!(r#"{{"source":"s","payload":1,"{name}":{value}}}"#));
    }
}
