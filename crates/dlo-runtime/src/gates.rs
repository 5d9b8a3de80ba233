//! The gates before the handler: is anybody there, breakers, the brake, then the retry budget. Waiting at any of them
//! costs a message nothing.
//!
//! The arithmetic is in `dlo-core`; here are the lock, the clock and the waiting. Whoever waits is woken when a probe has
//! answered, so that an outage that ends is over for all at once. Nobody who waits here has a place among the handlers.

mod state;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::brake::{Brake, Cause, Doom, Judgement};
use dlo_core::breaker::{Breakers, Probe, State as Phase};
use dlo_core::budget::{Grant, RetryBudget};
use dlo_core::time::Clock;
use dlo_core::trouble::TroubleKind;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::builder::{Policy, WhenOpen};
use crate::events::{Event, Watch};
use state::State;

/// How much later than others a message asks for each time that it went in vain, and how many times count.
const STEP_BACK: Duration = Duration::from_millis(50);
const MOST_STEPS: u32 = 40;

pub(crate) struct Gates {
    state: Mutex<State>,
    /// Rung when a probe has answered.
    answered: Notify,
    /// Rung when a retry was given back to the budget: one that waits may go.
    given_back: Notify,
    when_open: WhenOpen,
    clock: Arc<dyn Clock>,
}

/// What keeps messages from the handler.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stop {
    Handler,
    Dependency(String),
    Brake(Cause),
}

/// What a message is to the retry budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Coming {
    /// It earns.
    First,
    /// It spends.
    Retry,
    /// It has earned or spent already, and only looks at the gates again.
    Counted,
}

/// How a message came through.
#[derive(Debug)]
pub(crate) enum Passage {
    Free,
    /// Its outcome speaks for this dependency.
    Probe(String, Probe),
    /// Its outcome speaks for the cause of the brake.
    BrakeProbe(Probe),
    /// It sees whether somebody is there again.
    HandlerProbe(Probe),
    /// A dependency is down and the policy parks.
    Closed(String),
    /// The consumer is shutting down.
    Shutdown,
}

/// How an attempt ended, as the gates see it.
#[derive(Debug)]
pub(crate) enum Ended<'a> {
    /// `retry`: it had spent of the budget.
    Handled { retry: bool },
    /// `dependency`: set for a retryable failure that names one.
    Failed { dependency: Option<&'a str>, cause: &'a Cause },
    /// Nobody was there.
    Absent(&'a str),
    /// Whoever was there went away with it.
    Lost,
}

impl Gates {
    pub(crate) fn new(policy: &Policy, clock: Arc<dyn Clock>) -> Self {
        let state = State {
            handler: None,
            absent: String::new(),
            breakers: Breakers::new(policy.breaker),
            brake: Brake::new(policy.brake),
            budget: RetryBudget::new(policy.budget),
            told: None,
        };
        Self {
            state: Mutex::new(state),
            answered: Notify::new(),
            given_back: Notify::new(),
            when_open: policy.when_open,
            clock,
        }
    }

    /// Waits until the message may go to its handler. `in_vain`: how often it went already and changed nothing, so that
    /// others are asked before it: a gate that is probed by the same bad message over and over never opens.
    pub(crate) async fn pass(
        &self,
        coming: Coming,
        in_vain: u32,
        shutdown: &CancellationToken,
        watch: &dyn Watch,
    ) -> Passage {
        let passage = self.stops(STEP_BACK * in_vain.min(MOST_STEPS), shutdown, watch).await;
        match coming {
            Coming::Retry if matches!(passage, Passage::Free) => self.budget(shutdown, watch).await,
            Coming::First => {
                let now = self.clock.now();
                self.state().budget.first_try(now);
                passage
            }
            Coming::Retry | Coming::Counted => passage,
        }
    }

    /// Whether something was shut since a message passed freely and waited for its place.
    pub(crate) fn is_shut(&self) -> bool {
        self.state().is_shut()
    }

