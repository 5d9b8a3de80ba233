//! Two counts over the last stretch of time: how many, and how many of a kind.
//!
//! Ten slots in a ring, so memory is constant and what is older than the window is forgotten a tenth at a time. Time is
//! handed in; a clock that jumps back counts into the newest slot instead of rewriting the past.

use std::time::Duration;

use crate::time::Timestamp;

/// Parts of a window.
pub(crate) const SLOTS: usize = 10;

/// A sliding window.
#[derive(Debug, Clone)]
pub(crate) struct Window {
    slot_micros: i64,
    /// The number of the newest slot, counted from the epoch.
    newest: i64,
    slots: [Counts; SLOTS],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Counts {
    pub(crate) all: u64,
    pub(crate) marked: u64,
}

impl Window {
    pub(crate) fn new(length: Duration) -> Self {
        let slot = length.as_micros() / SLOTS as u128;
        let slot_micros = i64::try_from(slot).unwrap_or(i64::MAX).max(1);
        Self { slot_micros, newest: i64::MIN, slots: [Counts::default(); SLOTS] }
    }

    pub(crate) fn add(&mut self, now: Timestamp, counts: Counts) {
        self.advance(now);
        let at = self.position(self.newest);
        let slot = &mut self.slots[at];
        slot.all = slot.all.saturating_add(counts.all);
        slot.marked = slot.marked.saturating_add(counts.marked);
    }

    pub(crate) fn sum(&mut self, now: Timestamp) -> Counts {
        self.advance(now);
        self.slots.iter().fold(Counts::default(), |sum, slot| Counts {
            all: sum.all.saturating_add(slot.all),
            marked: sum.marked.saturating_add(slot.marked),
        })
    }

    /// What was counted in the newest slot.
    pub(crate) fn newest(&self) -> Counts {
        self.slots[self.position(self.newest)]
    }

    /// Takes one of the marked back, the latest.
    pub(crate) fn unmark(&mut self, now: Timestamp) {
        self.advance(now);
        for back in 0..SLOTS as i64 {
            let at = self.position(self.newest - back);
            if self.slots[at].marked > 0 {
                self.slots[at].marked -= 1;
                return;
            }
        }
    }

    /// How long until the oldest slot is forgotten; more than zero.
    pub(crate) fn until_change(&self, now: Timestamp) -> Duration {
        let into = now.as_micros().rem_euclid(self.slot_micros);
        Duration::from_micros(u64::try_from(self.slot_micros - into).unwrap_or(1).max(1))
    }

    pub(crate) fn clear(&mut self) {
        self.slots = [Counts::default(); SLOTS];
    }

    fn advance(&mut self, now: Timestamp) {
        let slot = now.as_micros().div_euclid(self.slot_micros);
        if slot <= self.newest {
            return;
        }
        let passed = slot.saturating_sub(self.newest).min(SLOTS as i64);
        for back in 0..passed {
            let at = self.position(slot - back);
            self.slots[at] = Counts::default();
        }
        self.newest = slot;
    }

    fn position(&self, slot: i64) -> usize {
        // The remainder of ten fits every integer.
        slot.rem_euclid(SLOTS as i64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    const ONE: Counts = Counts { all: 1, marked: 0 };

    #[test]
    fn what_is_older_than_the_window_is_forgotten_by_tenths() {
        let mut window = Window::new(Duration::from_secs(10));
        window.add(at(0), ONE);
        window.add(at(5_000), ONE);
        assert_eq!(window.sum(at(9_999)).all, 2);
        assert_eq!(window.sum(at(10_000)).all, 1);
        assert_eq!(window.sum(at(60_000)).all, 0);
    }

    #[test]
    fn a_clock_that_jumps_back_loses_no_count() {
        let mut window = Window::new(Duration::from_secs(10));
        window.add(at(100_000), ONE);
        window.add(at(5_000), ONE);
        assert_eq!(window.sum(at(100_000)).all, 2);
        assert_eq!(window.sum(Timestamp::from_micros(i64::MIN)).all, 2);
        assert_eq!(window.sum(Timestamp::from_micros(i64::MAX)).all, 0);
    }
}
