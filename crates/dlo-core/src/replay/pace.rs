//! How fast a replay sends (F3): a token bucket over a given time, a ramp to its limit, a share of normal traffic.
//!
//! Two schedules run side by side. One is exact: each message moves it by its interval, and lateness is a debt that is
//! paid back. The other bounds every single second: debts are paid back half a percent faster than the rate, and never
//! by more than [`PATIENCE`] at once. So the mean is met although timers are late, and no second has two percent too many.

use std::time::Duration;

use super::settings::Pace;
use crate::time::Timestamp;

/// Lateness that is made up for at once, in seconds: 1.2 % of the second that bounds it.
const PATIENCE: f64 = 0.012;
/// How much faster than the rate a debt is paid back.
const CATCH_UP: f64 = 1.005;
/// The largest debt, in seconds: what was held up for longer is not made up for.
const DEBT: f64 = 1.0;
/// Messages that become due within this many seconds go together: fewer calls, and far below what a second may vary.
const TOGETHER: f64 = 0.004;

/// How long one step of a ramp lasts.
pub const RAMP_STEP: Duration = Duration::from_secs(5);
/// The first step of a ramp that has no limit to climb to, in messages a second; each further step doubles it.
const RAMP_FIRST: f64 = 100.0;
/// What a replay without a limit is slowed down from, in messages a second.
const FULL: f64 = 1_000.0;
/// The slowest that a replay goes, in messages a second: slower than that it waits.
const SLOWEST: f64 = 0.1;
/// How long the slowest waits after a message, in seconds.
const LONGEST: f64 = 1.0 / SLOWEST;
/// The least that a share of normal traffic comes to.
const LEAST_SHARE: f64 = 1.0;

/// Messages a second; `None`: no limit.
pub type Rate = Option<f64>;

impl Pace {
    /// What it comes to now. `normal`: what the consumer gets without this replay, a second, if that is known.
    pub fn rate(self, normal: Option<f64>) -> Rate {
        match self {
            Self::Rate(rate) => Some(sane(rate)),
            Self::Share(share) => Some((sane(share) * normal.unwrap_or(0.0)).max(LEAST_SHARE)),
            Self::Max => None,
        }
    }
}

/// Settings come from people: what is no number is the slowest.
fn sane(rate: f64) -> f64 {
    if rate.is_finite() { rate.max(SLOWEST) } else { SLOWEST }
}

/// The rate on the way to `limit`, this long after the canary, in so many steps.
pub fn ramped(limit: Rate, steps: u32, since: Duration) -> Rate {
    let step = u32::try_from(since.as_secs() / RAMP_STEP.as_secs()).unwrap_or(u32::MAX);
    if step.saturating_add(1) >= steps {
        return limit;
    }
    Some(match limit {
        Some(limit) => sane(limit * f64::from(step + 1) / f64::from(steps)),
        None => RAMP_FIRST * f64::from(1_u32 << step.min(20)),
    })
}

/// The rate while somebody asks to slow down by `factor`, 0 to 1.
pub fn slowed(rate: Rate, factor: f64) -> Rate {
    Some(sane(rate.unwrap_or(FULL) * factor.clamp(0.0, 1.0)))
}

/// Says how many may go now, and when to ask again.
#[derive(Debug, Clone)]
pub struct Pacer {
    began: Timestamp,
    rate: Rate,
    /// When the next message is due by the rate, in seconds since `began`.
    due: f64,
    /// When the next message is allowed by what a second may hold.
    allowed: f64,
}

impl Pacer {
    pub const fn new(rate: Rate, now: Timestamp) -> Self {
        Self { began: now, rate, due: 0.0, allowed: 0.0 }
    }

    /// As one that has just sent: whoever takes over does not know when the last message went.
    pub const fn after_another(now: Timestamp) -> Self {
        Self { began: now, rate: Some(SLOWEST), due: LONGEST, allowed: LONGEST }
    }

    pub const fn rate(&self) -> Rate {
        self.rate
    }

    /// Goes on at another rate from now. What was owed at the old one is forgotten.
    pub fn change(&mut self, rate: Rate, now: Timestamp) {
        if rate == self.rate {
            return;
        }
        let at = self.at(now);
        // The wait for the next message lasts as long as it would have lasted at the faster of both.
        let interval = rate.map_or(0.0, |rate| 1.0 / rate);
        self.allowed = self.allowed.clamp(at, at + interval);
        self.due = self.allowed;
        self.rate = rate;
    }

    /// How many may go now; they count as gone.
    pub fn take(&mut self, most: u64, now: Timestamp) -> u64 {
        let Some(rate) = self.rate else { return most };
        let at = self.at(now);
        self.due = self.due.max(at - DEBT);
        self.allowed = self.allowed.max(at - PATIENCE);
        let (interval, shortest) = (1.0 / rate, 1.0 / (rate * CATCH_UP));
        let taken = count(at - self.due, interval).min(count(at - self.allowed, shortest)).min(most);
        self.due += taken as f64 * interval;
        self.allowed += taken as f64 * shortest;
        taken
    }

    /// Gives back what was taken and did not go.
    pub fn untake(&mut self, count: u64) {
        let Some(rate) = self.rate else { return };
        self.due -= count as f64 / rate;
        self.allowed -= count as f64 / (rate * CATCH_UP);
    }

    /// When the next call of [`Pacer::take`] is worth it; `None`: at once.
    pub fn next(&self) -> Option<Timestamp> {
        let rate = self.rate?;
        let group = ((rate * TOGETHER).floor() - 1.0).max(0.0) / rate;
        let at = self.due.max(self.allowed) + group;
        // Rounded up: a call that is too early by a part of a microsecond finds nothing.
        Some(self.began.plus(Duration::from_micros((at.max(0.0) * 1e6).ceil() as u64)))
    }

