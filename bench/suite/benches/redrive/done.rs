//! What a runner did in one round, and the clock that all who are watched from outside are held against.

use std::time::{Duration, Instant};

use crate::runner::Round;
use crate::usage::Usage;

/// How long a runner may take.
const PATIENCE: Duration = Duration::from_secs(600);
/// Between two looks.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

/// What a runner did, and what it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) moved: u64,
    pub(crate) spent: Spent,
    /// Of the client; nothing where the server does it all.
    pub(crate) client: Usage,
    /// Processor time of the servers meanwhile.
    pub(crate) server: Duration,
}

impl Done {
    /// The same, measured from the asking.
    pub(crate) fn since_asked(self) -> Self {
        Self { spent: Spent::moving(self.spent.asked), ..self }
    }
}

impl From<&Done> for Round {
    fn from(done: &Done) -> Self {
        Self {
            messages: done.moved,
            spent: done.spent.moving,
            client: Some(done.client.cpu),
            server: Some(done.server),
            peak_mb: Some(done.client.peak_mb),
        }
    }
}

/// How long it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Spent {
    /// While messages moved: what a speed is. How long it takes to begin is another question.
    pub(crate) moving: Duration,
    /// From the asking to the end.
    pub(crate) asked: Duration,
}

impl Spent {
    /// Of a script, which begins when it is ready.
    pub(crate) fn moving(moving: Duration) -> Self {
        Self { moving, asked: moving }
    }
}

/// One clock for whoever is watched from outside: it runs from the first look that finds something moved until the one that
/// finds all of it.
#[derive(Debug)]
pub(crate) struct Clock {
    asked: Instant,
    count: u64,
    first: Option<(Instant, u64)>,
}

impl Clock {
    pub(crate) fn asked(count: u64) -> Self {
        Self { asked: Instant::now(), count, first: None }
    }

    /// What a look found; the time that was spent, when that is all.
    pub(crate) fn look(&mut self, moved: u64) -> Option<Spent> {
        assert!(self.asked.elapsed() < PATIENCE, "{moved} of {} were moved", self.count);
        if moved == 0 {
            return None;
        }
        let (began, at_first) = *self.first.get_or_insert((Instant::now(), moved));
        // What was there at the first look is not part of the rate.
        let share = self.count as f64 / self.count.saturating_sub(at_first).max(1) as f64;
        let spent = Spent { moving: began.elapsed().mul_f64(share), asked: self.asked.elapsed() };
        (moved >= self.count).then_some(spent)
    }
}
