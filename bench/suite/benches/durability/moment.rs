//! Moments in the middle of something: random, and the same again for the same seed.

use std::time::{Duration, Instant};

use crate::letters::mix;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(2);
/// How long nothing may change before what is missing counts as missing.
const PATIENCE: Duration = Duration::from_secs(30);
/// At most so many milliseconds lie between the look that found enough done and the kill: most looks find the end of a batch.
const JITTER: u64 = 25;

/// When somebody is killed.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Moment {
    /// So many are done by then.
    done: u64,
    /// How long after that.
    after: Duration,
}

/// One moment after the other.
#[derive(Debug)]
pub(crate) struct Moments(u64);

impl Moments {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.0 = mix(self.0);
        self.0 % end.max(1)
    }

    /// When between a tenth and six tenths of `count` are done.
    pub(crate) fn next(&mut self, count: u64) -> Moment {
        let done = (count / 10 + self.below(count / 2)).max(1);
        Moment { done, after: Duration::from_millis(self.below(JITTER)) }
    }
}

impl Moment {
    /// Whether so many are enough.
    pub(crate) fn is_reached(self, done: u64) -> bool {
        done >= self.done
    }

    /// Waits for it; `look` says how many are done.
    pub(crate) fn wait(self, mut look: impl FnMut() -> u64) {
        assert!(until(&mut look, |done| self.is_reached(done)), "{} of {} were done", look(), self.done);
        self.pass();
    }

    /// Waits for what comes behind the count.
    pub(crate) fn pass(self) {
        std::thread::sleep(self.after);
    }
}

/// Looks until it is enough. False if nothing has changed for a while: more will not come.
pub(crate) fn until(mut look: impl FnMut() -> u64, enough: impl Fn(u64) -> bool) -> bool {
    let (mut changed, mut before) = (Instant::now(), None);
    loop {
        let now = look();
        if enough(now) {
            return true;
        }
        if before.replace(now) != Some(now) {
            changed = Instant::now();
        }
        if changed.elapsed() > PATIENCE {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// How long it took until somebody that was started again answered, and until it had done something new. Seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Back {
    pub(crate) serves: f64,
    pub(crate) works: f64,
}
