//! A hand on a consumer that runs: how it stands, and the few things a person may tell it.

use std::sync::Arc;

use dlo_core::breaker::State;

use crate::shared::Shared;

/// Cheap to clone; of no effect once the consumer has ended.
#[derive(Clone)]
pub struct Controls(Arc<Shared>);

impl std::fmt::Debug for Controls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Controls").field(&self.0.letters.group).finish()
    }
}

/// How much is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnderWay {
    /// Received, and the broker not told.
    pub unsettled: usize,
    /// Of those, waiting here for a retry or for judgement.
    pub held: usize,
    /// In handlers.
    pub handling: usize,
    /// Of those, waiting for the one before them in their lane.
    pub in_lanes: usize,
    /// Letters on disk, because their queue cannot be written.
    pub spooled: usize,
}

impl Controls {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    pub fn under_way(&self) -> UnderWay {
        let free = self.0.slots.available_permits();
        UnderWay {
            unsettled: self.0.room.unsettled(),
            held: self.0.room.held(),
            handling: self.0.concurrency.saturating_sub(free),
            in_lanes: self.0.room.waiting_in_lanes(),
            spooled: self.0.room.on_disk(),
        }
    }

    /// Where each breaker stands, by the name of its dependency.
    pub fn breakers(&self) -> Vec<(String, State)> {
        self.0.gates.breakers()
    }

    /// The cause for which the brake is on.
    pub fn braked(&self) -> Option<String> {
        self.0.gates.braked()
    }

    /// Takes the brake off: what waits is tried, and for ten minutes parked if it fails for the same cause. The cause, if
    /// the brake was on.
    pub fn release_brake(&self) -> Option<String> {
        self.0.gates.release_brake(&*self.0.watch).map(|cause| cause.0)
    }
}
