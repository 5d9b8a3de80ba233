//! Pauses between attempts to reach a broker: growing, with jitter, bounded.
//!
//! Jitter, because everything that lost one broker finds it again at the same moment.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(50);
const LONGEST: Duration = Duration::from_secs(5);

/// The pauses of one connection.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// The pause before the next attempt.
    pub(crate) fn next(&mut self) -> Duration {
        let whole = FIRST.saturating_mul(1 << self.failures.min(10)).min(LONGEST);
        self.failures = self.failures.saturating_add(1);
        whole.mul_f64(rand::random_range(0.5..=1.0))
    }

    /// It worked: the next failure begins with the first pause again.
    pub(crate) fn reset(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_up_to_a_bound_and_begin_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let pauses: Vec<_> = (0..20).map(|_| backoff.next()).collect();
        assert!(pauses[0] <= FIRST && pauses.iter().all(|pause| *pause <= LONGEST), "{pauses:?}");
        assert!(pauses[19] >= LONGEST / 2, "{pauses:?}");
        backoff.reset();
        assert!(backoff.next() <= FIRST);
    }
}
