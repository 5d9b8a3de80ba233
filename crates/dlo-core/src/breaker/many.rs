//! The breakers of one consumer, one per dependency that has ever failed.
//!
//! A consumer learns which downstream a message needs only when it fails, so the gate before the handler asks all of
//! them at once: while one is open, messages wait, and a probe goes through when its pause is over.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Admission, Breaker, BreakerConfig, Outcome, Probe, State};
use crate::time::Timestamp;

/// Dependencies that are guarded at once. Beyond, one that is closed is forgotten; if none is, the new one goes unguarded.
pub const MOST_DEPENDENCIES: usize = 256;

/// Whether the next message may go to the handler.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Gate {
    Go,
    /// It may, and its outcome speaks for this dependency.
    Probe {
        dependency: String,
        probe: Probe,
    },
    /// Not yet: this dependency is the first that may be probed.
    Wait {
        dependency: String,
        wait: Duration,
    },
}

/// Breakers by the name of their dependency.
#[derive(Debug, Clone)]
pub struct Breakers {
    config: BreakerConfig,
    by_dependency: BTreeMap<String, Breaker>,
}

impl Breakers {
    pub fn new(config: BreakerConfig) -> Self {
        Self { config, by_dependency: BTreeMap::new() }
    }

    /// Asks all breakers. Nothing that is closed is in the way.
    pub fn gate(&mut self, now: Timestamp) -> Gate {
        let mut first: Option<(&String, Duration)> = None;
        for (dependency, breaker) in &mut self.by_dependency {
            match breaker.admit(now) {
                Admission::Go => {}
                Admission::Probe(probe) => return Gate::Probe { dependency: dependency.clone(), probe },
                Admission::Wait(wait) if first.is_none_or(|(_, shortest)| wait < shortest) => {
                    first = Some((dependency, wait));
                }
                Admission::Wait(_) => {}
            }
        }
        match first {
            Some((dependency, wait)) => Gate::Wait { dependency: dependency.clone(), wait },
            None => Gate::Go,
        }
    }

    /// The dependency for which the next message would have to wait; none where one would go, be it as a probe.
    pub fn in_the_way(&self, now: Timestamp) -> Option<&str> {
        let open = || self.by_dependency.iter().filter(|(_, breaker)| breaker.state() != State::Closed);
        let all = open().all(|(_, breaker)| breaker.is_in_the_way(now));
        open().next().filter(|_| all).map(|(dependency, _)| dependency.as_str())
    }

    /// A failure that named this dependency.
    pub fn failed(&mut self, dependency: &str, now: Timestamp) {
        if let Some(breaker) = self.breaker(dependency) {
            breaker.observe(now, Outcome::Failure);
        }
    }

    /// A message was handled: every dependency it may have needed was there.
    pub fn succeeded(&mut self, now: Timestamp) {
        for breaker in self.by_dependency.values_mut() {
            breaker.observe(now, Outcome::Success);
        }
    }

    /// The outcome of a message that went through as a probe.
    pub fn probed(&mut self, dependency: &str, probe: Probe, now: Timestamp, outcome: Outcome) {
        if let Some(breaker) = self.by_dependency.get_mut(dependency) {
            breaker.probed(probe, now, outcome);
        }
    }

    /// Where each stands, by name.
    pub fn states(&self) -> impl Iterator<Item = (&str, State)> {
        self.by_dependency.iter().map(|(name, breaker)| (name.as_str(), breaker.state()))
    }

    fn breaker(&mut self, dependency: &str) -> Option<&mut Breaker> {
        if !self.by_dependency.contains_key(dependency) {
            if self.by_dependency.len() >= MOST_DEPENDENCIES {
                let closed = self.states().find(|(_, state)| *state == State::Closed);
                let forgotten = closed.map(|(name, _)| name.to_owned())?;
                self.by_dependency.remove(&forgotten);
            }
            self.by_dependency.insert(dependency.to_owned(), Breaker::new(self.config));
        }
        self.by_dependency.get_mut(dependency)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_millis(seconds * 1_000)
    }

    fn fail(breakers: &mut Breakers, dependency: &str, now: Timestamp) {
        (0..5).for_each(|_| breakers.failed(dependency, now));
    }

    #[test]
    fn an_open_dependency_holds_messages_until_its_probe_succeeds() {
        let mut breakers = Breakers::new(BreakerConfig::default());
        assert_eq!(breakers.gate(at(0)), Gate::Go);
        fail(&mut breakers, "tax", at(0));
        let wait = Duration::from_secs(5);
        assert_eq!(breakers.gate(at(0)), Gate::Wait { dependency: "tax".into(), wait });
        let Gate::Probe { dependency, probe } = breakers.gate(at(5)) else { panic!("expected a probe") };
        assert!(matches!(breakers.gate(at(5)), Gate::Wait { .. }));
        breakers.probed(&dependency, probe, at(6), Outcome::Success);
        assert_eq!(breakers.gate(at(6)), Gate::Go);
    }

    #[test]
    fn the_gate_waits_for_whichever_may_be_probed_first() {
        let mut breakers = Breakers::new(BreakerConfig::default());
        assert_eq!(breakers.in_the_way(at(0)), None);
        fail(&mut breakers, "bank", at(3));
        fail(&mut breakers, "tax", at(0));
        assert_eq!((breakers.in_the_way(at(4)), breakers.in_the_way(at(5))), (Some("bank"), None));
        assert!(matches!(breakers.gate(at(3)), Gate::Wait { dependency, .. } if dependency == "tax"));
        assert!(matches!(breakers.gate(at(5)), Gate::Probe { dependency, .. } if dependency == "tax"));
    }

    #[test]
    fn of_two_that_wait_the_sooner_is_named_and_of_equals_the_first_by_name() {
        for (bank, tax, sooner) in [(0, 3, "bank"), (3, 0, "tax"), (3, 3, "bank")] {
            let mut breakers = Breakers::new(BreakerConfig::default());
            fail(&mut breakers, "bank", at(bank));
            fail(&mut breakers, "tax", at(tax));
            let gate = breakers.gate(at(3));
            assert!(matches!(&gate, Gate::Wait { dependency, .. } if dependency == sooner), "{gate:?}");
        }
    }

    #[test]
    fn a_success_between_failures_keeps_every_dependency_closed() {
        let mut breakers = Breakers::new(BreakerConfig::default());
        for _ in 0..4 {
            breakers.failed("tax", at(0));
        }
        breakers.succeeded(at(0));
        breakers.failed("tax", at(0));
        assert_eq!(breakers.gate(at(0)), Gate::Go);
    }

    #[test]
    fn names_made_up_without_end_take_no_more_memory() {
        let mut breakers = Breakers::new(BreakerConfig::default());
        fail(&mut breakers, "tax", at(0));
        (0..10_000).for_each(|n| breakers.failed(&format!("host-{n}"), at(1)));
        assert_eq!(breakers.states().count(), MOST_DEPENDENCIES);
        assert!(breakers.states().any(|known| known == ("tax", State::Open)));
    }
}
