//! The clock of the office: it follows this machine's clock, and never jumps.
//!
//! Leases, outcome windows, canaries and pauses are all differences of two times. If the machine's clock is set by an hour,
//! time goes on steadily here, and nears the new time by a tenth of the time that passes. Time during which the machine was
//! suspended has passed and counts at once; so does a step of more than a day ahead, by which a clock is set after a start. Over a restart, time goes on behind what the store holds already.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use dlo_core::time::{Clock, Timestamp};
use rustix::time::{ClockId, clock_gettime};

/// The machine's clock is read this often, in microseconds.
const LOOK: i64 = 100_000;
/// The correction of a span of time is at most this part of it.
const PART: i64 = 10;
/// The log names a difference from the machine's clock above the first, and its end below the second; in microseconds.
const APART: i64 = 10_000_000;
const TOGETHER: i64 = 1_000_000;
/// What the store holds from further ahead was written with a clock that nobody should follow.
const FURTHEST: Duration = Duration::from_secs(24 * 3_600);

/// Counts while the machine is suspended, and nobody sets it.
#[cfg(target_os = "linux")]
const STEADY: ClockId = ClockId::Boottime;
#[cfg(not(target_os = "linux"))]
const STEADY: ClockId = ClockId::Monotonic;

/// One clock for the whole process.
static CLOCK: LazyLock<Slewed> = LazyLock::new(|| Slewed::new(steady(), machine()));

/// The clock of this process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfficeClock;

impl Clock for OfficeClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(CLOCK.at(steady(), machine))
    }
}

/// Goes on behind `newest`, the time of the newest entry of the store: what is stored lies in the past.
pub(crate) fn go_on_behind(newest: Timestamp) {
    let ahead = newest.since(OfficeClock.now());
    if ahead > FURTHEST {
        tracing::warn!(%newest, "the store holds entries of a time that is more than a day ahead of this machine's clock");
    } else if ahead > Duration::ZERO {
        CLOCK.advance(i64::try_from(ahead.as_micros()).unwrap_or(0));
    }
}

/// Microseconds that passed since the machine was started.
fn steady() -> i64 {
    let time = clock_gettime(STEADY);
    time.tv_sec.saturating_mul(1_000_000).saturating_add(time.tv_nsec / 1_000)
}

/// Microseconds since 1970 by this machine's clock.
fn machine() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// A steady clock that is led to another one by small corrections.
#[derive(Debug)]
struct Slewed {
    /// What is added to the steady clock.
    offset: AtomicI64,
    /// When the other clock was looked at, by the steady one.
    looked: AtomicI64,
    /// The latest time that was returned. No later call returns less.
    latest: AtomicI64,
    is_apart: AtomicBool,
}

impl Slewed {
    const fn new(steady: i64, machine: i64) -> Self {
        Self {
            offset: AtomicI64::new(machine - steady),
            looked: AtomicI64::new(steady),
            latest: AtomicI64::new(machine),
            is_apart: AtomicBool::new(false),
        }
    }

    fn at(&self, steady: i64, machine: impl FnOnce() -> i64) -> i64 {
        let looked = self.looked.load(Ordering::Relaxed);
        let passed = steady - looked;
        if passed >= LOOK
            && self.looked.compare_exchange(looked, steady, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.correct(machine() - steady - self.offset.load(Ordering::Relaxed), passed);
        }
        let now = self.offset.load(Ordering::Relaxed) + steady;
        self.latest.fetch_max(now, Ordering::Relaxed).max(now)
    }

    /// Takes a part of the difference `apart` back that is small beside the time that passed. A clock that was more than a day
    /// behind was not set yet, as after the start of a machine: that difference goes at once.
    fn correct(&self, apart: i64, passed: i64) {
        let was_not_set = u128::try_from(apart).is_ok_and(|ahead| ahead > FURTHEST.as_micros());
        let most = if was_not_set { apart } else { passed / PART };
        self.offset.fetch_add(apart.clamp(-most, most), Ordering::Relaxed);
        let seconds = apart / 1_000_000;
        if apart.abs() >= APART && !self.is_apart.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                seconds,
                "this machine's clock differs from the office's: it was set, or the store holds later entries; the office follows slowly"
            );
        } else if apart.abs() <= TOGETHER && self.is_apart.swap(false, Ordering::Relaxed) {
            tracing::info!("the office's clock is that of this machine again");
        }
    }

    fn advance(&self, micros: i64) {
        self.offset.fetch_add(micros, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: i64 = 1_000_000;
    const HOUR: i64 = 3_600 * SECOND;

    /// The times of the office's clock over some seconds, with the machine's clock `ahead` of the true one.
    fn times(clock: &Slewed, from: i64, seconds: i64, ahead: i64) -> Vec<i64> {
        (1..=seconds * 10)
            .map(|tick| from + tick * SECOND / 10)
            .map(|now| clock.at(now, || now + ahead))
            .collect()
    }

    #[test]
    fn a_clock_that_is_set_by_an_hour_moves_time_by_a_tenth_of_what_passes() {
        for ahead in [HOUR, -HOUR] {
            let clock = Slewed::new(0, 0);
            let found = times(&clock, 0, 60, ahead);
            assert!(found.is_sorted(), "{ahead}");
            let moved = found.last().unwrap() - 60 * SECOND;
            assert_eq!(moved, 6 * SECOND * ahead.signum(), "{ahead}");
            // It arrives, and stays.
            let later = times(&clock, 60 * SECOND, 11 * 3_600, ahead);
            assert_eq!(later.last().unwrap() - (60 * SECOND + 11 * HOUR), ahead);
        }
    }

    #[test]
    fn a_clock_that_was_not_set_yet_is_followed_at_once() {
        let clock = Slewed::new(0, 0);
        let years = 50 * 365 * 24 * HOUR;
        assert_eq!(*times(&clock, 0, 1, years).last().unwrap(), SECOND + years);
        let most = Slewed::new(0, 0);
        assert_eq!(*times(&most, 0, 1, 24 * HOUR).last().unwrap(), SECOND + SECOND / 10);
    }

    #[test]
    fn a_small_difference_is_gone_within_seconds() {
        let clock = Slewed::new(0, 0);
        let last = *times(&clock, 0, 3, SECOND / 5).last().unwrap();
        assert_eq!(last, 3 * SECOND + SECOND / 5);
    }

    #[test]
    fn time_goes_on_behind_what_is_stored_and_never_back() {
        let clock = Slewed::new(0, 0);
        clock.advance(HOUR);
        let found = times(&clock, 0, 600, 0);
        assert!(found.is_sorted() && found[0] > HOUR && *found.last().unwrap() < HOUR + 600 * SECOND);
    }
}
