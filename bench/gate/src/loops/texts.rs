//! The fingerprint of an error: its text without what varies, and a hash of that and of where it happened.

use dlo_core::fingerprint::{Fingerprint, Parts};

use super::turn;
use crate::letters;

/// Texts of other shapes than the one that the other benchmarks send: a URL, a trace, identifiers, plain words.
fn text(n: u64) -> String {
    let number = letters::mix(n);
    match n % 4 {
        0 => format!(
            "HTTPConnectionPool(host='tax.internal', port=8080): Max retries exceeded with url: /rates/{} (Caused by \
             NewConnectionError('<urllib3.connection.HTTPConnection object at 0x{number:012x}>: Connection refused'))",
            number % 1_000_000
        ),
        1 => format!(
            "Traceback (most recent call last):\n  File \"/srv/app/pricing.py\", line {}, in price\n    \
             rate = table[pin]\nKeyError: {}",
            number % 900,
            number % 1_000_000
        ),
        2 => format!(
            "duplicate key value violates unique constraint \"orders_pkey\": Key \
             (id)=({number:08x}-7d1b-4a52-8c3f-6f1f4a3f9b10) already exists at 2026-11-01T12:30:00Z"
        ),
        _ => letters::message(n),
    }
}

pub(super) fn fingerprint_all(turns: u64, most: u64) {
    turn(turns, most, text, |text| {
        let parts = Parts {
            source: "orders",
            queue: "orders",
            consumer: Some("pricing"),
            event_type: Some("shop.order-placed"),
            error_class: Some("KeyError"),
        };
        Fingerprint::of(parts, &text)
    });
}
