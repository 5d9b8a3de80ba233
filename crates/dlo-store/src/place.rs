//! A letter's place in time: the key by which its row is stored, listed and paged.
//!
//! The upper 42 bits are the millisecond of its latest failure, the lower 21 a running number. So every index that
//! ends in the row key is ordered by time, the full-text index included, and a page is one range of it. Two million
//! letters can share a millisecond before the running number comes round; the store then takes the next free one.

use dlo_core::time::Timestamp;

use crate::{Cursor, StoreError};

const RUNNING_BITS: u32 = 21;
const RUNNING_MASK: i64 = (1 << RUNNING_BITS) - 1;
/// The last millisecond that fits: in the year 2109.
const LAST_MILLI: i64 = (1 << 42) - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Place(pub(crate) i64);

impl Place {
    /// Behind every letter: where the first page begins.
    pub(crate) const END: Self = Self(i64::MAX);

    /// In a block's list: a slot whose letter was a duplicate.
    pub(crate) const NOWHERE: Self = Self(0);
    /// In a block's list: a slot that holds a further death of a letter whose payload stands elsewhere.
    pub(crate) const ELSEWHERE: Self = Self(-1);

    /// The place of the failure at `failed_at` with the store's `running` number. Times beyond the range are put at its ends.
    pub(crate) fn new(failed_at: Timestamp, running: i64) -> Self {
        let milli = failed_at.as_millis().clamp(0, LAST_MILLI);
        Self((milli << RUNNING_BITS) | (running & RUNNING_MASK))
    }

    /// The next place, when this one is taken.
    pub(crate) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }

    /// The first place of the millisecond of `time`.
    pub(crate) fn from(time: Timestamp) -> Self {
        Self::new(time, 0)
    }

    /// The first place behind the millisecond of `time`.
    pub(crate) fn behind(time: Timestamp) -> Self {
        Self(Self::new(time, RUNNING_MASK).0.saturating_add(1))
    }

    /// The millisecond it stands for.
    pub(crate) fn time(self) -> Timestamp {
        Timestamp::from_millis(self.0 >> RUNNING_BITS)
    }

    pub(crate) fn cursor(self) -> Cursor {
        Cursor(format!("{:x}", self.0))
    }

    /// Where a page begins: before this place, exclusive.
    pub(crate) fn from_cursor(cursor: Option<&Cursor>) -> Result<Self, StoreError> {
        let Some(Cursor(text)) = cursor else { return Ok(Self::END) };
        match i64::from_str_radix(text, 16) {
            Ok(place) if place >= 0 => Ok(Self(place)),
            _ => Err(StoreError::BadCursor),
        }
    }
}

/// A stretch of time as places: from `low` on, before `high`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) low: Place,
    pub(crate) high: Place,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_sort_by_time_and_then_by_running_number() {
        let at = Timestamp::from_millis;
        assert!(Place::new(at(1_000), 7) < Place::new(at(1_000), 8));
        assert!(Place::new(at(1_000), RUNNING_MASK) < Place::new(at(1_001), 0));
        assert_eq!(Place::new(at(1_000), 7).time(), at(1_000));
        assert!(Place::new(at(i64::MAX), 0) < Place::END);
        assert!(Place::new(Timestamp::from_micros(i64::MIN), 0).0 >= 0);
    }

    #[test]
    fn a_cursor_comes_back_and_a_foreign_one_is_refused() {
        let place = Place::new(Timestamp::from_millis(1_700_000_000_000), 5);
        assert_eq!(Place::from_cursor(Some(&place.cursor())).unwrap(), place);
        for text in ["", "zz", "-5", "ffffffffffffffffff"] {
            assert!(Place::from_cursor(Some(&Cursor(text.into()))).is_err(), "{text}");
        }
    }
}
