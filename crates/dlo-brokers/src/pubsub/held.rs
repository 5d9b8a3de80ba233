//! What a source has in hand: ids of acknowledgement by tag, until they are settled or the lease is over.
//!
//! Bounded by what its callers hold. A lease that ran out long ago is forgotten, since its message went to somebody else.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::broker::DeliveryTag;
use tokio::time::Instant;

use super::wire::WireMessage;

/// One message in hand.
#[derive(Debug)]
pub(super) struct Lease {
    pub(super) ack_id: String,
    /// When the service gives the message to others again.
    pub(super) until: Instant,
    /// The message as it came, where refusing it means to move it.
    pub(super) whole: Option<Box<WireMessage>>,
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
    pub(super) fn sweep(&self, lease: Duration) {
        let now = Instant::now();
        let mut hand = self.hand();
        if hand.swept.is_some_and(|last| now < last + lease) {
            return;
        }
        hand.swept = Some(now);
        hand.leases.retain(|_, held| now < held.until + lease);
    }

    fn hand(&self) -> MutexGuard<'_, Hand> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
