//! The specification of classification: what each language's errors mean, whose word comes first, what is refused.

use proptest::prelude::*;

use super::*;

const PLACE: Place<'static> =
    Place { queue: "orders", consumer: Some("pricing"), event_type: Some("order.placed") };

fn rules(json: &str) -> Result<Ruleset, String> {
    let rules = serde_json::from_str(json).map_err(|e| e.to_string())?;
    Ruleset::compile(rules).map_err(|e| e.to_string())
}

fn builtin() -> Ruleset {
    Ruleset::compile(Vec::new()).unwrap()
}

fn told(ruleset: &Ruleset, failure: &Failure) -> String {
    let classified = ruleset.classify(failure, &PLACE, Unknown::DeadLetter);
    format!("{} {} {}", classified.verdict, classified.reason, classified.rule)
}

/// What the built-in rules know of each language, with the reason for which it is parked in the end.
#[test]
fn known_classes_of_the_big_languages_are_told_apart() {
    let retry = "retry max_retries_exceeded builtin:";
    let parse = "dead_letter deserialization_error builtin:deserialization";
    let invalid = "dead_letter validation_error builtin:validation";
    let failed = "dead_letter processing_error builtin:";
    let table = [
        // Java
        ("java.net.SocketTimeoutException", format!("{retry}timeout")),
        ("java.net.ConnectException", format!("{retry}connection")),
        ("org.springframework.dao.DeadlockLoserDataAccessException", format!("{retry}deadlock")),
        ("java.util.concurrent.RejectedExecutionException", format!("{retry}pool_exhausted")),
        ("com.fasterxml.jackson.core.JsonParseException", parse.to_owned()),
        ("javax.validation.ConstraintViolationException", invalid.to_owned()),
        ("javax.persistence.EntityNotFoundException", format!("{failed}missing_reference")),
        ("org.springframework.security.access.AccessDeniedException", format!("{failed}permission")),
        ("java.lang.ClassCastException", format!("{failed}type_error")),
        // Python
        ("requests.exceptions.ReadTimeout", format!("{retry}timeout")),
        ("ConnectionResetError", format!("{retry}connection")),
        ("openai.RateLimitError", format!("{retry}rate_limit")),
        ("psycopg.errors.DeadlockDetected", format!("{retry}deadlock")),
        ("json.decoder.JSONDecodeError", parse.to_owned()),
        ("pydantic_core._pydantic_core.ValidationError", invalid.to_owned()),
        ("psycopg2.errors.ForeignKeyViolation", format!("{failed}missing_reference")),
        ("KeyError", format!("{failed}type_error")),
        // .NET
        ("System.TimeoutException", format!("{retry}timeout")),
        ("System.Net.Sockets.SocketException", format!("{retry}connection")),
        ("Newtonsoft.Json.JsonReaderException", parse.to_owned()),
        ("System.UnauthorizedAccessException", format!("{failed}permission")),
        ("System.NullReferenceException", format!("{failed}type_error")),
        // Node
        ("TimeoutError", format!("{retry}timeout")),
        ("SequelizeConnectionRefusedError", format!("{retry}connection")),
        ("SyntaxError", parse.to_owned()),
        ("ZodError", invalid.to_owned()),
        ("TypeError", format!("{failed}type_error")),
        // Go
        ("context.deadlineExceededError", format!("{retry}timeout")),
        ("*net.OpError", format!("{retry}connection")),
        ("*json.UnmarshalTypeError", parse.to_owned()),
        ("sql.ErrNoRows", format!("{failed}missing_reference")),
        // Rust
        ("tokio::time::error::Elapsed", format!("{retry}timeout")),
        ("sqlx::Error::PoolTimedOut", format!("{retry}pool_exhausted")),
        ("std::str::Utf8Error", parse.to_owned()),
        // Everywhere
        ("app.UnknownEventVersion", "dead_letter unknown_version builtin:unknown_version".to_owned()),
        ("app.TaxRuleMissing", "dead_letter processing_error default:unknown".to_owned()),
        ("", "dead_letter processing_error default:unknown".to_owned()),
        (PROCESSING_TIMEOUT, "retry timeout builtin:processing_timeout".to_owned()),
    ];
    let ruleset = builtin();
    for (class, expected) in table {
        assert_eq!(told(&ruleset, &Failure::new(class, "")), expected, "{class}");
    }
}

