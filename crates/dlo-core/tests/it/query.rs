//! The query language from the outside: what a text means, what is refused, and that text and meaning agree.

use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::Status;
use dlo_core::origin::BrokerKind;
use dlo_core::query::{Compare, Matcher, Op, Problem, Query, ReplayLimits, Term};
use dlo_core::reason::Reason;
use dlo_core::suspect::Suspicion;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;
use dlo_core::words;
use proptest::prelude::*;

fn now() -> Timestamp {
    Timestamp::parse("2026-11-15T12:00:00Z").unwrap()
}

fn time(text: &str) -> Timestamp {
    Timestamp::parse(text).unwrap()
}

fn terms(text: &str) -> Vec<Term> {
    Query::parse(text, now()).unwrap_or_else(|error| panic!("{}", error.pointing(text))).terms
}

fn only(text: &str) -> Matcher {
    let mut terms = terms(text);
    assert_eq!(terms.len(), 1, "{text}");
    terms.remove(0).matcher
}

fn refusal(text: &str) -> String {
    Query::parse(text, now()).unwrap_err().to_string()
}

#[test]
fn the_queries_of_the_reference_page_are_understood() {
    let page = include_str!("../../../../docs/reference/query.md");
    let examples: Vec<&str> = page
        .split("```query\n")
        .skip(1)
        .filter_map(|block| block.split("```").next())
        .flat_map(str::lines)
        .collect();
    assert!(examples.len() >= 10, "the page has {} examples", examples.len());
    for example in examples {
        assert!(!terms(example).is_empty(), "{example}");
    }
}

#[test]
fn every_field_of_the_reference_page_has_a_meaning_and_is_listed() {
    let page = include_str!("../../../../docs/reference/query.md");
    let listed: Vec<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `"))
        .filter_map(|line| line.split_once('`').map(|(name, _)| name))
        .collect();
    for name in &listed {
        let field = name.replace("<name>", "x").replace("<field>", "x");
        let problem = Query::parse(&format!("{field}:"), now()).unwrap_err().problem;
        assert_eq!(problem, Problem::MissingValue { field: field.split('.').next().unwrap().to_string() });
    }
    let refused = refusal("x:1");
    assert!(refused.contains("unknown field `x`"), "{refused}");
    assert_eq!(listed.len(), dlo_core::query::FIELDS.len());
}

#[test]
fn an_empty_query_is_every_letter() {
    assert_eq!(terms(""), []);
    assert_eq!(terms(" \n\t "), []);
}

#[test]
fn words_and_phrases_search_text() {
    assert_eq!(only("tax"), Matcher::Text("tax".into()));
    assert_eq!(only("\"not in tax table\""), Matcher::Text("not in tax table".into()));
    assert_eq!(terms("tax table").len(), 2);
    assert_eq!(
        only("java.lang.NullPointerException"),
        Matcher::Text("java.lang.NullPointerException".into())
    );
}

#[test]
fn a_dash_negates_a_word_a_phrase_and_a_field() {
    let all = terms("-tax -\"a b\" -status:open");
    assert!(all.iter().all(|term| term.negated));
    assert_eq!(all[2].matcher, Matcher::Status(Status::Open));
}

#[test]
fn numbers_sizes_and_times_are_compared() {
    let at_least = |value| Compare { op: Op::Ge, value };
    assert_eq!(only("attempts:>=3"), Matcher::Attempts(at_least(3)));
    assert_eq!(only("attempts:3"), only("attempts:=3"));
    assert_eq!(only("size:>=100kb"), Matcher::Size(at_least(100_000)));
    let after = Compare { op: Op::Gt, value: time("2026-11-01") };
    assert_eq!(only("failed:>2026-11-01"), Matcher::Failed(after));
    assert_eq!(only("captured:>\"2026-11-01T00:00:00Z\""), Matcher::Captured(after));
}

#[test]
fn an_older_age_is_an_earlier_failure() {
    let ago = time("2026-11-15T10:00:00Z");
    assert_eq!(only("age:>2h"), Matcher::Failed(Compare { op: Op::Lt, value: ago }));
    assert_eq!(only("age:<=2h"), Matcher::Failed(Compare { op: Op::Ge, value: ago }));
    assert_eq!(refusal("age:2h"), "column 5: `age` needs a comparison, such as `age:>2h`");
}

