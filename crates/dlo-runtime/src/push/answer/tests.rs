//! The table of answers, row by row, and any bytes at all.

use std::time::Duration;

use dlo_core::classify::{Place, Ruleset, Unknown};
use dlo_core::verdict::VerdictKind;
use hyper::header::{HeaderName, HeaderValue};
use proptest::prelude::*;

use super::*;

fn answered(status: u16, headers: &[(&'static str, &str)], body: &str) -> Option<Failure> {
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        map.insert(HeaderName::from_static(name), HeaderValue::from_str(value).unwrap());
    }
    read(StatusCode::from_u16(status).unwrap(), &map, body.as_bytes(), Timestamp::EPOCH)
}

/// What the built-in rules make of it: `None` is done.
fn verdict(answer: &Option<Failure>) -> Option<VerdictKind> {
    let failure = answer.as_ref()?;
    let rules = Ruleset::compile(Vec::new()).unwrap();
    Some(rules.classify(failure, &Place::default(), Unknown::Discard).verdict)
}

#[test]
fn a_status_alone_is_read_as_the_table_says() {
    // `unknown` is set to discard, so that it can be told from terminal.
    const UNKNOWN: VerdictKind = VerdictKind::Discard;
    for (statuses, expected) in [
        (&[200, 201, 202, 204, 299][..], None),
        (&[408, 425, 429, 502, 503, 504], Some(VerdictKind::Retry)),
        (&[400, 401, 403, 404, 405, 409, 410, 413, 415, 422, 451], Some(VerdictKind::DeadLetter)),
        (&[301, 302, 304, 500, 501, 505, 599], Some(UNKNOWN)),
    ] {
        for status in statuses {
            assert_eq!(verdict(&answered(*status, &[], "")), expected, "{status}");
        }
    }
}

#[test]
fn a_verdict_in_the_body_overrides_every_status() {
    for status in [200, 302, 404, 422, 500, 503] {
        for (word, expected) in [
            ("done", None),
            ("retry", Some(VerdictKind::Retry)),
            ("dead_letter", Some(VerdictKind::DeadLetter)),
            ("discard", Some(VerdictKind::Discard)),
        ] {
            let body = format!(" {{\"verdict\": \"{word}\"}}");
            assert_eq!(verdict(&answered(status, &[], &body)), expected, "{status} {word}");
            assert_eq!(verdict(&answered(status, &[("dlo-verdict", word)], "")), expected, "{status} {word}");
            let json = [("dlo-verdict", body.trim())];
            assert_eq!(verdict(&answered(status, &json, "<html>")), expected, "{status} {word}");
        }
    }
}

#[test]
fn everything_a_body_tells_is_on_the_failure() {
    let body = r#"{"verdict":"retry","error_class":"TaxTableError","message":"pin 560001 not in tax table",
        "code":1042,"stack":"at price()","dependency":"tax","retry_after_ms":1500}"#;
    let failure = answered(500, &[("retry-after", "60")], body).unwrap();
    let expected = Failure {
        class: "TaxTableError".into(),
        message: "pin 560001 not in tax table".into(),
        code: Some("1042".into()),
        http_status: Some(500),
        stack: Some("at price()".into()),
        dependency: Some("tax".into()),
        retry_after: Some(Duration::from_millis(1_500)),
        says: Some(VerdictKind::Retry),
    };
    assert_eq!(failure, expected);
}

#[test]
fn without_a_verdict_the_fields_of_a_body_still_tell_of_the_failure() {
    let failure = answered(500, &[], r#"{"error_class":"TimeoutError","detail":"slow"}"#).unwrap();
    assert_eq!((failure.class.as_str(), failure.message.as_str()), ("TimeoutError", "slow"));
    assert_eq!(verdict(&Some(failure)), Some(VerdictKind::Retry), "a class that the rules know");
}

#[test]
fn the_header_has_the_word_before_the_body() {
    let failure = answered(200, &[("dlo-verdict", "discard")], r#"{"verdict":"retry","code":"x"}"#).unwrap();
    assert_eq!((failure.says, failure.code.as_deref()), (Some(VerdictKind::Discard), Some("x")));
}

#[test]
fn a_problem_gives_its_type_and_title() {
    let kind = ("content-type", "application/problem+json; charset=utf-8");
    let body =
        r#"{"type":"https://shop/errors/no-price","title":"No price","detail":"for C-441","status":422}"#;
    let failure = answered(422, &[kind], body).unwrap();
    assert_eq!(failure.class, "https://shop/errors/no-price");
    assert_eq!(failure.message, "No price: for C-441");
    assert_eq!(failure.http_status, Some(422));
    let blank = answered(503, &[kind], r#"{"type":"about:blank","title":"Service Unavailable"}"#).unwrap();
    assert_eq!((blank.class.as_str(), blank.message.as_str()), ("HTTP 503", "Service Unavailable"));
    let extended = answered(500, &[kind], r#"{"title":"Busy","verdict":"retry"}"#).unwrap();
    assert_eq!(extended.says, Some(VerdictKind::Retry));
}

#[test]
fn what_is_no_verdict_leaves_the_status_its_word() {
    for body in ["", "ok", "{", "[1]", "{\"verdict\":\"guilty\"}", "{\"verdict\":7}", "\u{feff}{}", "null"] {
        assert_eq!(answered(200, &[], body), None, "{body}");
        assert_eq!(answered(500, &[], body).unwrap().says, None, "{body}");
    }
    assert_eq!(answered(200, &[("dlo-verdict", "perhaps")], ""), None);
}

#[test]
fn retry_after_and_plain_words_are_taken_from_the_answer() {
    let busy = answered(503, &[("retry-after", "7")], "the tax table is being reloaded\n").unwrap();
    assert_eq!(busy.retry_after, Some(Duration::from_secs(7)));
    assert_eq!(busy.message, "the tax table is being reloaded");
    let page = answered(500, &[("content-type", "text/html")], "<h1>Oops</h1>").unwrap();
    assert_eq!(
        (page.class.as_str(), page.message.as_str()),
        ("HTTP 500", "the handler answered 500 Internal Server Error")
    );
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic_and_every_text_stays_within_its_limit(
        status in 100..1000_u16,
        header in proptest::collection::vec(32..127_u8, 0..64),
        body in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..256),
            "\\{\"(verdict|message|stack|type)\": ?.{0,64}\\}?".prop_map(String::into_bytes),
        ],
        problem: bool,
        now: i64,
    ) {
        let mut headers = HeaderMap::new();
        headers.insert("dlo-verdict", HeaderValue::from_bytes(&header).unwrap());
        headers.insert("retry-after", HeaderValue::from_bytes(&header).unwrap());
        if problem {
            headers.insert("content-type", HeaderValue::from_static("application/problem+json"));
        }
        let status = StatusCode::from_u16(status).unwrap();
        if let Some(failure) = read(status, &headers, &body, Timestamp::from_micros(now)) {
            prop_assert_eq!(failure.clone().bounded(), failure);
        }
    }

    #[test]
    fn a_word_that_is_no_verdict_never_changes_what_the_status_says(word in "[a-z_]{0,12}", status in 200..600_u16) {
        prop_assume!(Word::parse(&word).is_none());
        let said = answered(status, &[("dlo-verdict", &word)], &format!("{{\"verdict\":\"{word}\"}}"));
        prop_assert_eq!(said.is_none(), (200..300).contains(&status));
    }
}
