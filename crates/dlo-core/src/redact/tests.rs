//! What is hidden, what stays as it was, and that no bytes make masking fail.

use proptest::prelude::*;

use super::*;

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
    assert_eq!(masked(rules, payload), r#"{"***":true,"a":"see ***","card":"***"}"#);
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
