//! The letters that every workload sends: 1 KB JSON payloads, four headers, five hundred causes, in the order of a log.
//!
//! Letter `n` is a function of `n`, so that a run can be repeated and its counts checked.

use dlo_core::attempt::History;
use dlo_core::fingerprint::{Fingerprint, Parts};
use dlo_core::letter::{NewLetter, Status};
use dlo_core::message::{Headers, Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;

pub(crate) const CLASSES: [&str; 10] = [
    "KeyError",
    "TimeoutError",
    "JSONDecodeError",
    "IntegrityError",
    "ValueError",
    "PermissionDenied",
    "SchemaMismatch",
    "ConnectionReset",
    "NullPointerException",
    "RateLimited",
];
pub(crate) const TYPES: u64 = 50;
pub(crate) const CONSUMERS: [&str; 4] = ["pricing", "billing", "mail", "search"];
/// 2026-11-01T00:00:00Z.
const START_MS: i64 = 1_793_491_200_000;

/// A cheap mix of the bits of `n`.
pub(crate) fn mix(n: u64) -> u64 {
    let mut z = n.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

pub(crate) fn source(n: u64) -> &'static str {
    ["orders", "invoices", "shipments", "refunds"][(mix(n) % 4) as usize]
}

pub(crate) fn event_type(n: u64) -> String {
    format!("shop.event-{:02}", mix(n ^ 0x5a) % TYPES)
}

pub(crate) fn class(n: u64) -> &'static str {
    // The class follows the type, as it does in life: each type fails in two ways.
    CLASSES[((mix(n ^ 0x5a) % TYPES + mix(n ^ 0x77) % 2) % 10) as usize]
}

pub(crate) fn consumer(n: u64) -> &'static str {
    CONSUMERS[(mix(n ^ 0x5a) % TYPES % 4) as usize]
}

/// The team that owns what a consumer fails on.
pub(crate) fn owner(consumer: &str) -> &'static str {
    match consumer {
        "pricing" | "billing" => "payments",
        "mail" => "growth",
        _ => "core",
    }
}

pub(crate) fn key(n: u64) -> String {
    format!("C-{}", mix(n ^ 0x11) % 20_000)
}

pub(crate) fn correlation(n: u64) -> String {
    format!("req_{:016x}", mix(n ^ 0x22))
}

pub(crate) fn message(n: u64) -> String {
    format!(
        "pin {} not in tax table {} for customer CUST-{}: lookup of region failed after {} ms in worker {}",
        560_000 + mix(n ^ 0x33) % 1_000,
        mix(n ^ 0x34) % 9,
        mix(n ^ 0x35) % 500_000,
        mix(n ^ 0x36) % 5_000,
        mix(n ^ 0x37) % 64
    )
}

/// About 1,024 bytes of JSON.
pub(crate) fn payload(n: u64) -> String {
    let mut lines = String::new();
    for line in 0..7 {
        let sku = mix(n ^ (line << 8)) % 100_000;
        lines.push_str(&format!(
            r#"{{"sku":"SKU-{sku:05}","quantity":{},"unit_price_cents":{},"warehouse":"WH-{}","gift":false}},"#,
            1 + sku % 5,
            100 + sku % 9_000,
            sku % 12
        ));
    }
    lines.pop();
    format!(
        r#"{{"order_id":"ORD-{n:010}","customer":{{"id":"CUST-{}","email":"user{}@example.org","country":"{}"}},"currency":"EUR","lines":[{lines}],"total_cents":{},"placed_at":"2026-11-01T12:30:00Z","channel":"web","note":"{:016x}{:016x}"}}"#,
        mix(n ^ 0x35) % 500_000,
        mix(n) % 1_000_000,
        ["DE", "IN", "US", "BR"][(mix(n) % 4) as usize],
        mix(n) % 900_000,
        mix(n ^ 0x91),
        mix(n ^ 0x92)
    )
}

