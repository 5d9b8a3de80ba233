//! This machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

use dlo_core::time::{Clock, Timestamp};

/// The time that the operating system tells.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> Timestamp {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Timestamp::from_micros(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }
}
