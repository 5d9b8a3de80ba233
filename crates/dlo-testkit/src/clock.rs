//! Clocks that tests own.
//!
//! [`MovedClock`] stands still until it is moved. [`TokioClock`] follows Tokio's time, so that under a paused runtime
//! clock, delays and timeouts agree.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use dlo_core::time::{Clock, Timestamp};
use tokio::time::Instant;

/// 2026-11-01T12:00:00Z: where tests begin unless they say otherwise.
pub const START: Timestamp = Timestamp::from_millis(1_793_534_400_000);

/// Stands still until it is moved.
#[derive(Debug)]
pub struct MovedClock(AtomicI64);

impl MovedClock {
    pub fn at(start: Timestamp) -> Self {
        Self(AtomicI64::new(start.as_micros()))
    }

    pub fn advance(&self, by: Duration) {
        let moved = self.now().plus(by);
        self.0.store(moved.as_micros(), Ordering::SeqCst);
    }

    /// Jumps, backwards as well: clocks do.
    pub fn set(&self, to: Timestamp) {
        self.0.store(to.as_micros(), Ordering::SeqCst);
    }
}

impl Default for MovedClock {
    fn default() -> Self {
        Self::at(START)
    }
}

impl Clock for MovedClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Ordering::SeqCst))
    }
}

/// Follows Tokio's time from [`START`] on. Made inside of the runtime whose time it follows.
#[derive(Debug)]
pub struct TokioClock {
    began: Instant,
}

impl TokioClock {
    pub fn new() -> Self {
        Self { began: Instant::now() }
    }
}

impl Default for TokioClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TokioClock {
    fn now(&self) -> Timestamp {
        START.plus(self.began.elapsed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moved_clock_stands_still_until_it_is_moved() {
        let clock = MovedClock::default();
        assert_eq!(clock.now().to_string(), "2026-11-01T12:00:00Z");
        clock.advance(Duration::from_secs(90));
        assert_eq!(clock.now().since(START), Duration::from_secs(90));
    }

    #[tokio::test(start_paused = true)]
    async fn a_tokio_clock_moves_with_the_paused_runtime() {
        let clock = TokioClock::new();
        tokio::time::advance(Duration::from_secs(90)).await;
        assert_eq!(clock.now().since(START), Duration::from_secs(90));
    }
}