#[test]
fn http_statuses_are_told_apart_before_anything_else() {
    let table = [
        (408, "retry max_retries_exceeded builtin:http_timeout"),
        (425, "retry max_retries_exceeded builtin:http_too_early"),
        (429, "retry max_retries_exceeded builtin:http_rate_limit"),
        (502, "retry max_retries_exceeded builtin:http_unavailable"),
        (503, "retry max_retries_exceeded builtin:http_unavailable"),
        (504, "retry max_retries_exceeded builtin:http_timeout"),
        (400, "dead_letter validation_error builtin:http_invalid"),
        (422, "dead_letter validation_error builtin:http_invalid"),
        (401, "dead_letter processing_error builtin:http_permission"),
        (403, "dead_letter processing_error builtin:http_permission"),
        (404, "dead_letter processing_error builtin:http_missing"),
        (409, "dead_letter processing_error builtin:http_client_error"),
        // A bare 500 is usually a bug, and bugs repeat.
        (500, "dead_letter processing_error default:unknown"),
    ];
    let ruleset = builtin();
    for (status, expected) in table {
        let failure = Failure { http_status: Some(status), ..Failure::new("HTTPError", "") };
        assert_eq!(told(&ruleset, &failure), expected, "{status}");
    }
}

#[test]
fn codes_and_words_speak_when_the_class_says_nothing() {
    let code = |code: &str| Failure { code: Some(code.into()), ..Failure::new("Error", "") };
    let words = |message: &str| Failure::new("RuntimeError", message);
    let table = [
        (code("ECONNREFUSED"), "retry max_retries_exceeded builtin:connection_code"),
        (code("40P01"), "retry max_retries_exceeded builtin:deadlock_code"),
        (code("23503"), "dead_letter processing_error builtin:missing_reference_code"),
        (
            words("dial tcp 10.0.0.7:5432: connection refused"),
            "retry max_retries_exceeded builtin:connection_words",
        ),
        (words("Request timed out after 30s"), "retry max_retries_exceeded builtin:timeout_words"),
        (
            words("Unexpected token < in JSON at position 0"),
            "dead_letter deserialization_error builtin:deserialization_words",
        ),
        (words("unsupported event version 7"), "dead_letter unknown_version builtin:unknown_version_words"),
        (words("pin 560001 not in tax table"), "dead_letter processing_error default:unknown"),
    ];
    let ruleset = builtin();
    for (failure, expected) in table {
        assert_eq!(told(&ruleset, &failure), expected, "{failure:?}");
    }
}

#[test]
fn a_class_is_believed_before_the_words_of_its_message() {
    let failure = Failure::new("ValidationError", "request timeout must be positive; connection refused");
    assert_eq!(told(&builtin(), &failure), "dead_letter validation_error builtin:validation");
}

#[test]
fn the_first_rule_that_fits_wins_and_is_named_on_the_record() {
    let ruleset = rules(
        r#"[{"name":"tax is slow","when":{"class":"TaxError","message":"table .* loading"},"verdict":"retry",
             "attempts":9,"age":"1h","dependency":"tax"},
            {"when":{"class":"TaxError"},"verdict":"dead_letter","reason":"rejected"},
            {"when":{"class":"Timeout*","queue":"tele*"},"verdict":"discard"}]"#,
    )
    .unwrap();
    let slow =
        ruleset.classify(&Failure::new("app.TaxError", "table 7 loading"), &PLACE, Unknown::DeadLetter);
    assert_eq!((slow.verdict, slow.rule.as_str()), (VerdictKind::Retry, "tax is slow"));
    assert_eq!(slow.limits.attempts.map(NonZeroU32::get), Some(9));
    assert_eq!(slow.limits.age, Some(Duration::from_secs(3_600)));
    assert_eq!(slow.dependency.as_deref(), Some("tax"));
    assert_eq!(told(&ruleset, &Failure::new("TaxError", "")), "dead_letter rejected class=TaxError");

    let late = Failure::new("TimeoutError", "");
    assert_eq!(told(&ruleset, &late), "retry max_retries_exceeded builtin:timeout");
    let telemetry = Place { queue: "telemetry", ..PLACE };
    let dropped = ruleset.classify(&late, &telemetry, Unknown::DeadLetter);
    assert_eq!(
        (dropped.verdict, dropped.rule.as_str()),
        (VerdictKind::Discard, "class=Timeout*,queue=tele*")
    );
}

#[test]
fn every_field_of_a_rule_is_looked_at() {
    let ruleset = rules(
        r#"[{"name":"all","when":{"class":"E","message":"m","code":"c","http_status":["5xx",418],"event_type":"order.*",
             "queue":"orders","consumer":"pricing","dependency":"tax"},"verdict":"discard"}]"#,
    )
    .unwrap();
    let whole = Failure {
        code: Some("c".into()),
        http_status: Some(500),
        dependency: Some("tax".into()),
        ..Failure::new("E", "a m b")
    };
    let rule =
        |failure: &Failure, place: &Place<'_>| ruleset.classify(failure, place, Unknown::DeadLetter).rule;
    assert_eq!(rule(&whole, &PLACE), "all");
    let others = [
        Failure { class: "F".into(), ..whole.clone() },
        Failure { message: "x".into(), ..whole.clone() },
        Failure { code: None, ..whole.clone() },
        Failure { http_status: Some(600), ..whole.clone() },
        Failure { dependency: Some("bank".into()), ..whole.clone() },
    ];
    for failure in others {
        assert_eq!(rule(&failure, &PLACE), BY_DEFAULT, "{failure:?}");
    }
    for place in [
        Place { queue: "mail", ..PLACE },
        Place { consumer: None, ..PLACE },
        Place { event_type: Some("invoice.paid"), ..PLACE },
    ] {
        assert_eq!(rule(&whole, &place), BY_DEFAULT, "{place:?}");
    }
}

