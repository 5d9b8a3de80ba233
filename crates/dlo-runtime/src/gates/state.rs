//! Where the gates stand, and what the end of an attempt changes of it: decided under one lock, over a given time.

use std::time::Duration;

use dlo_core::brake::{Brake, Cause};
use dlo_core::breaker::{Admission, Breaker, BreakerConfig, Breakers, Gate, Outcome, Probe, State as Phase};
use dlo_core::budget::RetryBudget;
use dlo_core::time::Timestamp;
use dlo_core::trouble::TroubleKind;

use super::{Ended, Passage, Stop};
use crate::events::{Event, Watch};

/// How long nobody is called when nobody was there: the first time, and at most.
const ABSENT: Duration = Duration::from_millis(200);
const ABSENT_LONGEST: Duration = Duration::from_secs(5);

pub(super) struct State {
    /// Open while nobody takes messages.
    pub(super) handler: Option<Breaker>,
    /// Why nobody takes them.
    pub(super) absent: String,
    pub(super) breakers: Breakers,
    pub(super) brake: Brake,
    pub(super) budget: RetryBudget,
    /// What was told last of a pause, until its end is told.
    pub(super) told: Option<Stop>,
}

/// What an ended attempt leads to.
pub(super) struct Told {
    pub(super) of_charge: bool,
    /// A probe answered: whoever waits should look again.
    pub(super) rung: bool,
}

impl State {
    /// `Err`: what is in the way, and when it may be probed.
    pub(super) fn ask(&mut self, now: Timestamp, watch: &dyn Watch) -> Result<Passage, (Stop, Duration)> {
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

    /// In the order of [`State::ask`]. A gate that may be probed lets one message through, whatever is behind it.
    pub(super) fn in_the_way(&self, now: Timestamp) -> Option<String> {
        if let Some(handler) = &self.handler {
            let held = handler.is_in_the_way(now);
            return held.then(|| "nobody takes its messages".to_owned());
        }
        if self.breakers.states().any(|(_, phase)| phase != Phase::Closed) {
            let dependency = self.breakers.in_the_way(now)?;
            return Some(format!("its breaker for {dependency} is open"));
        }
        let cause = self.brake.in_the_way(now)?;
        Some(braked(cause))
    }

    /// What is shut and why, also while a probe is under way: a probe is no recovery.
    pub(super) fn shut(&self) -> Option<(TroubleKind, String)> {
        if self.handler.is_some() {
            return Some((TroubleKind::ConsumerHandlerAway, self.absent.clone()));
        }
        let open = self.breakers.states().find(|(_, phase)| *phase != Phase::Closed);
        if let Some((dependency, _)) = open {
            return Some((TroubleKind::ConsumerBreakerOpen, format!("its breaker for {dependency} is open")));
        }
        let cause = self.brake.is_on()?;
        Some((TroubleKind::ConsumerBraked, braked(cause)))
    }

    pub(super) fn is_shut(&self) -> bool {
        let open = |(_, phase): (&str, Phase)| phase != Phase::Closed;
        self.handler.is_some() || self.brake.is_on().is_some() || self.breakers.states().any(open)
    }

    pub(super) fn ended(
        &mut self,
        passage: Passage,
        ended: &Ended<'_>,
        now: Timestamp,
        watch: &dyn Watch,
    ) -> Told {
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
        problem.clone_into(&mut self.absent);
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

    pub(super) fn over(&mut self, stop: &Stop, watch: &dyn Watch) {
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

fn braked(cause: &Cause) -> String {
    format!("its brake is on, nearly everything fails for {}", cause.0)
}
