//! What is acknowledged and still in its stream, while several batches of a drain are being settled.
//!
//! A purge removes everything before a sequence in one step, but only what the whole group is done with. Batches that
//! overtake each other leave some behind that their predecessors will take along; deleting those one by one costs a
//! round trip to the disk each. So they are noted here, and only who settles last deletes what is still left.
//!
//! Bounded by what a consumer may have unsettled. What a crash leaves is acknowledged, and the next purge takes it.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

#[derive(Debug, Default)]
pub(super) struct Leftovers(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// Settlements under way.
    under_way: usize,
    done: BTreeSet<u64>,
}

impl Leftovers {
    /// A settlement begins; it ends with what this returns.
    pub(super) fn begin(&self) -> Turn<'_> {
        self.state().under_way += 1;
        Turn { leftovers: self, ended: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One settlement under way.
#[derive(Debug)]
pub(super) struct Turn<'a> {
    leftovers: &'a Leftovers,
    ended: bool,
}

impl Turn<'_> {
    pub(super) fn add(&self, done: Vec<u64>) {
        self.leftovers.state().done.extend(done);
    }

    pub(super) fn is_idle(&self) -> bool {
        self.leftovers.state().done.is_empty()
    }

    pub(super) fn has_up_to(&self, floor: u64) -> bool {
        self.leftovers.state().done.first().is_some_and(|lowest| *lowest <= floor)
    }

    pub(super) fn removed_up_to(&self, floor: u64) {
        let mut state = self.leftovers.state();
        state.done = state.done.split_off(&floor.saturating_add(1));
    }

    /// What is to be deleted now: nothing while others are under way. Asked and counted out in one step, so that of two
    /// that end together one is the last.
    pub(super) fn end(mut self) -> Vec<u64> {
        self.ended = true;
        let mut state = self.leftovers.state();
        state.under_way -= 1;
        match state.under_way {
            0 => std::mem::take(&mut state.done).into_iter().collect(),
            _ => Vec::new(),
        }
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        if !self.ended {
            self.leftovers.state().under_way -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_overtakes_waits_for_its_predecessors_and_the_last_takes_what_is_left() {
        let leftovers = Leftovers::default();
        let (first, second) = (leftovers.begin(), leftovers.begin());
        second.add(vec![3, 4, 9]);
        assert!(!second.has_up_to(0) && second.has_up_to(3));
        assert!(second.end().is_empty(), "the first is still under way");
        first.add(vec![1, 2]);
        first.removed_up_to(4);
        assert_eq!(first.end(), [9]);
        assert!(leftovers.begin().end().is_empty(), "nothing is deleted twice");
    }

    #[test]
    fn a_settlement_that_failed_leaves_its_part_to_the_next() {
        let leftovers = Leftovers::default();
        let failed = leftovers.begin();
        failed.add(vec![7]);
        drop(failed);
        assert_eq!(leftovers.begin().end(), [7]);
    }
}
