//! When a message was published and when somebody had it: it carries the moment of its publish, by which it is known, and
//! whoever has it reads the same clock.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// Digits of microseconds since 1970, for some centuries.
const DIGITS: usize = 16;
const BEFORE: &str = "{\"at\":";

/// Microseconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}

/// A kilobyte of JSON that begins with this moment, or with the next that no other message has.
pub(crate) fn stamped() -> Vec<u8> {
    static LAST: AtomicU64 = AtomicU64::new(0);
    let last = LAST.load(Ordering::Relaxed);
    let at = now().max(last + 1);
    LAST.store(at, Ordering::Relaxed);
    let mut body = format!("{BEFORE}{at:0DIGITS$},\"note\":\"");
    while body.len() < 1_022 {
        body.push('x');
    }
    body.push_str("\"}");
    body.into_bytes()
}

/// One message as somebody saw it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Seen {
    published: u64,
    at: u64,
}

impl Seen {
    /// This moment, if the message says when it was published.
    pub(crate) fn now(body: &[u8]) -> Option<Self> {
        let digits = body.strip_prefix(BEFORE.as_bytes())?.get(..DIGITS)?;
        let published = std::str::from_utf8(digits).ok()?.parse().ok()?;
        Some(Self { published, at: now() })
    }
}

/// All in one line.
pub(crate) fn say(seen: &[Seen]) -> String {
    seen.iter().fold(String::new(), |mut line, Seen { published, at }| {
        let _ = write!(line, "{published}:{at} ");
        line
    })
}

/// What such a line says: when each message was seen.
pub(crate) fn read(line: &str) -> HashMap<u64, u64> {
    let one = |word: &str| {
        let (published, at) = word.split_once(':')?;
        Some((published.parse().ok()?, at.parse().ok()?))
    };
    line.split_whitespace().filter_map(one).collect()
}
