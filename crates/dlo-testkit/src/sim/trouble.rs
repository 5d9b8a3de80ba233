//! What goes wrong between the runtime and the broker, and how often. From a moment on, nothing does.

use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use tokio::time::Instant;

/// A stretch of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    pub from: Duration,
    pub to: Duration,
}

impl Window {
    pub fn holds(self, at: Duration) -> bool {
        self.from <= at && at < self.to
    }
}

/// Shares of calls, 0 to 1, and stretches of time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Trouble {
    /// After this nothing goes wrong any more.
    pub until: Duration,
    /// A call takes up to this long, each way.
    pub latency: Duration,
    pub receive_fails: f64,
    pub settle_fails: f64,
    pub publish_in_doubt: f64,
    pub publish_refused: f64,
    /// Nothing can be reached.
    pub outages: Vec<Window>,
    /// The dead-letter queue cannot be written.
    pub dlq_outages: Vec<Window>,
}

/// What becomes of one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fortune {
    Fine,
    /// It fails, and nothing happened.
    Nothing,
    /// It fails, and some of it happened.
    Half,
    /// It is refused for good, and nothing happened.
    Refused,
}

#[derive(Debug)]
pub(super) struct Dice {
    pub(super) trouble: Trouble,
    pub(super) random: StdRng,
    began: Instant,
}

impl Dice {
    pub(super) fn new(trouble: Trouble, random: StdRng) -> Self {
        Self { trouble, random, began: Instant::now() }
    }

    /// How long the next leg of a call takes.
    pub(super) fn latency(&mut self) -> Duration {
        // Whole milliseconds, as Tokio's timer has them; and now and then none at all.
        let most = u64::try_from(self.trouble.latency.as_millis()).unwrap_or(u64::MAX);
        Duration::from_millis(self.random.random_range(0..=most))
    }

    fn at(&self) -> Option<Duration> {
        Some(self.began.elapsed()).filter(|at| *at < self.trouble.until)
    }

    pub(super) fn receive(&mut self) -> Fortune {
        let share = self.trouble.receive_fails;
        self.call(share)
    }

    pub(super) fn settle(&mut self) -> Fortune {
        let share = self.trouble.settle_fails;
        self.call(share)
    }

    fn call(&mut self, share: f64) -> Fortune {
        let Some(at) = self.at() else { return Fortune::Fine };
        if self.trouble.outages.iter().any(|window| window.holds(at)) {
            return Fortune::Nothing;
        }
        if !self.random.random_bool(share) {
            return Fortune::Fine;
        }
        if self.random.random_bool(0.5) { Fortune::Half } else { Fortune::Nothing }
    }

    pub(super) fn publish(&mut self, to_dlq: bool) -> Fortune {
        let Some(at) = self.at() else { return Fortune::Fine };
        let trouble = &self.trouble;
        let away = trouble.outages.iter().any(|window| window.holds(at));
        if away || (to_dlq && trouble.dlq_outages.iter().any(|window| window.holds(at))) {
            return Fortune::Nothing;
        }
        let (refused, in_doubt) = (trouble.publish_refused, trouble.publish_in_doubt);
        if self.random.random_bool(refused) {
            return Fortune::Refused;
        }
        self.call(in_doubt)
    }
}