#[test]
fn a_bare_day_is_all_of_that_day() {
    let found = Query::parse("failed:2026-11-01", now()).unwrap();
    assert_eq!(found.to_string(), "failed:>=2026-11-01T00:00:00Z failed:<2026-11-02T00:00:00Z");
    assert_eq!(
        refusal("-failed:2026-11-01"),
        "column 9: a whole day cannot be negated; say which side is meant, with `failed:<` or `failed:>=`"
    );
}

#[test]
fn nobody_and_a_team_called_none_are_different_owners() {
    assert_eq!(only("owner:none"), Matcher::Owner(None));
    assert_eq!(only("owner:\"none\""), Matcher::Owner(Some("none".into())));
}

#[test]
fn headers_and_payload_fields_are_named_behind_a_dot() {
    let header = |name: &str, value: &str| Matcher::Header { name: name.into(), value: value.into() };
    assert_eq!(only("header.x-tenant:acme"), header("x-tenant", "acme"));
    assert_eq!(only("header.__connect.errors.topic:orders"), header("__connect.errors.topic", "orders"));
    let payload = Matcher::Payload { path: vec!["customer".into(), "id".into()], value: "CUST-441".into() };
    assert_eq!(only(r#"payload.customer.id:"CUST-441""#), payload);
    let odd = Matcher::Payload { path: vec!["a.b".into(), "c d".into()], value: String::new() };
    assert_eq!(only(r#"payload."a.b"."c d":"""#), odd);
}

#[test]
fn a_typo_gives_directions() {
    for (text, said) in [
        ("stauts:open", "column 1: unknown field `stauts`; did you mean `status`?"),
        ("tax topic:orders", "column 5: unknown field `topic`; did you mean `queue`?"),
        ("Status:open", "column 1: unknown field `Status`; did you mean `status`?"),
        (
            "http://example.org",
            "column 1: unknown field `http`; to search for this text, put it in quotes: \"http://example.org\"",
        ),
        (
            "status:opne",
            "column 8: expected one of open, claimed, sent, in_doubt, recovered, discarded, compensated, archived, routed (perhaps `open`), found `opne`",
        ),
        ("attempts:many", "column 10: expected a whole number such as 3, found `many`"),
        ("age:>soon", "column 6: expected a duration such as 90s, 2h or 7d, at most 36500d, found `soon`"),
        ("size:>big", "column 7: expected a size such as 512, 100kb or 1.5mb, found `big`"),
        (
            "failed:>monday",
            "column 9: expected a time such as 2026-11-01 or 2026-11-01T12:30:00Z, found `monday`",
        ),
        (
            "group:7",
            "column 7: expected a group's id, such as 01936f3c-7a2e-7c1b-9d4f-2b8e6a0c5d17, found `7`",
        ),
        ("class:", "column 7: `class:` needs a value right behind the colon"),
        ("key:>5", "column 5: `key` cannot be compared; if the value begins with `>`, put it in quotes"),
        ("payload:x", "column 1: `payload` needs a name after a dot, such as `payload.customer.id:C-441`"),
        (
            "payload.a..b:x",
            "column 1: `payload` needs a name after a dot, such as `payload.customer.id:C-441`",
        ),
        ("header.:x", "column 1: `header` needs a name after a dot, such as `header.x-tenant:acme`"),
        ("tax -", "column 6: there is no word to search for; a word is made of letters and digits"),
        ("\"---\"", "column 1: there is no word to search for; a word is made of letters and digits"),
        (
            "class:\"Key",
            "column 7: the quote is never closed; inside quotes, a quote is written \\\" and a backslash \\\\",
        ),
    ] {
        assert_eq!(refusal(text), said, "{text}");
    }
}

#[test]
fn a_query_is_bounded() {
    assert_eq!(refusal(&"é".repeat(4_097)), "column 4097: the query is longer than 4096 characters");
    assert_eq!(refusal(&"a ".repeat(65)), "column 129: the query has more than 64 terms");
    assert_eq!(terms(&"a ".repeat(64)).len(), 64);
}

fn any_text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z0-9._:<>=\"\\\\ -]{0,12}", "\\PC{0,8}", Just("none".to_string()), "(?s).{0,6}"]
}

fn any_op() -> impl Strategy<Value = Op> {
    prop::sample::select(vec![Op::Eq, Op::Lt, Op::Le, Op::Gt, Op::Ge])
}

fn any_number() -> impl Strategy<Value = Compare<i64>> {
    (any_op(), any::<i64>()).prop_map(|(op, value)| Compare { op, value })
}

fn any_size() -> impl Strategy<Value = Compare<i64>> {
    (any_op(), 0..i64::MAX).prop_map(|(op, value)| Compare { op, value })
}

fn any_time() -> impl Strategy<Value = Compare<Timestamp>> {
    let micros = time("0001-01-01").as_micros()..time("9999-01-01").as_micros();
    (any_op(), micros).prop_map(|(op, micros)| Compare { op, value: Timestamp::from_micros(micros) })
}

fn any_word() -> impl Strategy<Value = Matcher> {
    prop_oneof![
        any_text().prop_map(Matcher::Source),
        any_text().prop_map(Matcher::Queue),
        any_text().prop_map(Matcher::Type),
        any_text().prop_map(Matcher::Class),
        any_text().prop_map(Matcher::Consumer),
        prop::option::of(any_text()).prop_map(Matcher::Owner),
        any_text().prop_map(Matcher::Version),
        any_text().prop_map(Matcher::Rule),
        any_text().prop_map(Matcher::Code),
        any_text().prop_map(Matcher::ConsumerId),
        any_text().prop_map(Matcher::Key),
        any_text().prop_map(Matcher::Correlation),
        any_text().prop_map(Matcher::Message),
        any_text().prop_map(Matcher::Trace),
        (any_text().prop_filter("named", |name| !name.is_empty()), any_text())
            .prop_map(|(name, value)| Matcher::Header { name, value }),
        (prop::collection::vec(any_text(), 1..4), any_text())
            .prop_map(|(path, value)| Matcher::Payload { path, value }),
        any_text().prop_filter("has a word", |text| !words::fold(text).is_empty()).prop_map(Matcher::Text),
    ]
}

fn any_typed() -> impl Strategy<Value = Matcher> {
    let id = any::<u128>().prop_map(|bits| format!("{bits:032x}"));
    prop_oneof![
        id.clone().prop_map(|id| Matcher::Group(id.parse::<GroupId>().unwrap())),
        id.prop_map(|id| Matcher::Id(id.parse::<LetterId>().unwrap())),
        prop::sample::select(Status::ALL).prop_map(Matcher::Status),
        prop::sample::select(BrokerKind::ALL).prop_map(Matcher::Broker),
        prop::sample::select(Reason::ALL).prop_map(Matcher::Reason),
        prop::sample::select(VerdictKind::ALL).prop_map(Matcher::Verdict),
        any::<i64>().prop_map(Matcher::Partition),
        any_number().prop_map(Matcher::Offset),
        any_number().prop_map(Matcher::Attempts),
        any_number().prop_map(Matcher::Replays),
        Just(Matcher::Exhausted(ReplayLimits::default())),
        Just(Matcher::Suspected(Suspicion::Duplicate)),
        Just(Matcher::Suspected(Suspicion::Return)),
        any_size().prop_map(Matcher::Size),
        any_time().prop_map(Matcher::Failed),
        any_time().prop_map(Matcher::Captured),
    ]
}

proptest! {
    #[test]
    fn a_query_written_as_text_means_the_same(
        matchers in prop::collection::vec((any::<bool>(), prop_oneof![any_word(), any_typed()]), 0..12),
    ) {
        let terms = matchers.into_iter().map(|(negated, matcher)| Term { negated, matcher }).collect();
        let query = Query { terms };
        let text = query.to_string();
        match Query::parse(&text, now()) {
            Ok(back) => prop_assert_eq!(back, query, "{}", text),
            Err(error) => prop_assert!(false, "{}", error.pointing(&text)),
        }
    }

    #[test]
    fn any_text_is_a_query_or_an_error_that_points_into_it(
        text in prop_oneof!["(?s).{0,60}", "[a-z.:\"\\\\<>=é -]{0,40}", "(status|age|failed|payload.a|size):[<>=]{0,2}.{0,12}"],
    ) {
        if let Err(error) = Query::parse(&text, now()) {
            prop_assert!(text.get(error.at.clone()).is_some(), "{error:?}");
            prop_assert_eq!(error.pointing(&text).lines().count(), 2, "{}", error.pointing(&text));
        }
    }
}