    async fn stops(&self, later: Duration, shutdown: &CancellationToken, watch: &dyn Watch) -> Passage {
        loop {
            let mut answered = std::pin::pin!(self.answered.notified());
            answered.as_mut().enable();
            let asked = {
                let now = self.clock.now();
                self.state().ask(now, watch)
            };
            let (stop, wait) = match asked {
                Ok(passage) => return passage,
                Err(stopped) => stopped,
            };
            if let (Stop::Dependency(dependency), WhenOpen::Park) = (stop, self.when_open) {
                return Passage::Closed(dependency);
            }
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return Passage::Shutdown,
                () = answered => {}
                () = tokio::time::sleep(wait + later) => {}
            }
        }
    }

    async fn budget(&self, shutdown: &CancellationToken, watch: &dyn Watch) -> Passage {
        let mut refused = false;
        loop {
            let now = self.clock.now();
            let grant = self.state().budget.retry(now);
            match grant {
                Grant::Go => return Passage::Free,
                Grant::Wait(wait) => {
                    if !std::mem::replace(&mut refused, true) {
                        watch.saw(&Event::OverBudget);
                    }
                    tokio::select! {
                        biased;
                        () = shutdown.cancelled() => return Passage::Shutdown,
                        () = self.given_back.notified() => {}
                        () = tokio::time::sleep(wait) => {}
                    }
                }
            }
        }
    }

    /// Tells how an attempt ended. True when it costs the message nothing.
    pub(crate) fn ended(&self, passage: Passage, ended: &Ended<'_>, watch: &dyn Watch) -> bool {
        let now = self.clock.now();
        let free = self.state().ended(passage, ended, now, watch);
        if free.rung {
            self.answered.notify_waiters();
        }
        if matches!(ended, Ended::Handled { retry: true }) {
            self.given_back.notify_one();
        }
        free.of_charge
    }

    /// A message was discarded, or left otherwise without being parked.
    pub(crate) fn flowed(&self) {
        self.state().brake.flowed();
    }

    /// An attempt failed and is made again.
    pub(crate) fn failed(&self, cause: &Cause) {
        let now = self.clock.now();
        self.state().brake.failed(cause, now);
    }

    pub(crate) fn doomed(&self, cause: Cause) -> Doom {
        let now = self.clock.now();
        self.state().brake.doomed(cause, now)
    }

    pub(crate) fn judge(&self, doom: &Doom, watch: &dyn Watch) -> Judgement {
        let now = self.clock.now();
        let mut state = self.state();
        let judgement = state.brake.judge(doom, now);
        if judgement == Judgement::ParkAndWarn {
            watch.saw(&Event::MassDeath { cause: &doom.cause().0 });
        }
        judgement
    }

    /// Takes the brake off, by a person's word. The cause for which it was on.
    pub(crate) fn release_brake(&self, watch: &dyn Watch) -> Option<Cause> {
        let released = {
            let mut state = self.state();
            let cause = state.brake.waive(self.clock.now())?;
            state.over(&Stop::Brake(cause.clone()), watch);
            cause
        };
        self.answered.notify_waiters();
        Some(released)
    }

    /// What the next message would have to wait for, for people; none where one would go, be it as a probe. A gate that
    /// nobody would probe must not keep anybody from sending.
    pub(crate) fn in_the_way(&self) -> Option<String> {
        let now = self.clock.now();
        self.state().in_the_way(now)
    }

    /// What holds messages back and why, also while a probe is under way. Where the policy parks, a breaker holds none back.
    pub(crate) fn shut(&self) -> Option<(TroubleKind, String)> {
        let parks = self.when_open == WhenOpen::Park;
        self.state().shut().filter(|(kind, _)| !(parks && *kind == TroubleKind::ConsumerBreakerOpen))
    }

    pub(crate) fn braked(&self) -> Option<String> {
        self.state().brake.is_on().map(|cause| cause.0.clone())
    }

    /// Where each breaker stands, by the name of its dependency.
    pub(crate) fn breakers(&self) -> Vec<(String, Phase)> {
        self.state().breakers.states().map(|(name, phase)| (name.to_owned(), phase)).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
