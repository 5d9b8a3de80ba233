//! What is replayed is what was produced: a message that was parked by a home-made convention comes out as it went in.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use dlo_core::broker::Route;
use dlo_core::conventions::{Found, Mapper, OneOrMany, read};
use dlo_core::envelope::{Envelope, ReplayMark, encode, is_reserved, mark_replayed, strip_message};
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::BrokerKind;
use dlo_core::replay::produced::{Difference, Place, differences, produced, unwrapped};
use dlo_core::replay::{Settings, Target, Via};
use proptest::prelude::*;
use serde_json::{Value, json};

/// What a replay sends of a letter, without its marks; `None`: it is not sent.
fn replayed(letter: &Message, broker: BrokerKind, mapper: &Mapper, settings: &Settings) -> Option<Message> {
    let place = Place { dead: Found { broker, queue: "orders-dlq" }, mapper, queue: "orders" };
    let inside = unwrapped(letter, place).unwrap_or_else(|| letter.clone());
    let mut message = produced(&letter.headers, inside, place, settings).ok()?.message;
    let mark = ReplayMark { letter: None, replay_id: "r-1".to_owned(), count: 1, target_group: None };
    mark_replayed(&mut message.headers, &mark);
    assert_eq!(message.headers.text("dlo-replay-id"), Some("r-1"));
    message.headers.remove_where(is_reserved);
    Some(message)
}

fn usual(letter: &Message, broker: BrokerKind) -> Message {
    replayed(letter, broker, &Mapper::default(), &Settings::default()).unwrap()
}

/// A header or a field that an application may have, some of them with a word of a failure.
fn business() -> impl Strategy<Value = (String, String)> {
    let name = prop_oneof![
        4 => "[b-z]{2,6}_ref",
        1 => prop::sample::select(vec!["tenant", "reason", "service", "x-request", "trace", "amount"]).prop_map(str::to_owned),
    ];
    (name, "[ -~]{0,12}")
}

fn produced_message() -> impl Strategy<Value = Message> {
    let payload = prop_oneof![
        "[a-z]{1,8}"
            .prop_map(|text| json!({"order": text, "lines": [1, {"n": 1.5}]}).to_string().into_bytes()),
        "\\PC{1,20}".prop_map(String::into_bytes),
    ];
    let headers = prop::collection::vec(business(), 1..5);
    (payload, headers, prop::option::of("[a-z0-9-]{1,8}")).prop_map(|(payload, pairs, key)| {
        let mut headers = Headers::new();
        // A plain word of the producer is recognised by its place: it is not next to what was added.
        headers.push_text("first_ref", "1");
        for (name, value) in pairs {
            headers.push_text(name, value);
        }
        headers.push_text("last_ref", "1");
        Message { key: key.map(Payload::from), headers, payload: Payload::from(payload) }
    })
}

/// What consumers add, in the spelling of one of them.
fn added() -> impl Strategy<Value = Vec<(String, String)>> {
    let words = [
        ("original_stream", "orders"),
        ("original_id", "17-0"),
        ("consumer_group", "workers"),
        ("consumer_id", "w-1"),
        ("error_class", "KeyError"),
        ("retry_count", "3"),
        ("failed_at", "2026-11-19T10:00:00Z"),
        ("attempts", "3"),
        ("stacktrace", "at a"),
    ];
    let more = prop::sample::subsequence(words.to_vec(), 0..words.len());
    (more, any::<bool>()).prop_map(|(mut words, camel)| {
        words.push(("error_message", "no price"));
        words.push(("original_topic", "orders"));
        let spelled = |name: &str| if camel { camel_case(name) } else { name.to_owned() };
        words.into_iter().map(|(name, value)| (spelled(name), value.to_owned())).collect()
    })
}

fn camel_case(name: &str) -> String {
    let mut parts = name.split('_');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + &part[..1].to_uppercase() + &part[1..])
}

/// Envelopes of home-made consumers around a payload.
fn envelope(shape: usize, payload: &[u8], key: Option<&str>) -> Value {
    let text = String::from_utf8_lossy(payload).into_owned();
    let bytes = BASE64_STANDARD.encode(payload);
    let error = json!({"message": "no price", "type": "KeyError", "code": 7});
    match shape {
        0 => {
            json!({"id": "e", "payload": text, "metadata": {"originalTopic": "orders", "originalOffset": 7}, "errors": [error]})
        }
        1 => {
            json!({"original_message": text, "dlq": {"error_message": "x", "retry_count": 3, "original_queue": "orders"}})
        }
        2 => {
            json!({"payload": bytes, "encoding": "base64", "meta": {"source_topic": "orders", "error": "no price"}})
        }
        3 => json!({"payloadBase64": bytes, "error": error, "attempts": 2}),
        4 => json!({"deadLetter": {"payload": text, "errorMessage": "x", "originalTopic": "orders"}}),
        5 => {
            json!({"record": {"topic": "orders", "partition": 1, "offset": 3, "key": key, "value": text}, "exception": error})
        }
        _ => json!({"data": text, "headers": {"x-original-topic": "orders", "x-error-message": "x"}}),
    }
}

