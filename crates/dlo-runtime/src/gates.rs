//! The gates before the handler: is anybody there, breakers, the brake, then the retry budget. Waiting at any of them
//! costs a message nothing.
//!
//! The arithmetic is in `dlo-core`; here are the lock, the clock and the waiting. Whoever waits is woken when a probe has
//! answered, so that an outage that ends is over for all at once. Nobody who waits here has a place among the handlers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::brake::{Brake, Cause, Doom, Judgement};
use dlo_core::breaker::{Admission, Breaker, BreakerConfig, Breakers, Gate, Outcome, Probe, State as Phase};
use dlo_core::budget::{Grant, RetryBudget};
use dlo_core::time::{Clock, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::builder::{Policy, WhenOpen};
use crate::events::{Event, Watch};

/// How long nobody is called when nobody was there: the first time, and at most.
const ABSENT: Duration = Duration::from_millis(200);
const ABSENT_LONGEST: Duration = Duration::from_secs(5);

pub(crate) struct Gates {
    state: Mutex<State>,
    /// Rung when a probe has answered.
    answered: Notify,
    /// Rung when a retry was given back to the budget: one that waits may go.
    given_back: Notify,
    when_open: WhenOpen,
    clock: Arc<dyn Clock>,
}

struct State {
    /// Open while nobody takes messages.
    handler: Option<Breaker>,
    breakers: Breakers,
    brake: Brake,
    budget: RetryBudget,
    /// What was told last of a pause, until its end is told.
    told: Option<Stop>,
}

/// What keeps messages from the handler.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Stop {
    Handler,
    Dependency(String),
    Brake(Cause),
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

    /// Waits until the message may go to its handler. `is_retry`: it spends of the budget.
    pub(crate) async fn pass(
        &self,
        is_retry: bool,
        shutdown: &CancellationToken,
        watch: &dyn Watch,
    ) -> Passage {
        let passage = self.stops(shutdown, watch).await;
        if is_retry && matches!(passage, Passage::Free) {
            return self.budget(shutdown, watch).await;
        }
        if !is_retry {
            let now = self.clock.now();
            self.state().budget.first_try(now);
        }
        passage
    }

    /// Whether something was shut since a message passed freely and waited for its place.
    pub(crate) fn is_shut(&self) -> bool {
        self.state().is_shut()
    }

    async fn stops(&self, shutdown: &CancellationToken, watch: &dyn Watch) -> Passage {
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
                () = tokio::time::sleep(wait) => {}
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
            let cause = state.brake.is_on().cloned()?;
            state.brake.release();
            state.over(&Stop::Brake(cause.clone()), watch);
            cause
        };
        self.answered.notify_waiters();
        Some(released)
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

/// What an ended attempt leads to.
struct Told {
    of_charge: bool,
    /// A probe answered: whoever waits should look again.
    rung: bool,
}

impl State {
    /// `Err`: what is in the way, and when it may be probed.
    fn ask(&mut self, now: Timestamp, watch: &dyn Watch) -> Result<Passage, (Stop, Duration)> {
        if let Some(handler) = &mut self.handler {
            match handler.admit(now) {
                Admission::Go => self.handler = None,
                Admission::Probe(probe) => return Ok(Passage::HandlerProbe(probe)),
                Admission::Wait(wait) => return Err((Stop::Handler, wait)),
            }
        }
        match self.breakers.gate(now) {
            Gate::Go => {}
            Gate::Probe { dependency, probe } => return Ok(Passage::Probe(dependency, probe)),
            Gate::Wait { dependency, wait } => {
                let stop = Stop::Dependency(dependency);
                self.tell(&stop, wait, watch);
                return Err((stop, wait));
            }
        }
        match self.brake.admit(now) {
            Admission::Go => Ok(Passage::Free),
            Admission::Probe(probe) => Ok(Passage::BrakeProbe(probe)),
            Admission::Wait(wait) => {
                let cause = self.brake.is_on().cloned().unwrap_or_else(|| Cause(String::new()));
                let stop = Stop::Brake(cause);
                self.tell(&stop, wait, watch);
                Err((stop, wait))
            }
        }
    }

    fn is_shut(&self) -> bool {
        let open = |(_, phase): (&str, Phase)| phase != Phase::Closed;
        self.handler.is_some() || self.brake.is_on().is_some() || self.breakers.states().any(open)
    }

    fn ended(&mut self, passage: Passage, ended: &Ended<'_>, now: Timestamp, watch: &dyn Watch) -> Told {
        let mut rung = !matches!(passage, Passage::Free);
        let stays = match passage {
            Passage::HandlerProbe(probe) => self.handler_probed(probe, ended, now, watch),
            Passage::BrakeProbe(probe) => self.brake_probed(probe, ended, now, watch),
            Passage::Probe(dependency, probe) => self.probed(dependency, probe, ended, now, watch),
            Passage::Free | Passage::Closed(_) | Passage::Shutdown => false,
        };
        if stays {
            return Told { of_charge: true, rung };
        }
        let mut of_charge = false;
        match ended {
            Ended::Handled { retry } => {
                self.breakers.succeeded(now);
                self.brake.flowed();
                if *retry {
                    self.budget.came_through(now);
                }
            }
            Ended::Failed { dependency: Some(dependency), .. } => self.breakers.failed(dependency, now),
            Ended::Failed { dependency: None, .. } => {}
            Ended::Absent(problem) => {
                of_charge = true;
                rung = true;
                self.nobody_there(problem, now, watch);
            }
            Ended::Lost => of_charge = true,
        }
        Told { of_charge, rung }
    }

    fn nobody_there(&mut self, problem: &str, now: Timestamp, watch: &dyn Watch) {
        if self.handler.is_some() {
            return;
        }
        let config =
            BreakerConfig { pause: ABSENT, longest_pause: ABSENT_LONGEST, ..BreakerConfig::default() };
        let mut breaker = Breaker::new(config);
        breaker.trip(now);
        self.handler = Some(breaker);
        if self.told != Some(Stop::Handler) {
            self.told = Some(Stop::Handler);
            watch.saw(&Event::HandlerAway { problem });
        }
    }

    /// True: still nobody.
    fn handler_probed(&mut self, probe: Probe, ended: &Ended<'_>, now: Timestamp, watch: &dyn Watch) -> bool {
        if let (Ended::Absent(_), Some(handler)) = (ended, &mut self.handler) {
            handler.probed(probe, now, Outcome::Failure);
            return true;
        }
        self.handler = None;
        self.over(&Stop::Handler, watch);
        false
    }

    /// True: the same again.
    fn brake_probed(&mut self, probe: Probe, ended: &Ended<'_>, now: Timestamp, watch: &dyn Watch) -> bool {
        let Some(on) = self.brake.is_on().cloned() else { return false };
        let failed_for = match ended {
            Ended::Handled { .. } => None,
            Ended::Failed { cause, .. } => Some(*cause),
            // It says nothing of the cause: the brake stays.
            Ended::Absent(_) | Ended::Lost => Some(&on),
        };
        let stays = !self.brake.probed(probe, failed_for, now);
        if !stays {
            self.over(&Stop::Brake(on), watch);
        }
        // Somebody who went away with it, or was not there, is looked at further.
        stays && matches!(ended, Ended::Failed { .. })
    }

    /// True: the dependency is still down.
    fn probed(
        &mut self,
        dependency: String,
        probe: Probe,
        ended: &Ended<'_>,
        now: Timestamp,
        watch: &dyn Watch,
    ) -> bool {
        match ended {
            Ended::Failed { dependency: Some(failed), .. } if dependency == *failed => {
                self.breakers.probed(&dependency, probe, now, Outcome::Failure);
                true
            }
            Ended::Absent(_) | Ended::Lost => {
                self.breakers.probed(&dependency, probe, now, Outcome::Failure);
                false
            }
            // Whatever else went wrong, it was not the dependency. If that is still down, it opens again at once.
            Ended::Handled { .. } | Ended::Failed { .. } => {
                self.breakers.probed(&dependency, probe, now, Outcome::Success);
                self.over(&Stop::Dependency(dependency), watch);
                false
            }
        }
    }

    fn tell(&mut self, stop: &Stop, wait: Duration, watch: &dyn Watch) {
        if self.told.as_ref() == Some(stop) {
            return;
        }
        match stop {
            Stop::Handler => {}
            Stop::Dependency(dependency) => watch.saw(&Event::Paused { dependency, wait }),
            Stop::Brake(cause) => watch.saw(&Event::Braked { cause: &cause.0, wait }),
        }
        self.told = Some(stop.clone());
    }

    fn over(&mut self, stop: &Stop, watch: &dyn Watch) {
        if self.told.take_if(|told| told == stop).is_none() {
            return;
        }
        match stop {
            Stop::Handler => watch.saw(&Event::HandlerBack),
            Stop::Dependency(dependency) => watch.saw(&Event::Resumed { dependency }),
            Stop::Brake(cause) => watch.saw(&Event::Released { cause: &cause.0 }),
        }
    }
}
