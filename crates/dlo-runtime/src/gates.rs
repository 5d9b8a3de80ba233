//! The gates before the handler: breakers, then the retry budget. Waiting at either costs a message nothing.
//!
//! The arithmetic is in `dlo-core`; here are the lock, the clock and the waiting. Whoever waits for a dependency is
//! woken when a probe has answered, so that an outage that ends is over for all at once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlo_core::breaker::{Breakers, Gate, Outcome, Probe};
use dlo_core::budget::{Grant, RetryBudget};
use dlo_core::time::Clock;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::builder::{Policy, WhenOpen};
use crate::events::{Event, Watch};

pub(crate) struct Gates {
    state: Mutex<State>,
    /// Rung when a probe has answered.
    answered: Notify,
    when_open: WhenOpen,
    clock: Arc<dyn Clock>,
}

struct State {
    breakers: Breakers,
    budget: RetryBudget,
    /// The dependency whose outage was told last, until its end is told.
    down: Option<String>,
}

/// How a message came through.
#[derive(Debug)]
pub(crate) enum Passage {
    Free,
    /// Its outcome speaks for this dependency.
    Probe(String, Probe),
    /// A dependency is down and the policy parks.
    Closed(String),
    /// The consumer is shutting down.
    Shutdown,
}

/// How an attempt ended, as breakers see it.
pub(crate) enum Ended<'a> {
    Handled,
    /// A retryable failure that names a dependency.
    DependencyFailed(&'a str),
    /// Any other failure: it says nothing of a dependency.
    OtherwiseFailed,
}

impl Gates {
    pub(crate) fn new(policy: &Policy, clock: Arc<dyn Clock>) -> Self {
        let breakers = Breakers::new(policy.breaker);
        let state = State { breakers, budget: RetryBudget::new(policy.budget), down: None };
        Self { state: Mutex::new(state), answered: Notify::new(), when_open: policy.when_open, clock }
    }

    /// Waits until the message may go to its handler.
    pub(crate) async fn pass(
        &self,
        is_retry: bool,
        shutdown: &CancellationToken,
        watch: &dyn Watch,
    ) -> Passage {
        let passage = self.breaker(shutdown, watch).await;
        if is_retry && matches!(passage, Passage::Free) {
            return self.budget(shutdown).await;
        }
        if !is_retry {
            let now = self.clock.now();
            self.state().budget.first_try(now);
        }
        passage
    }

    async fn breaker(&self, shutdown: &CancellationToken, watch: &dyn Watch) -> Passage {
        loop {
            let mut answered = std::pin::pin!(self.answered.notified());
            answered.as_mut().enable();
            let gate = {
                let now = self.clock.now();
                let mut state = self.state();
                let gate = state.breakers.gate(now);
                if let Gate::Wait { dependency, wait } = &gate
                    && state.down.as_deref() != Some(dependency)
                {
                    state.down = Some(dependency.clone());
                    watch.saw(&Event::Paused { dependency, wait: *wait });
                }
                gate
            };
            match gate {
                Gate::Go => return Passage::Free,
                Gate::Probe { dependency, probe } => return Passage::Probe(dependency, probe),
                Gate::Wait { dependency, wait } => match self.when_open {
                    WhenOpen::Park => return Passage::Closed(dependency),
                    WhenOpen::Pause => tokio::select! {
                        () = shutdown.cancelled() => return Passage::Shutdown,
                        () = answered => {}
                        () = tokio::time::sleep(wait) => {}
                    },
                },
            }
        }
    }

    async fn budget(&self, shutdown: &CancellationToken) -> Passage {
        loop {
            let now = self.clock.now();
            let grant = self.state().budget.retry(now);
            match grant {
                Grant::Go => return Passage::Free,
                Grant::Wait(wait) => tokio::select! {
                    () = shutdown.cancelled() => return Passage::Shutdown,
                    () = tokio::time::sleep(wait) => {}
                },
            }
        }
    }

    /// Tells how an attempt ended. True when it was a probe that failed: then it costs the message nothing.
    pub(crate) fn ended(&self, passage: Passage, ended: &Ended<'_>, watch: &dyn Watch) -> bool {
        let now = self.clock.now();
        let mut state = self.state();
        match (passage, ended) {
            (Passage::Probe(dependency, probe), Ended::DependencyFailed(failed)) if dependency == *failed => {
                state.breakers.probed(&dependency, probe, now, Outcome::Failure);
                self.answered.notify_waiters();
                return true;
            }
            // Whatever else went wrong, it was not the dependency. If that is still down, it opens again at once.
            (Passage::Probe(dependency, probe), _) => {
                state.breakers.probed(&dependency, probe, now, Outcome::Success);
                self.answered.notify_waiters();
                if state.down.take_if(|down| *down == dependency).is_some() {
                    watch.saw(&Event::Resumed { dependency: &dependency });
                }
            }
            (Passage::Free | Passage::Closed(_) | Passage::Shutdown, Ended::Handled) => {
                state.breakers.succeeded(now);
            }
            (Passage::Free | Passage::Closed(_) | Passage::Shutdown, Ended::DependencyFailed(failed)) => {
                state.breakers.failed(failed, now);
            }
            (Passage::Free | Passage::Closed(_) | Passage::Shutdown, Ended::OtherwiseFailed) => {}
        }
        false
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