#[test]
fn the_handlers_own_word_comes_before_every_rule() {
    let ruleset = builtin();
    let says = |verdict, class: &str| Failure { says: Some(verdict), ..Failure::new(class, "") };
    assert_eq!(told(&ruleset, &says(VerdictKind::Retry, "KeyError")), "retry max_retries_exceeded handler");
    assert_eq!(
        told(&ruleset, &says(VerdictKind::Discard, "TimeoutError")),
        "discard processing_error handler"
    );
    // What it is called still comes from the rules: could not parse is never could not process.
    assert_eq!(
        told(&ruleset, &says(VerdictKind::DeadLetter, "JSONDecodeError")),
        "dead_letter deserialization_error handler"
    );
}

#[test]
fn what_nobody_knows_is_terminal_unless_the_queue_says_otherwise() {
    let unknown = |json: &str| serde_json::from_str::<Unknown>(json).unwrap();
    let classify = |default| builtin().classify(&Failure::new("Strange", ""), &PLACE, default);
    assert_eq!(classify(Unknown::default()).verdict, VerdictKind::DeadLetter);
    assert_eq!(classify(unknown("\"discard\"")).verdict, VerdictKind::Discard);
    let once_more = classify(unknown("\"retry\""));
    assert_eq!((once_more.verdict, once_more.rule.as_str()), (VerdictKind::Retry, BY_DEFAULT));
    assert_eq!(once_more.limits.attempts.map(NonZeroU32::get), Some(2));
    let capped = unknown(r#"{"verdict":"retry","attempts":3}"#);
    assert_eq!(classify(capped).limits.attempts.map(NonZeroU32::get), Some(3));
    let refusal = serde_json::from_str::<Unknown>("\"ignore\"").unwrap_err().to_string();
    assert!(refusal.contains("expected dead_letter, retry, discard"), "{refusal}");
}

#[test]
fn a_wrong_rule_is_refused_by_name_and_field() {
    let table = [
        (r#"[{"when":{},"verdict":"retry"}]"#, "rule 1 of classify: `when`: expected at least one of class"),
        (
            r#"[{"name":"","when":{"class":"A"},"verdict":"retry"}]"#,
            "rule 1 of classify: `name`: expected 1 to 256",
        ),
        (
            r#"[{"name":"a","when":{"message":"("},"verdict":"retry"}]"#,
            "rule `a`: `message`: expected a regular expression",
        ),
        (
            r#"[{"name":"a","when":{"http_status":"6xx"},"verdict":"retry"}]"#,
            "rule `a`: `http_status`: expected a status",
        ),
        (
            r#"[{"name":"a","when":{"class":"A"},"verdict":"retry","attempts":0}]"#,
            "rule `a`: `attempts`: expected 1 to 1000, found 0",
        ),
        (
            r#"[{"name":"a","when":{"class":"A"},"verdict":"discard","age":"1h"}]"#,
            "rule `a`: `age`: only a rule with verdict",
        ),
        (r#"[{"when":{"klass":"A"},"verdict":"retry"}]"#, "unknown field `klass`, expected one of `class`"),
        (
            r#"[{"when":{"class":"A"},"verdict":"park"}]"#,
            "unknown verdict `park`, expected one of retry, dead_letter, discard",
        ),
    ];
    for (json, expected) in table {
        let refusal = rules(json).unwrap_err();
        assert!(refusal.starts_with(expected), "{refusal}");
    }
}

#[test]
fn a_built_in_name_stands_in_one_row_only() {
    let mut seen = std::collections::BTreeMap::new();
    for rule in builtin::rules() {
        let name = rule.name.unwrap_or_default();
        for (kind, texts) in [("class", rule.when.class), ("code", rule.when.code)] {
            for text in texts.iter().flat_map(|texts| texts.as_slice()) {
                let earlier = seen.insert((kind, text.clone()), name.clone());
                assert_eq!(earlier, None, "{kind} {text} stands in {name} too");
            }
        }
    }
    assert!(seen.len() > 300, "{}", seen.len());
}

/// Compiled once: 256 cases would compile 256 times.
static BUILTIN: std::sync::LazyLock<Ruleset> = std::sync::LazyLock::new(builtin);

proptest! {
    #[test]
    fn every_failure_gets_exactly_one_verdict(class in "\\PC{0,30}", message in "\\PC{0,60}", status: Option<u16>) {
        let failure = Failure { http_status: status, ..Failure::new(class, message) };
        let classified = BUILTIN.classify(&failure, &PLACE, Unknown::DeadLetter);
        prop_assert!(!classified.rule.is_empty());
    }
}