    fn at(&self, now: Timestamp) -> f64 {
        now.since(self.began).as_secs_f64()
    }
}

/// How many intervals began within `lateness`: the one that is due, and those that were missed.
fn count(lateness: f64, interval: f64) -> u64 {
    // A billionth of tolerance: what is due at this very moment is due.
    if lateness < -1e-9 { 0 } else { ((lateness + 1e-9) / interval) as u64 + 1 }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const START: Timestamp = Timestamp::from_millis(1_793_534_400_000);

    /// The times of all sends over `seconds`, when every call is late by what `lateness` says, in microseconds.
    fn sends(rate: f64, seconds: u64, mut lateness: impl FnMut() -> u64) -> Vec<i64> {
        let mut pacer = Pacer::new(Some(rate), START);
        let mut sent = Vec::new();
        let end = START.plus(Duration::from_secs(seconds));
        let mut now = START;
        while now < end {
            let count = pacer.take(u64::MAX, now);
            sent.extend(std::iter::repeat_n(now.as_micros(), usize::try_from(count).unwrap()));
            now = pacer.next().unwrap().max(now).plus(Duration::from_micros(lateness()));
        }
        sent
    }

    fn worst_second(sent: &[i64]) -> usize {
        let after = |at: i64| sent.partition_point(|other| *other < at + 1_000_000);
        sent.iter().enumerate().map(|(index, at)| after(*at) - index).max().unwrap_or(0)
    }

    #[test]
    fn the_mean_is_met_and_no_second_has_two_percent_too_many() {
        for rate in [50.0, 500.0, 5_000.0] {
            let sent = sends(rate, 60, || 0);
            let mean = sent.len() as f64 / 60.0;
            assert!((mean / rate - 1.0).abs() < 0.002, "{rate}: {mean}");
            assert!(worst_second(&sent) as f64 <= rate * 1.02, "{rate}: {}", worst_second(&sent));
        }
    }

    #[test]
    fn what_a_stall_held_up_is_made_up_for_slowly() {
        let mut calls = 0;
        // Every three seconds or so, a call that is late by 30 ms.
        let sent = sends(500.0, 60, || {
            calls += 1;
            if calls % 700 == 0 { 30_000 } else { 500 }
        });
        assert!((sent.len() as f64 / 30_000.0 - 1.0).abs() < 0.01, "{}", sent.len());
        assert!(worst_second(&sent) <= 510, "{}", worst_second(&sent));
    }

    #[test]
    fn a_ramp_climbs_in_steps_to_its_limit() {
        let at = |secs| ramped(Some(50.0), 5, Duration::from_secs(secs));
        assert_eq!([at(0), at(4), at(5), at(19), at(20)].map(Option::unwrap), [10.0, 10.0, 20.0, 40.0, 50.0]);
        assert_eq!(ramped(Some(50.0), 1, Duration::ZERO), Some(50.0));
        assert_eq!(ramped(Some(50.0), 0, Duration::ZERO), Some(50.0));
        assert_eq!(ramped(None, 3, Duration::from_secs(5)), Some(200.0));
        assert_eq!(ramped(None, 3, Duration::from_secs(10)), None);
    }

    #[test]
    fn a_share_is_of_normal_traffic_and_at_least_one_a_second() {
        assert_eq!(Pace::Share(0.1).rate(Some(400.0)), Some(40.0));
        assert_eq!(Pace::Share(0.1).rate(Some(2.0)), Some(1.0));
        assert_eq!(Pace::Share(0.1).rate(None), Some(1.0));
        assert_eq!(Pace::Max.rate(Some(400.0)), None);
        assert_eq!(Pace::Rate(f64::NAN).rate(None), Some(0.1));
    }

    #[test]
    fn slowing_down_works_without_a_limit_too() {
        assert_eq!(slowed(Some(50.0), 0.5), Some(25.0));
        assert_eq!(slowed(None, 0.5), Some(500.0));
        assert_eq!(slowed(Some(50.0), 0.0), Some(0.1));
    }

    #[test]
    fn a_change_of_pace_is_obeyed_at_once_and_brings_no_burst() {
        let mut pacer = Pacer::new(Some(0.1), START);
        assert_eq!(pacer.take(10, START), 1);
        let later = START.plus(Duration::from_millis(500));
        assert_eq!(pacer.take(10, later), 0);
        pacer.change(Some(50.0), later);
        assert!(pacer.next().unwrap() <= later.plus(Duration::from_millis(20)));
        assert!(pacer.take(10, later.plus(Duration::from_millis(20))) <= 1);
    }

    #[test]
    fn who_takes_over_begins_one_interval_later() {
        let mut pacer = Pacer::after_another(START);
        pacer.change(Some(50.0), START);
        assert_eq!(pacer.take(10, START.plus(Duration::from_millis(19))), 0);
        assert_eq!(pacer.take(10, START.plus(Duration::from_millis(20))), 1);
    }

    proptest! {
        // Each case is half a minute of messages.
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn timers_that_are_late_do_not_change_the_mean(
            rate in prop::sample::select(vec![50.0, 500.0, 5_000.0]),
            lateness in prop::collection::vec(0_u64..7_000, 1..50),
        ) {
            let mut calls = lateness.iter().cycle();
            let sent = sends(rate, 30, || *calls.next().unwrap());
            prop_assert!((sent.len() as f64 / 30.0 / rate - 1.0).abs() < 0.01, "{}", sent.len());
            prop_assert!(worst_second(&sent) as f64 <= rate * 1.02, "{}", worst_second(&sent));
        }
    }
}
