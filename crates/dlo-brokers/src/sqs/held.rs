//! What a source has in hand: receipts by tag, until they are settled or the broker takes them back.
//!
//! Bounded by the broker: it hands out no more than 120,000 messages of a queue at once. A lease that ran out long ago
//! is forgotten here, since its message was delivered to somebody else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use aws_sdk_sqs::types;
use dlo_core::broker::DeliveryTag;
use tokio::time::Instant;

/// One message in hand.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) receipt: String,
    pub(super) taken: Instant,
    /// When the broker shows the message to others again.
    pub(super) until: Instant,
    /// The message as it came, where refusing it means to move it.
    pub(super) whole: Option<Box<types::Message>>,
}

impl Lease {
    pub(super) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }
}

#[derive(Debug, Default)]
struct Hand {
    /// In the order of arrival.
    leases: BTreeMap<u64, Lease>,
    next: u64,
    swept: Option<Instant>,
}

/// Shared by a source and its settlers.
#[derive(Debug, Default)]
pub(super) struct Held(Mutex<Hand>);

impl Held {
    pub(super) fn take(&self, lease: Lease) -> DeliveryTag {
        let mut hand = self.hand();
        hand.next += 1;
        let tag = hand.next;
        hand.leases.insert(tag, lease);
        DeliveryTag(tag)
    }

    /// The lease behind a tag; none if it was settled, handed back or forgotten.
    pub(super) fn settle(&self, tag: &DeliveryTag) -> Option<Lease> {
        self.hand().leases.remove(&tag.0)
    }

    /// Everything in hand, in the order of arrival. After this, settling finds nothing.
    pub(super) fn leave(&self) -> Vec<Lease> {
        std::mem::take(&mut self.hand().leases).into_values().collect()
    }

    /// Forgets what was dropped unsettled and has gone to others for a whole lease since. Looks once per lease.
    pub(super) fn sweep(&self, visibility: Duration) {
        let now = Instant::now();
        let mut hand = self.hand();
        if hand.swept.is_some_and(|last| now < last + visibility) {
            return;
        }
        hand.swept = Some(now);
        hand.leases.retain(|_, lease| now < lease.until + visibility);
    }

    fn hand(&self) -> MutexGuard<'_, Hand> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_dropped_is_forgotten_a_lease_after_its_own_ran_out() {
        let (held, visibility) = (Held::default(), Duration::from_secs(60));
        let taken = Instant::now();
        let tag = held.take(Lease { receipt: "r".to_owned(), taken, until: taken + visibility, whole: None });
        for _ in 0..3 {
            held.sweep(visibility);
            tokio::time::advance(Duration::from_secs(61)).await;
        }
        held.sweep(visibility);
        assert!(held.settle(&tag).is_none());
        assert!(held.leave().is_empty());
    }
}
