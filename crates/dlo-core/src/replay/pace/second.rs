//! What one second may hold, whichever second it is: messages by when they landed, and those that are under way.
//!
//! Who sends decides when a message leaves; when it lands is up to the broker. One that stood still for a tenth of a
//! second hands over what it was given meanwhile at once. So landings count, and what is under way counts as if it landed
//! now. Then no second is overfull, however uneven the broker is: of all that land in one second take the one that left
//! last. When it left, each of the others was under way or had landed within the second before, and was counted.
//!
//! No message lands sooner after its leaving than the fastest of late. By so much less of the second before is counted, or
//! messages to a broker far away would have no room beside those that are on the same long way.
//!
//! There are no parts of messages. Where a second may hold fifty and a half, fifty-one are counted over a little more than a
//! second.

use std::collections::VecDeque;

/// Landings are kept by the millisecond, rounded up: two thousand entries at most.
const GRAIN: f64 = 1e-3;
/// How long the fastest is remembered, in seconds: between once and twice as long.
const MEMORY: f64 = 10.0;
/// Landings count for so many seconds at most, however slow it is.
const LONGEST: f64 = 2.0;
/// What the fastest is taken for at most, in seconds: beyond that a second would hardly count anything.
const FASTEST: f64 = 0.5;

/// Whether one more may leave.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Room {
    Yes,
    /// Not before then, unless the pace changes.
    From(f64),
    /// Not before something landed.
    AfterLanding,
}

#[derive(Debug, Clone)]
pub(super) struct Second {
    /// When, and how many.
    landed: VecDeque<(f64, u64)>,
    /// The sum of `landed`.
    counted: u64,
    under_way: u64,
    /// The shortest way in this stretch of [`MEMORY`] and in the one before, and when this one began.
    fastest: [f64; 2],
    since: f64,
}

impl Second {
    pub(super) const fn new() -> Self {
        Self { landed: VecDeque::new(), counted: 0, under_way: 0, fastest: [FASTEST; 2], since: 0.0 }
    }

    pub(super) const fn leave(&mut self, count: u64) {
        self.under_way += count;
    }

    /// They did not leave after all.
    pub(super) const fn stay(&mut self, count: u64) {
        self.under_way = self.under_way.saturating_sub(count);
    }

    pub(super) fn land(&mut self, count: u64, took: f64, at: f64) {
        self.under_way = self.under_way.saturating_sub(count);
        let grain = (at / GRAIN).ceil() * GRAIN;
        match self.landed.back_mut() {
            Some((last, counted)) if *last >= grain => *counted += count,
            Some(_) | None => self.landed.push_back((grain, count)),
        }
        self.counted += count;
        if at - self.since > MEMORY {
            (self.fastest, self.since) = ([FASTEST, self.fastest[0]], at);
        }
        self.fastest[0] = self.fastest[0].min(took.max(0.0));
        while self.landed.front().is_some_and(|(landed, _)| *landed <= at - LONGEST) {
            self.counted -= self.landed.pop_front().map_or(0, |(_, count)| count);
        }
    }

    pub(super) const fn is_under_way(&self) -> bool {
        self.under_way > 0
    }

    /// How many more may leave now, where a second holds `most`.
    pub(super) fn room(&mut self, most: f64, at: f64) -> u64 {
        let (whole, span) = self.bound(most);
        let from = at - span;
        while let Some((_, count)) = self.landed.front().filter(|(landed, _)| *landed <= from) {
            self.counted -= count;
            self.landed.pop_front();
        }
        whole.saturating_sub(self.counted + self.under_way)
    }

    /// Whether there will be room, where a second holds `most`.
    pub(super) fn opens(&self, most: f64) -> Room {
        let (whole, span) = self.bound(most);
        if self.counted + self.under_way < whole {
            return Room::Yes;
        }
        self.landed.front().map_or(Room::AfterLanding, |(at, _)| Room::From(at + span))
    }

