//! What is hidden, what stays as it was, and that no bytes make masking fail.

use proptest::prelude::*;

use super::*;
use crate::message::{Message, Payload};

fn redactor(json: &str) -> Redactor {
    Redactor::compile(&serde_json::from_str(json).unwrap()).unwrap()
}

fn masked(rules: &str, payload: &str) -> String {
    String::from_utf8(redactor(rules).payload(payload.as_bytes()).into_owned()).unwrap()
}

#[test]
fn fields_are_hidden_by_path_through_arrays() {
    let rules = r#"{"fields":["customer.card","lines.*.price","**.iban"]}"#;
    let table = [
        (r#"{"customer":{"card":{"no":1},"id":7}}"#, r#"{"customer":{"card":"***","id":7}}"#),
        (r#"{"card":1}"#, r#"{"card":1}"#),
        (r#"{"lines":[{"a":{"price":1}},{"price":2}]}"#, r#"{"lines":[{"a":{"price":"***"}},{"price":2}]}"#),
        (r#"{"iban":"DE1","x":{"y":[{"iban":"DE2"}]}}"#, r#"{"iban":"***","x":{"y":[{"iban":"***"}]}}"#),
    ];
    for (payload, expected) in table {
        assert_eq!(masked(rules, payload), expected);
    }
}

#[test]
fn a_document_without_secrets_stays_as_it_was_byte_for_byte() {
    let payload = "{ \"b\" : 1.10, \"a\" : 2 }";
    assert_eq!(masked(r#"{"fields":["password"],"detect":["email"]}"#, payload), payload);
}

#[test]
fn a_payload_that_is_no_json_is_hidden_whole_where_fields_are_named() {
    let payload = r#"{"password":"s3cret""#;
    let shown = masked(r#"{"fields":["password"]}"#, payload);
    assert_eq!(shown, "*** (20 bytes: no JSON, so its fields cannot be masked)");
    assert_eq!(masked(r#"{"patterns":["s3\\w+"]}"#, payload), r#"{"password":"***""#);
    let large = vec![b' '; LOOKED_THROUGH + 1];
    assert!(redactor(r#"{"fields":["password"]}"#).payload(&large).starts_with(b"*** ("));
}

#[test]
fn patterns_reach_values_names_and_numbers() {
    let rules = r#"{"patterns":["ACC-[0-9]+"],"detect":["card","email"]}"#;
    let payload = r#"{"a":"see ACC-77","card":4111111111111111,"jane@example.com":true}"#;
    assert_eq!(masked(rules, payload), r#"{"a":"see ***","card":"***","***":true}"#);
}

#[test]
fn a_name_that_an_object_has_twice_is_hidden_twice() {
    let payload = r#"{"card":"4111111111111111", "card" : 1, "id":1.10}"#;
    assert_eq!(masked(r#"{"fields":["card"]}"#, payload), r#"{"card":"***", "card" : "***", "id":1.10}"#);
    let payload = r#"{"note":"4111111111111111","note":"none"}"#;
    assert_eq!(masked(r#"{"detect":["card"]}"#, payload), r#"{"note":"***","note":"none"}"#);
}

#[test]
fn a_number_is_masked_by_its_own_digits_and_a_text_by_what_its_escapes_mean() {
    let rules = r#"{"patterns":["4{20}"]}"#;
    assert_eq!(masked(rules, r#"{"n":44444444444444444444444}"#), r#"{"n":"***444"}"#);
    assert_eq!(masked(r#"{"detect":["email"]}"#, r#"["jane\u0040example.com"]"#), r#"["***"]"#);
    assert_eq!(
        masked(r#"{"fields":["c\u0061rd"]}"#.replace("\\u0061", "a").as_str(), r#"{"c\u0061rd":1}"#),
        r#"{"c\u0061rd":"***"}"#
    );
}

#[test]
fn a_document_that_is_nested_too_deep_is_hidden_whole() {
    let deep = format!("{}1{}", "[".repeat(1_000), "]".repeat(1_000));
    assert!(masked(r#"{"fields":["card"]}"#, &deep).starts_with("*** ("));
}

#[test]
fn what_a_query_may_not_ask_for_is_known_beforehand() {
    let rules = redactor(r#"{"fields":["customer.card","**.iban"],"headers":["x-key"],"detect":["card"]}"#);
    let path = |text: &str| text.split('.').map(String::from).collect::<Vec<_>>();
    for hidden in ["customer.card", "customer.card.number", "a.b.iban", "a.4111111111111111.b"] {
        assert!(rules.hides_field(&path(hidden)), "{hidden}");
    }
    assert!(!rules.hides_field(&path("customer")) && !rules.hides_field(&path("card")));
    assert!(rules.hides_header("X-KEY") && !rules.hides_header("x-keys"));
    assert!(rules.hides_text("card 4111 1111 1111 1111") && !rules.hides_text("card 4111"));
    assert!(Redactor::default().is_empty() && !rules.is_empty());
}

#[test]
fn copies_differ_wherever_something_is_hidden_and_nowhere_else() {
    let rules = redactor(r#"{"fields":["card","customer"],"headers":["authorization"],"detect":["email"]}"#);
    let payload = r#"{"card":"4111111111111111","paid":true,"customer":{"pin":7,"vip":true,"tags":["a"]},"to":"for jane@example.com"}"#;
    let mut message = Message {
        payload: Payload::from(payload),
        key: Some(Payload::from("jane@example.com")),
        ..Message::default()
    };
    message.headers.push_text("authorization", "Bearer abcdefgh");
    message.headers.push_text("x-tenant", "eu");
    let copies: Vec<Message> = (0..COPIES).map(|copy| rules.stand_in(&message, copy).unwrap()).collect();
    let read = |copy: &Message| serde_json::from_slice::<Value>(&copy.payload.0).unwrap();
    for pair in [[0, 1], [1, 2], [0, 2]] {
        let [one, other] = pair.map(|copy| read(&copies[copy]));
        assert_eq!(one["paid"], other["paid"]);
        for field in ["card", "customer", "to"] {
            assert_ne!(one[field], other[field], "{field}");
        }
        assert_ne!(one["card"].as_str().unwrap().len(), other["card"].as_str().unwrap().len());
        let [one, other] = pair.map(|copy| &copies[copy]);
        assert_ne!(one.key, other.key);
        assert_eq!(one.headers.0[1], other.headers.0[1]);
        assert_ne!(one.headers.0[0], other.headers.0[0]);
    }
    let all = copies.iter().map(|copy| format!("{copy:?}")).collect::<String>();
    assert!(!all.contains("4111") && !all.contains("jane") && !all.contains("abcdefgh"));
    assert!(read(&copies[0])["card"].as_str().unwrap().parse::<u64>().is_ok(), "digits stay digits");
    assert!(read(&copies[0])["customer"]["pin"].is_u64());
    let to = read(&copies[1])["to"].as_str().unwrap().to_owned();
    assert_eq!(without_stand_ins(&to), "for ***");
    assert_eq!(without_stand_ins("maskzq plain"), "maskzq plain");
}

#[test]
fn a_payload_that_no_rule_looks_into_is_copied_whatever_it_is() {
    let mut message = Message { payload: Payload::from("no JSON"), ..Message::default() };
    message.headers.push_text("authorization", "Bearer abcdefgh");
    let copy = redactor(r#"{"headers":["authorization"]}"#).stand_in(&message, 0).unwrap();
    assert_eq!(copy.payload, message.payload);
    assert_ne!(copy.headers, message.headers);
    assert!(redactor(r#"{"fields":["card"]}"#).stand_in(&message, 0).is_none());
}

#[test]
fn headers_are_hidden_by_name_in_any_case_and_names_stay() {
    let mut headers = Headers::new();
    headers.push_text("Authorization", "Bearer abcdefghij");
    headers.push_text("x-api-key", "k");
    headers.push("x-empty", None);
    headers.push_text("x-note", "for jane@example.com");
    headers.push("x-binary", Some(Bytes::from_static(&[0xff, 0x00])));
    let rules = redactor(r#"{"headers":["authorization","X-API-*"],"detect":["email"]}"#);
    let shown = rules.headers(&headers);
    let texts: Vec<_> = shown.iter().map(|header| header.text()).collect();
    assert_eq!(texts, [Some("***"), Some("***"), None, Some("for ***"), None]);
    assert_eq!(shown.0[4], headers.0[4]);
    assert_eq!(Redactor::default().headers(&headers), headers);
}

#[test]
fn a_wrong_rule_is_refused_with_directions() {
    let refusal =
        |json: &str| Redactor::compile(&serde_json::from_str(json).unwrap()).unwrap_err().to_string();
    assert!(refusal(r#"{"fields":["a..b"]}"#).starts_with("rule redact: `fields`: expected a path such as"));
    assert!(refusal(r#"{"fields":["a.**"]}"#).contains("the last one a name"));
    assert!(refusal(r#"{"patterns":["("]}"#).contains("expected a regular expression"));
    assert!(refusal(r#"{"patterns":["x*"]}"#).contains("matches empty text"));
    assert!(
        serde_json::from_str::<RedactRules>(r#"{"detect":["cards"]}"#)
            .unwrap_err()
            .to_string()
            .contains("card, email, bearer")
    );
}

fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<i64>().prop_map(Value::from),
        "secret[a-z]{0,4}".prop_map(Value::from)
    ];
    leaf.prop_recursive(4, 32, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[a-c]|password", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_bytes_make_masking_fail(payload in prop::collection::vec(any::<u8>(), 0..200)) {
        let rules = redactor(r#"{"fields":["**.password"],"patterns":["a+"],"detect":["card","email","bearer"]}"#);
        let _ = rules.payload(&payload);
        let _ = rules.text(&String::from_utf8_lossy(&payload));
    }

    #[test]
    fn what_stands_under_a_hidden_field_is_never_shown(document in json()) {
        let wrapped = serde_json::json!({ "deep": [{ "password": document }] });
        let payload = serde_json::to_vec(&wrapped).unwrap();
        let shown = redactor(r#"{"fields":["**.password"]}"#).payload(&payload).into_owned();
        prop_assert!(!String::from_utf8(shown).unwrap().contains("secret"));
    }
}