proptest! {
    #[test]
    fn what_a_consumer_added_to_headers_or_fields_is_taken_off_again(
        message in produced_message(),
        added in added(),
        first in any::<bool>(),
    ) {
        let mut parked = message.clone();
        let added: Vec<_> = added.into_iter().map(|(name, value)| (name, Some(value))).collect();
        let mut headers = Headers::new();
        for (name, value) in added {
            headers.push(name, value.map(Into::into));
        }
        if first {
            headers.0.append(&mut parked.headers.0);
            parked.headers = headers;
        } else {
            parked.headers.0.append(&mut headers.0);
        }
        let once = usual(&parked, BrokerKind::Redis);
        prop_assert_eq!(&once, &message);
        prop_assert_eq!(usual(&once, BrokerKind::Redis), message);
    }

    #[test]
    fn what_a_consumer_added_to_a_flat_entry_is_taken_off_again(
        fields in prop::collection::vec(business(), 1..5),
        added in added(),
    ) {
        let mut own: Vec<(String, String)> = vec![("first_ref".to_owned(), "1".to_owned())];
        for (name, value) in fields {
            if !own.iter().any(|(known, _)| *known == name) {
                own.push((name, value));
            }
        }
        own.push(("last_ref".to_owned(), "1".to_owned()));
        let object = |fields: &[(String, String)]| {
            let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{}:{}", json!(name), json!(value))).collect();
            format!("{{{}}}", pairs.join(","))
        };
        let mut message = Message { payload: Payload::from(object(&own)), ..Message::default() };
        message.headers.push_transport(BrokerKind::Redis, "layout", "object");
        let mut all = own;
        all.extend(added);
        let parked = Message { payload: Payload::from(object(&all)), ..message.clone() };
        prop_assert_eq!(usual(&parked, BrokerKind::Redis), message);
        let reading = read(&parked, Found { broker: BrokerKind::Redis, queue: "orders:dlq" });
        prop_assert_eq!(reading.error_message.as_deref(), Some("no price"));
    }

    #[test]
    fn what_is_in_an_envelope_comes_out_as_it_went_in(message in produced_message(), shape in 0_usize..7) {
        let key = message.key.as_ref().and_then(|key| std::str::from_utf8(&key.0).ok());
        let text = envelope(shape, &message.payload.0, key).to_string();
        let parked = Message { payload: Payload::from(text), ..message.clone() };
        prop_assert_eq!(usual(&parked, BrokerKind::Kafka), message);
    }

    #[test]
    fn no_nested_json_makes_reading_fail_and_stripping_twice_is_stripping_once(
        json in nested(),
        broker in prop::sample::select(BrokerKind::ALL),
        names in prop::collection::vec(prop::sample::select(WORDS.to_vec()), 0..12),
        flat in any::<bool>(),
    ) {
        let mut message = Message { payload: Payload::from(json.to_string()), ..Message::default() };
        for name in names {
            message.headers.push_text(name, "1");
        }
        if flat {
            message.headers.push_transport(BrokerKind::Redis, "layout", "object");
        }
        let place = Place { dead: Found { broker, queue: "orders-dlq" }, mapper: &Mapper::default(), queue: "orders" };
        let _ = differences(&message, place, &Settings::default());
        if let Some(inside) = unwrapped(&message, place) {
            prop_assert!(inside.payload.0.len() <= message.payload.0.len());
        }
        strip_message(&mut message, broker, &Mapper::default());
        let once = message.clone();
        strip_message(&mut message, broker, &Mapper::default());
        prop_assert_eq!(once, message);
    }
}

const WORDS: [&str; 26] = [
    "payload",
    "data",
    "metadata",
    "meta",
    "error",
    "errors",
    "dlq",
    "original",
    "headers",
    "record",
    "key",
    "message",
    "originalTopic",
    "original_message",
    "error_message",
    "failedAt",
    "attempts",
    "encoding",
    "payloadBase64",
    "stack",
    "reason",
    "consumer_group",
    "x-error",
    "topic",
    "value",
    "first",
];