    /// At another pace another second counts; what is under way stays so.
    pub(super) fn forget(&mut self) {
        self.landed.clear();
        self.counted = 0;
    }

    /// Whole messages, and over how long they count. Before anything landed, nothing is known of how fast that is.
    fn bound(&self, most: f64) -> (u64, f64) {
        let whole = most.ceil().max(1.0);
        let fastest = self.fastest[0].min(self.fastest[1]);
        let span = (whole / most).min(LONGEST);
        (whole as u64, if fastest < FASTEST { span - fastest } else { span })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_takes_room_until_a_second_after_it_landed() {
        let mut second = Second::new();
        second.leave(3);
        assert_eq!((second.room(5.0, 0.0), second.room(3.0, 0.0)), (2, 0));
        assert_eq!(second.opens(3.0), Room::AfterLanding);
        second.land(3, 0.0, 0.1);
        assert_eq!(second.room(3.0, 1.05), 0);
        assert!(
            matches!(second.opens(3.0), Room::From(at) if (at - 1.1).abs() < 0.002),
            "{:?}",
            second.opens(3.0)
        );
        assert_eq!(second.room(3.0, 1.102), 3);
        second.leave(2);
        second.stay(2);
        assert_eq!(second.room(3.0, 1.102), 3);
    }

    #[test]
    fn a_long_way_takes_no_room_as_long_as_it_is_even() {
        let mut second = Second::new();
        // One in ten milliseconds, each a tenth of a second on its way.
        for at in 0..1_000 {
            let now = f64::from(at) / 100.0;
            if at >= 10 {
                second.land(1, 0.1, now);
            }
            assert!(second.room(101.0, now) > 0, "at {now}");
            second.leave(1);
        }
    }

    #[test]
    fn a_part_of_a_message_is_a_part_of_a_second() {
        let mut second = Second::new();
        second.leave(51);
        second.land(51, 0.0, 0.0);
        assert_eq!(second.room(50.5, 1.005), 0);
        assert_eq!(second.room(50.5, 1.012), 51);
    }

    #[test]
    fn the_fastest_is_remembered_for_ten_seconds_and_forgotten_after_twenty() {
        let mut second = Second::new();
        let mut span_after = |at, took| {
            second.leave(1);
            second.land(1, took, at);
            second.bound(50.0).1
        };
        for (at, took, span) in [(0.0, 0.1, 0.9), (10.0, 0.4, 0.9), (20.0, 0.4, 0.9), (30.5, 0.4, 0.6)] {
            let found = span_after(at, took);
            assert!((found - span).abs() < 1e-9, "{found} at {at}");
        }
    }

    #[test]
    fn a_whole_second_counts_until_something_landed_within_half_of_one() {
        let mut second = Second::new();
        assert_eq!(second.bound(50.0), (50, 1.0));
        second.leave(1);
        second.land(1, 0.7, 0.7);
        assert_eq!(second.bound(50.0), (50, 1.0));
    }

    #[test]
    fn landings_are_forgotten_with_the_pace_and_what_is_under_way_is_not() {
        let mut second = Second::new();
        second.leave(3);
        second.land(2, 0.0, 0.1);
        assert_eq!((second.room(5.0, 0.2), second.is_under_way()), (2, true));
        second.forget();
        assert_eq!((second.room(5.0, 0.2), second.is_under_way()), (4, true));
        second.land(1, 0.0, 0.2);
        assert!(!second.is_under_way());
    }

    #[test]
    fn the_memory_of_landings_is_bounded() {
        let mut second = Second::new();
        for at in 0..100_000 {
            second.leave(1);
            second.land(1, 0.0, f64::from(at) / 30_000.0);
        }
        assert!(second.landed.len() <= 2_001, "{}", second.landed.len());
        assert_eq!(second.counted, second.landed.iter().map(|(_, count)| count).sum::<u64>());
    }
}
