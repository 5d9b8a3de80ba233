//! Times in buckets, counted without a lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper ends of the buckets, in seconds; what took longer is in a last one without an end.
pub(super) const ENDS: [f64; 16] =
    [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0];

#[derive(Debug, Default)]
pub(super) struct Histogram {
    buckets: [AtomicU64; ENDS.len() + 1],
    micros: AtomicU64,
}

impl Histogram {
    pub(super) fn add(&self, took: Duration) {
        let seconds = took.as_secs_f64();
        let at = ENDS.partition_point(|end| *end < seconds);
        self.buckets[at].fetch_add(1, Ordering::Relaxed);
        self.micros.fetch_add(u64::try_from(took.as_micros()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How many took up to each end, each bucket with those before it; the last is all of them.
    pub(super) fn cumulative(&self) -> [u64; ENDS.len() + 1] {
        let mut sum = 0;
        self.buckets.each_ref().map(|bucket| {
            sum += bucket.load(Ordering::Relaxed);
            sum
        })
    }

    pub(super) fn seconds(&self) -> f64 {
        self.micros.load(Ordering::Relaxed) as f64 / 1e6
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_in_the_bucket_of_its_end_and_in_all_behind_it() {
        let histogram = Histogram::default();
        for millis in [1, 2, 70_000] {
            histogram.add(Duration::from_millis(millis));
        }
        let counts = histogram.cumulative();
        assert_eq!((counts[0], counts[1], counts[2], counts[15], counts[16]), (0, 1, 2, 2, 3));
        assert!((histogram.seconds() - 70.003).abs() < 1e-9);
    }
}
