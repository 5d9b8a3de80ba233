//! The circuit breaker (B7): when a downstream is down, its consumers wait instead of failing message after message.
//!
//! Closed: all goes through, failures are counted. Open: nothing goes through until the pause is over. Half-open: one
//! probe at a time; its success closes the breaker, its failure opens it for longer. Time is handed in. What calls
//! that began earlier still report while it is open changes nothing: only a probe speaks for the present.

mod config;
mod many;

use std::time::Duration;

use crate::codes::coded;
use crate::time::Timestamp;
use crate::window::{Counts, Window};

pub use config::BreakerConfig;
pub use many::{Breakers, Gate, MOST_DEPENDENCIES};

coded! {
    /// Where a breaker stands.
    pub enum State as "breaker state" {
        Closed = 1 => "closed",
        Open = 2 => "open",
        HalfOpen = 3 => "half_open",
    }
}

/// How a call to the downstream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Success,
    Failure,
}

/// Whether a call may go through now.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    Go,
    /// The only call allowed at the moment; its outcome is told by [`Breaker::probed`].
    Probe(Probe),
    /// Ask again after this long.
    Wait(Duration),
}

/// The right to speak for the present. Not `Clone`: one probe, one outcome.
#[derive(Debug, PartialEq, Eq)]
pub struct Probe(u64);

/// The breaker of one downstream.
#[derive(Debug, Clone)]
pub struct Breaker {
    config: BreakerConfig,
    phase: Phase,
    /// All: calls. Marked: failures.
    window: Window,
    in_a_row: u32,
    probes: u64,
}

#[derive(Debug, Clone, Copy)]
enum Phase {
    Closed,
    Open { since: Timestamp, pause: Duration },
    HalfOpen { probe: u64, since: Timestamp, pause: Duration },
}

impl Breaker {
    pub fn new(config: BreakerConfig) -> Self {
        let window = Window::new(config.window);
        Self { config, phase: Phase::Closed, window, in_a_row: 0, probes: 0 }
    }

    pub const fn state(&self) -> State {
        match self.phase {
            Phase::Closed => State::Closed,
            Phase::Open { .. } => State::Open,
            Phase::HalfOpen { .. } => State::HalfOpen,
        }
    }

    /// Whether a call may go through now.
    pub fn admit(&mut self, now: Timestamp) -> Admission {
        let pause = match self.phase {
            Phase::Closed => return Admission::Go,
            Phase::Open { pause, .. } | Phase::HalfOpen { pause, .. } => pause,
        };
        let left = self.left(now);
        if !left.is_zero() {
            return Admission::Wait(left);
        }
        self.probes += 1;
        self.phase = Phase::HalfOpen { probe: self.probes, since: now, pause };
        Admission::Probe(Probe(self.probes))
    }

    /// Whether a call would have to wait now. False as well when the next one would be the probe: somebody must come.
    pub fn is_in_the_way(&self, now: Timestamp) -> bool {
        !self.left(now).is_zero()
    }

    /// How long nothing goes through.
    fn left(&self, now: Timestamp) -> Duration {
        let (since, wait) = match self.phase {
            Phase::Closed => return Duration::ZERO,
            Phase::Open { since, pause } => (since, pause),
            // A probe that never answers must not hold the gate for ever.
            Phase::HalfOpen { since, .. } => (since, self.config.probe_timeout),
        };
        // Measured from `since` forward: a clock that jumped back waits once more, never longer than asked.
        wait.saturating_sub(now.since(since))
    }

    /// The outcome of a call that was let through while the breaker was closed.
    pub fn observe(&mut self, now: Timestamp, outcome: Outcome) {
        if !matches!(self.phase, Phase::Closed) {
            return;
        }
        let failed = outcome == Outcome::Failure;
        self.window.add(now, Counts { all: 1, marked: u64::from(failed) });
        self.in_a_row = if failed { self.in_a_row.saturating_add(1) } else { 0 };
        if failed && self.trips(now) {
            self.open(now, self.config.pause);
        }
    }

    /// The outcome of a probe. One that a later probe has replaced says nothing any more.
    pub fn probed(&mut self, probe: Probe, now: Timestamp, outcome: Outcome) {
        let Phase::HalfOpen { probe: current, pause, .. } = self.phase else { return };
        if probe.0 != current {
            return;
        }
        match outcome {
            Outcome::Success => {
                self.phase = Phase::Closed;
                self.window.clear();
                self.in_a_row = 0;
            }
            Outcome::Failure => self.open(now, pause.saturating_mul(2).min(self.config.longest_pause)),
        }
    }

    /// Opens it, whatever was seen.
    pub fn trip(&mut self, now: Timestamp) {
        self.open(now, self.config.pause);
    }

    fn open(&mut self, now: Timestamp, pause: Duration) {
        self.phase = Phase::Open { since: now, pause };
    }

