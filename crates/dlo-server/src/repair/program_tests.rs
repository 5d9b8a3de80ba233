//! What an expression makes of a letter, without a process around it.

use proptest::prelude::*;

use super::*;

fn run(expression: &str, payload: &str) -> Answer {
    let program = Program::compile(expression).unwrap();
    program.run(&Letter { payload: payload.as_bytes(), ..Letter::default() })
}

fn repaired(expression: &str, payload: &str) -> String {
    match run(expression, payload) {
        Answer::Changed(Change { payload: Some(payload), .. }) => String::from_utf8(payload).unwrap(),
        other => panic!("{other:?}"),
    }
}

fn failed(expression: &str, payload: &str) -> String {
    match run(expression, payload) {
        Answer::Failed(why) => why,
        other => panic!("{other:?}"),
    }
}

fn refused(expression: &str) -> BadExpression {
    Program::compile(expression).err().unwrap_or_else(|| panic!("{expression} was taken"))
}

#[test]
fn dollars_become_cents() {
    let order = r#"{"id":12345678901234567890123,"amount":19.99,"rate":1.10}"#;
    let repaired = repaired(".amount = (.amount * 100 | round)", order);
    assert_eq!(repaired, r#"{"id":12345678901234567890123,"amount":1999,"rate":1.10}"#);
}

#[test]
fn a_letter_that_an_expression_does_not_touch_stays_byte_for_byte() {
    let odd = " {\"a\" : 1.10, \"u\":\"http:\\/\\/x\"}\n";
    assert_eq!(run(".", odd), Answer::Same);
    assert_eq!(run("if .currency == \"USD\" then .amount *= 100 end", odd), Answer::Same);
}

#[test]
fn key_headers_and_facts_are_seen_and_changed() {
    let program = Program::compile(
        r#".tenant = $headers["x-tenant"] | .was = $key | .from = $letter.source
           | set_key(.id) | set_header("x-tenant"; "eu") | drop_header("x-old")"#,
    )
    .unwrap();
    let letter = Letter {
        payload: br#"{"id":"7"}"#,
        key: Some(b"old"),
        headers: vec![("x-tenant", Some(b"us")), ("x-tenant", Some(b"acme"))],
        facts: vec![("source", Some(b"orders"))],
    };
    let change = match program.run(&letter) {
        Answer::Changed(change) => change,
        other => panic!("{other:?}"),
    };
    let payload = String::from_utf8(change.payload.unwrap()).unwrap();
    assert_eq!(payload, r#"{"id":"7","tenant":"acme","was":"old","from":"orders"}"#);
    assert_eq!(change.key, KeyChange::Set(b"7".to_vec()));
    let headers = vec![("x-tenant".to_string(), Some(b"eu".to_vec())), ("x-old".to_string(), None)];
    assert_eq!(change.headers, headers);
}

#[test]
fn what_is_not_a_message_is_refused() {
    assert!(failed(r#"{"$payload": ., "x": 1}"#, "1").contains("has beside it only"));
    assert!(failed("set_key(1)", "1").contains("the key is set to a text"));
    assert!(failed(r#"set_header("dlo-reason"; "x")"#, "1").contains("the office's own"));
    assert!(failed(r#"set_header("a\nb"; "x")"#, "1").contains("control characters"));
    assert!(failed("set_key([range(5000)] | tojson)", "1").contains("at most 4096 bytes"));
}

#[test]
fn an_expression_that_is_not_understood_is_refused_with_its_place() {
    for (expression, at) in [(".amount = (", 11), (".a | nosuch", 5), ("$x", 0), (".a =", 4), ("\"abc", 4)] {
        assert_eq!(refused(expression).at, at, "{expression}: {}", refused(expression));
    }
    assert!(refused(".a | nosuch").what.contains("`nosuch`"));
}

#[test]
fn nothing_but_the_letter_can_be_seen() {
    for expression in [
        "env",
        "env.HOME",
        "$ENV",
        "$ENV.PATH",
        "input",
        "[inputs]",
        "import \"a\" as a; .",
        "include \"a\"; .",
        "import \"a\" as $a; .",
        "debug",
        "stderr",
        "halt",
        "halt_error",
        "now | localtime",
        "input_filename",
    ] {
        let what = refused(expression).what;
        assert!(what.contains("not available"), "{expression}: {what}");
    }
}

#[test]
fn a_repair_yields_one_payload() {
    assert!(failed("empty", "1").contains("yields nothing"));
    assert!(failed("., .", "1").contains("more than one"));
    assert!(failed("nan", "1").contains("JSON cannot say"));
}

#[test]
fn a_payload_that_is_not_json_is_left_to_people() {
    for payload in ["", "not json", "{\"a\":1,}", "<order/>"] {
        assert!(failed(".", payload).contains("cannot be repaired by an expression"), "{payload}");
    }
}

#[test]
fn a_failure_says_nothing_of_the_payload() {
    for expression in
        [".card.number", ".card + 1", "error(.card)", "error(\"x \\(.card)\")", ".card | tonumber"]
    {
        let why = failed(expression, r#"{"card":"4111 1111"}"#);
        assert!(!why.contains("4111"), "{expression}: {why}");
    }
    assert_eq!(failed("error(\"no amount\")", "{}"), "no amount");
    assert_eq!(failed(".a.b", r#"{"a":7}"#), "cannot index a number with \"b\"");
}

#[test]
fn a_result_that_is_small_in_memory_and_endless_on_paper_is_refused() {
    let why = failed("reduce range(30) as $i (\"0123456789\"; [., .])", "1");
    assert!(why.contains("larger than"), "{why}");
}

/// Any JSON, with numbers as outsiders spell them.
fn any_json() -> impl Strategy<Value = String> {
    let number = "-?(0|[1-9][0-9]{0,40})(\\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
    let text = any::<String>().prop_map(|text| serde_json::to_string(&text).unwrap());
    let leaf = prop_oneof![number, text, Just("null".to_string()), Just("true".to_string())];
    leaf.prop_recursive(4, 32, 6, |inner| {
        let array =
            proptest::collection::vec(inner.clone(), 0..6).prop_map(|all| format!("[ {} ]", all.join(" ,")));
        let object = proptest::collection::vec(inner, 0..6).prop_map(|all| {
            let members = all.iter().enumerate().map(|(at, member)| format!("\"k{at}\": {member}"));
            format!("{{{}}}", members.collect::<Vec<_>>().join(","))
        });
        prop_oneof![array, object]
    })
}

proptest! {
    #[test]
    fn identity_keeps_every_byte(json in any_json()) {
        prop_assert_eq!(run(".", &json), Answer::Same);
    }

    #[test]
    fn what_is_moved_keeps_every_digit(json in any_json()) {
        let moved = repaired("{moved: .}", &json);
        let inner = moved.strip_prefix("{\"moved\":").and_then(|rest| rest.strip_suffix('}')).unwrap();
        let (before, after) = (json::read(json.as_bytes()).unwrap(), json::read(inner.as_bytes()).unwrap());
        prop_assert!(json::identical(&before, &after));
    }

    #[test]
    fn any_expression_is_understood_or_refused(expression in "[.a-z$|()\\[\\]{}\"0-9 ,;:=*+-]{0,30}") {
        let _ = Program::compile(&expression);
    }
}
