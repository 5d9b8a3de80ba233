//! One server of a run: it crashes or freezes at a step that the seed has chosen.
//!
//! Every call to store or broker is a step before and after its effect. A crashed server's calls never return. A frozen
//! one's return late, as after SIGSTOP: others may have taken over meanwhile.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

#[derive(Debug)]
pub(super) struct Life {
    pub(super) id: u32,
    left: Mutex<Option<u64>>,
    /// At its last step it freezes for this long instead of dying.
    freeze: Option<Duration>,
    /// Publishes before the one in which it freezes or dies, whatever its steps, and how late that one arrives.
    trap: Mutex<Option<(u32, Duration)>>,
    thaws: Mutex<Option<Instant>>,
    pub(super) over: CancellationToken,
}

impl Life {
    pub(super) fn new(
        id: u32,
        steps: Option<u64>,
        freeze: Option<Duration>,
        trap: Option<(u32, Duration)>,
    ) -> Self {
        Self {
            id,
            left: Mutex::new(steps),
            freeze,
            trap: Mutex::new(trap),
            thaws: Mutex::new(None),
            over: CancellationToken::new(),
        }
    }

    /// A batch is handed to the broker's client: whether this is the one that only reaches the broker later, when its
    /// server is frozen or gone. Clients send from threads of their own.
    pub(super) fn springs(&self) -> Option<Duration> {
        let mut trap = lock(&self.trap);
        let (left, late) = (*trap)?;
        *trap = left.checked_sub(1).map(|left| (left, late));
        if left > 0 {
            return None;
        }
        match self.freeze {
            Some(_) => *lock(&self.thaws) = Some(Instant::now() + late),
            None => self.over.cancel(),
        }
        Some(late)
    }

    pub(super) async fn step(&self) {
        if self.over.is_cancelled() {
            std::future::pending::<()>().await;
        }
        if self.is_last() {
            match self.freeze {
                Some(freeze) => *lock(&self.thaws) = Some(Instant::now() + freeze),
                None => {
                    self.over.cancel();
                    std::future::pending::<()>().await;
                }
            }
        }
        let thaws = *lock(&self.thaws);
        if let Some(thaws) = thaws.filter(|at| *at > Instant::now()) {
            sleep_until(thaws).await;
        }
    }

    /// Whether it is frozen, or was until a moment ago.
    pub(super) fn is_frozen(&self) -> bool {
        lock(&self.thaws).is_some_and(|at| Instant::now() < at + Duration::from_secs(1))
    }

    fn is_last(&self) -> bool {
        let mut left = lock(&self.left);
        match left.as_mut() {
            Some(0) => {
                *left = None;
                true
            }
            Some(steps) => {
                *steps -= 1;
                false
            }
            None => false,
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
