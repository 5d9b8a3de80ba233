//! What a source has in hand where a message is lent for a while: leases by tag, until they are settled or run out.
//!
//! Bounded by what the callers hold and the service hands out. A lease that ran out long ago is forgotten here, since
//! its message was delivered to somebody else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::broker::DeliveryTag;
use tokio::time::Instant;

/// One message in hand; `W` is the message as the service's client shows it.
#[derive(Debug)]
pub(crate) struct Lease<W> {
    /// The word by which the service knows this delivery.
    pub(crate) receipt: String,
    pub(crate) taken: Instant,
    /// When the service gives the message to others again.
    pub(crate) until: Instant,
    /// The message as it came, where refusing it means to move it.
    pub(crate) whole: Option<Box<W>>,
}

impl<W> Lease<W> {
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        now >= self.until
    }
}

#[derive(Debug)]
struct Hand<W> {
    /// In the order of arrival.
    leases: BTreeMap<u64, Lease<W>>,
    next: u64,
    swept: Option<Instant>,
}

/// Shared by a source and its settlers.
#[derive(Debug)]
pub(crate) struct Held<W>(Mutex<Hand<W>>);

impl<W> Default for Held<W> {
    fn default() -> Self {
        Self(Mutex::new(Hand { leases: BTreeMap::new(), next: 0, swept: None }))
    }
}

impl<W> Held<W> {
    pub(crate) fn take(&self, lease: Lease<W>) -> DeliveryTag {
        let mut hand = self.hand();
        hand.next += 1;
        let tag = hand.next;
        hand.leases.insert(tag, lease);
        DeliveryTag(tag)
    }

    /// The lease behind a tag; none if it was settled, handed back or forgotten.
    pub(crate) fn settle(&self, tag: &DeliveryTag) -> Option<Lease<W>> {
        self.hand().leases.remove(&tag.0)
    }

    /// Everything in hand, in the order of arrival. After this, settling finds nothing.
    pub(crate) fn leave(&self) -> Vec<Lease<W>> {
        std::mem::take(&mut self.hand().leases).into_values().collect()
    }

    /// Forgets what was dropped unsettled and has gone to others for a whole lease since. Looks once per lease.
    pub(crate) fn sweep(&self, lease: Duration) {
        let now = Instant::now();
        let mut hand = self.hand();
        if hand.swept.is_some_and(|last| now < last + lease) {
            return;
        }
        hand.swept = Some(now);
        hand.leases.retain(|_, held| now < held.until + lease);
    }

    fn hand(&self) -> MutexGuard<'_, Hand<W>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_was_dropped_is_forgotten_a_lease_after_its_own_ran_out() {
        let (held, visibility) = (Held::<()>::default(), Duration::from_secs(60));
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
