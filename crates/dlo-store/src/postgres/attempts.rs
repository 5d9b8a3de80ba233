//! Transactions that crossed others are tried again, a few times and within the deadline of their call.

use std::time::Duration;

use tokio::time::Instant;

use super::crossed;
use crate::StoreError;

/// How often a transaction is tried that crossed another one.
const MOST: u32 = 8;

/// The attempts of one call.
#[derive(Debug)]
pub(super) struct Attempts {
    made: u32,
    pub(super) due: Instant,
}

impl Attempts {
    pub(super) fn until(due: Instant) -> Self {
        Self { made: 0, due }
    }

    /// Whether to try again; waits a little before it says so, each time longer and by chance, so that the two do not meet
    /// again.
    pub(super) async fn again_after(&mut self, error: &StoreError) -> bool {
        self.made += 1;
        if !crossed(error) || self.made >= MOST || Instant::now() >= self.due {
            return false;
        }
        let longest = 10_u64 << self.made.min(6);
        tokio::time::sleep(Duration::from_millis(rand::random_range(1..=longest))).await;
        true
    }
}
