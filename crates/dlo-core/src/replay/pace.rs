//! How fast a replay sends (F3): a token bucket over a given time, a ramp to its limit, a share of normal traffic.
//!
//! Two schedules and a bound run side by side. One schedule is exact: each message moves it by its interval, and lateness
//! is a debt that is paid back. The other keeps that from coming as a heap: at most [`BURST`] at once, and then a tenth
//! faster than the rate. The bound is on every single second, by when messages land ([`second`]). So the mean is met
//! although timers, stores and brokers are late, and no second has two percent too many.

mod second;

use std::time::Duration;

use self::second::{Room, Second};
use super::settings::Pace;
use crate::broker::Calls;
use crate::time::Timestamp;

/// Lateness that is made up for at once, in seconds.
const BURST: f64 = 0.05;
/// How much faster than the rate what is left of a debt is paid back.
const CATCH_UP: f64 = 1.1;
/// The largest debt, in seconds: what was held up for longer is not made up for.
const DEBT: f64 = 1.0;
/// What a second may hold, as a multiple of the rate. Two percent is the promise; one of them is left to what
/// becomes of messages behind the broker, the other pays debts back.
const FULLEST: f64 = 1.01;
/// Messages that become due within this many seconds go together: fewer calls, and far below what a second may vary.
const TOGETHER: f64 = 0.004;
/// The same where calls wait for each other, and one message costs as much as many.
const TOGETHER_ONE_BY_ONE: f64 = 0.01;

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

/// Says how many may go now, and when to ask again. It is told of each message that it let go when that landed.
#[derive(Debug, Clone)]
pub struct Pacer {
    began: Timestamp,
    rate: Rate,
    /// When the next message is due by the rate, in seconds since `began`.
    due: f64,
    /// When the next message is allowed by what may come as a heap.
    allowed: f64,
    second: Second,
    /// Whether anything landed yet.
    warm: bool,
}

impl Pacer {
    pub const fn new(rate: Rate, now: Timestamp) -> Self {
        Self { began: now, rate, due: 0.0, allowed: 0.0, second: Second::new(), warm: false }
    }

    /// As one that has just sent: whoever takes over does not know when the last message went.
    pub const fn after_another(now: Timestamp) -> Self {
        let second = Second::new();
        Self { began: now, rate: Some(SLOWEST), due: LONGEST, allowed: LONGEST, second, warm: false }
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
        self.second.forget();
    }

    /// How many may go now; they count as gone.
    pub fn take(&mut self, most: u64, now: Timestamp) -> u64 {
        let taken = match self.rate {
            Some(rate) => self.due_now(rate, most, now),
            None => most,
        };
        self.second.leave(taken);
        taken
    }

    fn due_now(&mut self, rate: f64, most: u64, now: Timestamp) -> u64 {
        if self.waits_for_the_first() {
            return 0;
        }
        let at = self.at(now);
        self.due = self.due.max(at - DEBT);
        self.allowed = self.allowed.max(at - BURST);
        let (interval, shortest) = (1.0 / rate, 1.0 / (rate * CATCH_UP));
        let due = count(at - self.due, interval).min(count(at - self.allowed, shortest));
        let taken = due.min(self.second.room(rate * FULLEST, at)).min(most);
        self.due += taken as f64 * interval;
        self.allowed += taken as f64 * shortest;
        taken
    }

    /// Gives back what was taken and did not go.
    pub fn untake(&mut self, count: u64) {
        self.second.stay(count);
        let Some(rate) = self.rate else { return };
        self.due -= count as f64 / rate;
        self.allowed -= count as f64 / (rate * CATCH_UP);
    }

    /// The broker answered to so many, which left at `left`. What it refused counts as well: nobody knows what became of it.
    pub fn landed(&mut self, count: u64, left: Timestamp, now: Timestamp) {
        let at = self.at(now);
        self.second.land(count, at - self.at(left), at);
        if !std::mem::replace(&mut self.warm, true) {
            let interval = self.rate.map_or(0.0, |rate| 1.0 / rate);
            self.due = self.due.max(at + interval);
            self.allowed = self.allowed.max(at + interval);
        }
    }

    /// The first message takes longer than those behind it: connections are made for it. It goes alone, and time begins to
    /// count when it landed, or what gathered meanwhile would come as a heap.
    const fn waits_for_the_first(&self) -> bool {
        !self.warm && self.second.is_under_way()
    }

    /// When the next call of [`Pacer::take`] is worth it, unless something lands before; `None`: time changes nothing,
    /// as there is no limit, or as only a landing makes room.
    pub fn next(&self, calls: Calls) -> Option<Timestamp> {
        let rate = self.rate.filter(|_| !self.waits_for_the_first())?;
        let together = match calls {
            Calls::SideBySide => TOGETHER,
            Calls::OneByOne => TOGETHER_ONE_BY_ONE,
        };
        let group = ((rate * together).floor() - 1.0).max(0.0) / rate;
        let at = self.due.max(self.allowed) + group;
        let at = match self.second.opens(rate * FULLEST) {
            Room::Yes => at,
            Room::From(opens) => opens.max(at),
            Room::AfterLanding => return None,
        };
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
mod tests;
