//! How old a message is: it carries the moment of its publish, and whoever has it reads the same clock.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Digits of microseconds since 1970, for some centuries.
const DIGITS: usize = 16;
const BEFORE: &str = "{\"at\":";

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// A kilobyte of JSON that begins with this moment.
pub(crate) fn stamped() -> Vec<u8> {
    let mut body = format!("{BEFORE}{:0DIGITS$},\"note\":\"", now());
    while body.len() < 1_022 {
        body.push('x');
    }
    body.push_str("\"}");
    body.into_bytes()
}

/// How long ago the message was published, if it says so.
pub(crate) fn of(body: &[u8]) -> Option<Duration> {
    let digits = body.strip_prefix(BEFORE.as_bytes())?.get(..DIGITS)?;
    let at: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(Duration::from_micros(now().saturating_sub(at)))
}

/// The median and the 99th percentile of some microseconds, as milliseconds.
pub(crate) fn percentiles(ages: &mut [u64]) -> [f64; 2] {
    ages.sort_unstable();
    [0.50, 0.99].map(|share| {
        let at = (ages.len() as f64 * share) as usize;
        ages.get(at).map_or(f64::NAN, |micros| *micros as f64 / 1_000.0)
    })
}