    fn trips(&mut self, now: Timestamp) -> bool {
        let seen = self.window.sum(now);
        let share = seen.marked as f64 >= self.config.share * seen.all as f64;
        self.in_a_row >= self.config.in_a_row || (share && seen.all >= u64::from(self.config.least))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn opened() -> Breaker {
        let mut breaker = Breaker::new(BreakerConfig::default());
        (0..5).for_each(|_| breaker.observe(at(0), Outcome::Failure));
        assert_eq!(breaker.state(), State::Open);
        breaker
    }

    fn probe(breaker: &mut Breaker, now: Timestamp) -> Probe {
        match breaker.admit(now) {
            Admission::Probe(probe) => probe,
            other => panic!("expected a probe, found {other:?}"),
        }
    }

    #[test]
    fn five_failures_in_a_row_open_it_and_a_success_between_does_not() {
        let mut breaker = Breaker::new(BreakerConfig::default());
        for n in 0..12 {
            breaker.observe(at(0), if n % 5 == 4 { Outcome::Success } else { Outcome::Failure });
        }
        assert_eq!(breaker.state(), State::Closed);
        (0..5).for_each(|_| breaker.observe(at(1), Outcome::Failure));
        assert_eq!(breaker.admit(at(1)), Admission::Wait(Duration::from_secs(5)));
    }

    #[test]
    fn half_of_many_calls_failing_opens_it_without_five_in_a_row() {
        let mut breaker = Breaker::new(BreakerConfig::default());
        for n in 0..20 {
            breaker.observe(at(0), if n % 2 == 0 { Outcome::Success } else { Outcome::Failure });
        }
        assert_eq!(breaker.state(), State::Open);
    }

    #[test]
    fn a_third_of_many_calls_failing_does_not_open_it() {
        let mut breaker = Breaker::new(BreakerConfig::default());
        for n in 0..30 {
            breaker.observe(at(0), if n % 3 == 0 { Outcome::Failure } else { Outcome::Success });
        }
        assert_eq!(breaker.state(), State::Closed);
    }

    #[test]
    fn it_is_in_the_way_until_somebody_may_probe_and_while_the_probe_is_out() {
        let mut breaker = opened();
        assert!(breaker.is_in_the_way(at(4)) && !breaker.is_in_the_way(at(5)));
        let sent = probe(&mut breaker, at(9));
        assert!(breaker.is_in_the_way(at(10)));
        breaker.probed(sent, at(11), Outcome::Success);
        assert!(!breaker.is_in_the_way(at(11)));
    }

    #[test]
    fn one_probe_goes_at_a_time_and_its_success_closes_it() {
        let mut breaker = opened();
        let first = probe(&mut breaker, at(5));
        assert_eq!(breaker.state(), State::HalfOpen);
        assert!(matches!(breaker.admit(at(6)), Admission::Wait(_)));
        breaker.probed(first, at(7), Outcome::Success);
        assert_eq!(breaker.admit(at(7)), Admission::Go);
    }

    #[test]
    fn each_failed_probe_doubles_the_pause_up_to_the_longest() {
        let mut breaker = opened();
        let mut now = 0;
        for pause in [5, 10, 20, 40, 60, 60] {
            assert_eq!(breaker.admit(at(now)), Admission::Wait(Duration::from_secs(pause as u64)));
            now += pause;
            let sent = probe(&mut breaker, at(now));
            breaker.probed(sent, at(now), Outcome::Failure);
        }
    }

    #[test]
    fn a_probe_that_never_answers_is_replaced_and_then_has_no_say() {
        let mut breaker = opened();
        let lost = probe(&mut breaker, at(5));
        let next = probe(&mut breaker, at(35));
        breaker.probed(lost, at(36), Outcome::Success);
        assert_eq!(breaker.state(), State::HalfOpen);
        breaker.probed(next, at(37), Outcome::Success);
        assert_eq!(breaker.state(), State::Closed);
    }

    #[test]
    fn calls_that_began_before_it_opened_change_nothing() {
        let mut breaker = opened();
        breaker.observe(at(1), Outcome::Success);
        breaker.observe(at(1), Outcome::Failure);
        assert_eq!(breaker.admit(at(2)), Admission::Wait(Duration::from_secs(3)));
    }

    proptest! {
        /// Whatever the order of events and however the clock jumps: one probe at a time, and no wait over the longest.
        #[test]
        fn there_is_never_more_than_one_live_probe(steps in prop::collection::vec((-5..40_i64, 0..4_u8), 1..200)) {
            let mut breaker = Breaker::new(BreakerConfig::default());
            let mut now = 1_000;
            let mut live: Option<(Probe, i64)> = None;
            for (wait, step) in steps {
                now += wait;
                match (step, live.take()) {
                    (0, kept) => { breaker.observe(at(now), Outcome::Failure); live = kept; }
                    (1, Some((probe, _))) => breaker.probed(probe, at(now), Outcome::Success),
                    (2, Some((probe, _))) => breaker.probed(probe, at(now), Outcome::Failure),
                    (_, kept) => match breaker.admit(at(now)) {
                        Admission::Probe(probe) => {
                            let replaced = kept.is_none_or(|(_, since)| now - since >= 30);
                            prop_assert!(replaced, "a second probe went while the first was young");
                            live = Some((probe, now));
                        }
                        Admission::Wait(wait) => {
                            prop_assert!(wait > Duration::ZERO && wait <= Duration::from_secs(60));
                            live = kept;
                        }
                        Admission::Go => { prop_assert_eq!(breaker.state(), State::Closed); live = kept; }
                    },
                }
            }
        }
    }
}