pub(crate) fn failed_at(n: u64) -> Timestamp {
    Timestamp::from_millis(START_MS + (n / 2) as i64)
}

/// Letter `n` as the HTTP API takes it, one line.
pub(crate) fn ndjson(n: u64, out: &mut Vec<u8>) {
    use std::io::Write;
    let _ = writeln!(
        out,
        r#"{{"source":"{}","queue":"{}","partition":{},"offset":{},"key":"{}","headers":[["x-tenant","acme"],["content-type","application/json"],["x-attempt","3"],["traceparent","00-{:032x}-{:016x}-01"]],"payload":{},"event_type":"{}","event_version":1,"correlation_id":"{}","consumer":"{}","consumer_id":"pod-7","attempts":3,"error_class":"{}","error_message":"{}","reason":"processing_error","failed_at":"{}"}}"#,
        source(n),
        source(n),
        n % 12,
        n / 12,
        key(n),
        mix(n),
        mix(n ^ 1),
        payload(n),
        event_type(n),
        correlation(n),
        consumer(n),
        class(n),
        message(n),
        failed_at(n)
    );
}

/// Letter `n` as the store takes it.
pub(crate) fn letter(n: u64) -> NewLetter {
    let mut headers = Headers::new();
    headers.push_text("x-tenant", "acme");
    headers.push_text("content-type", "application/json");
    headers.push_text("x-attempt", "3");
    headers.push_text("traceparent", format!("00-{:032x}-{:016x}-01", mix(n), mix(n ^ 1)));
    new_letter(n, source(n), message(n), headers, payload(n))
}

/// A letter of a storm: small, one source, with this error text.
pub(crate) fn storm(n: u64, error_message: String) -> NewLetter {
    new_letter(n, "orders", error_message, Headers::new(), format!(r#"{{"order_id":"ORD-{n:010}"}}"#))
}

fn new_letter(n: u64, source: &str, error_message: String, headers: Headers, payload: String) -> NewLetter {
    let origin = Origin::log(BrokerKind::Http, source, (n % 12) as i32, (n / 12) as i64);
    let (event_type, consumer, class) = (event_type(n), consumer(n), class(n));
    let parts = Parts {
        source,
        queue: source,
        consumer: Some(consumer),
        event_type: Some(&event_type),
        error_class: Some(class),
    };
    NewLetter {
        fingerprint: Fingerprint::of(parts, &error_message),
        dedupe: origin.dedupe_key(source, Some(consumer), None),
        source: source.into(),
        origin,
        message: Message { key: Some(Payload::from(key(n))), headers, payload: Payload::from(payload) },
        content_type: Some("application/json".into()),
        event_type: Some(event_type),
        event_version: Some("1".into()),
        correlation_id: Some(correlation(n)),
        trace_id: None,
        consumer: Some(consumer.into()),
        consumer_id: Some("pod-7".into()),
        consumer_version: None,
        attempts: 3,
        history: History::default(),
        error_class: Some(class.into()),
        error_message,
        error_code: None,
        error_stack: None,
        reason: Reason::ProcessingError,
        verdict: VerdictKind::DeadLetter,
        rule: None,
        published_at: None,
        received_at: None,
        first_failed_at: None,
        failed_at: failed_at(n),
        replay_id: None,
        replay_of: None,
        death: None,
        owner: Some(owner(consumer).into()),
        status: Status::Open,
    }
}

/// A letter of a storm in which everything fails for one reason.
pub(crate) fn storm_of_one(n: u64) -> NewLetter {
    let same = storm(0, "connection to tax service refused".into());
    let origin = Origin::log(BrokerKind::Http, "orders", (n % 12) as i32, (n / 12) as i64);
    NewLetter {
        dedupe: origin.dedupe_key("orders", same.consumer.as_deref(), None),
        origin,
        failed_at: failed_at(n),
        ..same
    }
}