fn nested() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
        Just(json!("{\"a\":1}")),
        Just(json!("eyJhIjoxfQ==")),
        Just(json!("base64")),
    ];
    leaf.prop_recursive(5, 80, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((prop::sample::select(WORDS.to_vec()), inner), 0..8)
                .prop_map(|pairs| pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

#[test]
fn a_source_can_name_what_is_taken_off_and_what_is_kept() {
    let mut letter = Message { payload: Payload::from("x"), ..Message::default() };
    for name in ["tenant", "boom", "error_message", "original_topic"] {
        letter.headers.push_text(name, "1");
    }
    let mapper = Mapper {
        take_off: OneOrMany(vec!["boom".to_owned()]),
        keep: OneOrMany(vec!["error_message".to_owned(), "original_topic".to_owned()]),
        ..Mapper::default()
    };
    let names = |mapper: &Mapper| -> Vec<String> {
        let sent = replayed(&letter, BrokerKind::Kafka, mapper, &Settings::default()).unwrap();
        sent.headers.iter().map(|header| header.name.clone()).collect()
    };
    assert_eq!(names(&mapper), ["tenant", "error_message", "original_topic"]);
    assert_eq!(names(&Mapper::default()), ["tenant", "boom"]);
}

/// A letter that the server of RabbitMQ dead-lettered.
fn rejected() -> Message {
    let mut letter = Message { payload: Payload::from("x"), ..Message::default() };
    let death = json!([{"queue": "orders", "reason": "rejected", "count": 1, "exchange": "shop", "time": 1_700_000_000,
        "routing-keys": ["orders.created", "audit"], "original-expiration": "60000"}]);
    letter.headers.push_text("x-death", death.to_string());
    letter.headers.push_text("x-first-death-queue", "orders");
    letter.headers.push_text("x-first-death-reason", "rejected");
    letter.headers.push_text("x-first-death-exchange", "shop");
    letter.headers.push_transport(BrokerKind::Rabbitmq, "routing-key", "orders.dlq");
    letter
}

#[test]
fn a_rabbitmq_letter_goes_straight_home_without_copies_and_expiration_unless_its_source_says_otherwise() {
    let mapper = Mapper::default();
    let dead = Found { broker: BrokerKind::Rabbitmq, queue: "orders.dlq" };
    let place = Place { dead, mapper: &mapper, queue: "orders" };
    let letter = rejected();
    let sent = |settings: &Settings| {
        let sent = produced(&letter.headers, letter.clone(), place, settings).unwrap();
        (sent.route, sent.message.headers.text("rabbitmq:expiration").map(str::to_owned))
    };
    let told = |settings: &Settings| differences(&letter, place, settings);
    assert_eq!(sent(&Settings::default()), (None, None));
    let all = vec![Difference::Straight, Difference::Copies, Difference::Expiration];
    assert_eq!(told(&Settings::default()), (all, Some("shop".to_owned())));
    let copies = vec!["audit".to_owned()];
    let route = |exchange: &str, key: &str, copies: &[String]| {
        let (exchange, routing_key, copies) = (exchange.to_owned(), key.to_owned(), copies.to_vec());
        Some(Box::new(Route { exchange, routing_key, copies }))
    };
    let cc = Settings { keep_cc: true, ..Settings::default() };
    assert_eq!(sent(&cc), (route("", "orders", &copies), None));
    let all = Settings { via: Via::Exchange, keep_cc: true, keep_expiration: true, ..Settings::default() };
    assert_eq!(sent(&all), (route("shop", "orders.created", &copies), Some("60000".to_owned())));
    assert_eq!(told(&all), (vec![], None));
    let exchange = Settings { via: Via::Exchange, ..Settings::default() };
    assert_eq!(sent(&exchange), (route("shop", "orders.created", &[]), None));
    let unknown = produced(&Headers::new(), letter.clone(), place, &exchange).unwrap_err();
    assert!(unknown.to_string().contains("via = \"queue\""), "{unknown}");
}

#[test]
fn the_default_exchange_takes_the_queue_that_a_letter_is_sent_to() {
    let mapper = Mapper::default();
    let dead = Found { broker: BrokerKind::Rabbitmq, queue: "orders.dlq" };
    let place = Place { dead, mapper: &mapper, queue: "payments" };
    let mut letter = rejected();
    let key = |letter: &Message, via| {
        let settings = Settings { via, keep_cc: true, ..Settings::default() };
        let sent = produced(&letter.headers, letter.clone(), place, &settings).unwrap();
        sent.route.map(|route| (route.exchange.clone(), route.routing_key.clone(), route.copies.len()))
    };
    let to_payments = Some((String::new(), "payments".to_owned(), 1));
    assert_eq!(key(&letter, Via::Queue), to_payments);
    let death = letter.headers.text("x-death").unwrap().replace("\"shop\"", "\"\"");
    letter.headers.remove_where(|name| matches!(name, "x-death" | "x-first-death-exchange"));
    letter.headers.push_text("x-death", death);
    assert_eq!(key(&letter, Via::Exchange), to_payments);
}

#[test]
fn in_another_queue_a_rabbitmq_letter_is_persistent_and_does_not_expire() {
    let mapper = Mapper::default();
    let dead = Found { broker: BrokerKind::Rabbitmq, queue: "orders.dlq" };
    let place = Place { dead, mapper: &mapper, queue: "failed" };
    let mut letter = rejected();
    for (name, value) in [("expiration", "60000"), ("delivery-mode", "1")] {
        letter.headers.push_transport(BrokerKind::Rabbitmq, name, value);
    }
    letter.headers.push_text("dlo-origin-delivery-mode", "1");
    let all = Settings { via: Via::Exchange, keep_cc: true, keep_expiration: true, ..Settings::default() };
    for target in [Target::Route("failed".to_owned()), Target::Queue("failed".to_owned())] {
        let settings = Settings { target, ..all.clone() };
        let sent = produced(&letter.headers, letter.clone(), place, &settings).unwrap();
        let fact = |name: &str| sent.message.headers.transport(BrokerKind::Rabbitmq, name);
        assert_eq!(
            (sent.route.is_none(), fact("expiration"), fact("delivery-mode")),
            (true, None, Some("2"))
        );
        let expected = [Difference::Straight, Difference::Copies, Difference::Expiration];
        let (found, exchange) = differences(&letter, place, &settings);
        assert_eq!((&found[..], exchange.as_deref()), (&expected[..], Some("shop")));
        assert!(found.iter().all(|one| one.setting(&settings) == "replay.target"), "{found:?}");
    }
}

#[test]
fn what_our_runtime_parked_keeps_every_name_that_its_producer_gave() {
    let fields = r#"{"id":"7","source_stream":"crm","error_code":"51","retry_count":"2"}"#;
    let mut message = Message { payload: Payload::from(fields), ..Message::default() };
    message.headers.push_transport(BrokerKind::Redis, "layout", "object");
    for name in ["tenant", "error_message", "source_stream", "boom"] {
        message.headers.push_text(name, "1");
    }
    let parked = encode(&message, &Envelope::default(), 100_000).unwrap();
    assert_eq!(usual(&parked, BrokerKind::Redis), message);
    let place = Place {
        dead: Found { broker: BrokerKind::Redis, queue: "orders:dlq" },
        mapper: &Mapper::default(),
        queue: "orders",
    };
    assert_eq!(differences(&parked, place, &Settings::default()), (vec![], None));
    let others = Payload::from(r#"{"id":"7"}"#);
    assert_eq!(usual(&message, BrokerKind::Redis).payload, others);
    let mapper = Mapper { take_off: OneOrMany(vec!["boom".to_owned()]), ..Mapper::default() };
    message.headers.remove_where(|name| name == "boom");
    assert_eq!(replayed(&parked, BrokerKind::Redis, &mapper, &Settings::default()), Some(message));
}

#[test]
fn a_plain_name_alone_is_the_applications_and_two_of_a_convention_are_its_story() {
    let left = |names: &[&str]| -> Vec<String> {
        let mut message = Message::default();
        names.iter().for_each(|name| message.headers.push_text(*name, "1"));
        let sent = usual(&message, BrokerKind::Kafka);
        sent.headers.iter().map(|header| header.name.clone()).collect()
    };
    for name in
        ["RequestID", "ErrorCode", "failed-at", "DELAY", "HandledCount", "x-source-system", "error_message"]
    {
        assert_eq!(left(&["tenant", name]), ["tenant", name]);
    }
    for names in [
        &["RequestID", "ErrorCode", "ErrorMessage"][..],
        &["exception-type", "failed-at", "original-destination"],
        &["source_topic", "source_attempts"],
        &["REAL_TOPIC", "RECONSUMETIMES"],
        &["MT-Fault-Message", "MT-Host-MachineName"],
    ] {
        let all: Vec<&str> = std::iter::once(&"tenant").chain(names).copied().collect();
        assert_eq!(left(&all), ["tenant"], "{names:?}");
    }
}
