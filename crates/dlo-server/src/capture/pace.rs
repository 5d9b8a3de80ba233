//! How fast one source may be read: so many letters a second, and so many bytes at once.
//!
//! Readers are asked for a number of messages, not of bytes. How large they are is learned from those that came, so
//! that one question brings about as many bytes as there is room for.

use std::num::NonZeroU32;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use dlo_core::message::Message;
use tokio::time::Instant;

/// Messages of one question at most: a transaction of the store.
pub(super) const MOST: usize = 5_000;
/// Asked for before anything is known of their size.
const FIRST: usize = 100;

/// Letters a second, over all lanes of a source.
#[derive(Debug)]
pub(super) struct Pace {
    rate: Option<NonZeroU32>,
    /// When the letters that were let through are paid for.
    paid: Mutex<Option<Instant>>,
}

impl Pace {
    pub(super) fn new(rate: Option<NonZeroU32>) -> Self {
        Self { rate, paid: Mutex::new(None) }
    }

    /// Messages that may be asked for at once: a second's worth.
    pub(super) fn most(&self) -> usize {
        self.rate.map_or(MOST, |rate| usize::try_from(rate.get()).unwrap_or(MOST).min(MOST))
    }

    /// Waits until `count` letters more are within the rate.
    pub(super) async fn pass(&self, count: usize) {
        let Some(rate) = self.rate else { return };
        let cost = Duration::from_secs_f64(count as f64 / f64::from(rate.get()));
        let until = {
            let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
            let from = paid.unwrap_or_else(Instant::now).max(Instant::now());
            *paid = Some(from + cost);
            from
        };
        tokio::time::sleep_until(until).await;
    }
}

/// How many messages fit into a number of bytes, by the size of those that came.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portion {
    average: Option<usize>,
}

impl Portion {
    pub(super) const fn new() -> Self {
        Self { average: None }
    }

    /// How many to ask for when there is room for `bytes`.
    pub(super) fn of(self, bytes: usize) -> usize {
        self.average.map_or(FIRST, |average| bytes / average.max(1)).clamp(1, MOST)
    }

    /// Learns from what came. Growth is believed at once, shrinking slowly: memory is what it guards.
    pub(super) fn learn(&mut self, count: usize, bytes: usize) {
        if count == 0 {
            return;
        }
        let seen = bytes / count;
        self.average = Some(match self.average {
            Some(average) if seen < average => average - (average - seen) / 4,
            _ => seen,
        });
    }
}

/// Bytes that a message takes in memory, about.
pub(super) fn weight(message: &Message) -> usize {
    512 + message.payload.0.len() + message.headers.size() + message.key.as_ref().map_or(0, |key| key.0.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portion_follows_the_size_of_what_came() {
        let mut portion = Portion::new();
        assert_eq!(portion.of(1 << 20), FIRST);
        portion.learn(100, 100 * 1_024);
        assert_eq!(portion.of(1 << 20), 1_024);
        portion.learn(10, 10 << 20);
        assert_eq!(portion.of(1 << 20), 1);
        for _ in 0..40 {
            portion.learn(100, 100 * 1_024);
        }
        assert!(portion.of(1 << 20) > 900);
        assert_eq!(portion.of(0), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_rate_holds_over_all_that_pass() {
        let pace = Pace::new(NonZeroU32::new(100));
        let began = Instant::now();
        for _ in 0..10 {
            pace.pass(50).await;
        }
        // The first fifty are free; the rest is paid for before it passes.
        assert_eq!(began.elapsed().as_millis(), 4_500);
        assert_eq!(pace.most(), 100);
    }
}
