//! The mass-death brake: when nearly everything would be parked for one cause, it is not the messages.
//!
//! A message that is to be parked waits for a moment: until enough other attempts have ended, or its grace is over. If most
//! of those failed for the same cause, the brake goes on: the consumer pauses and probes, as with a breaker, and the
//! message was not charged. If not, it is parked. An attempt that is made again counts like any other: in an outage few
//! messages run out of attempts at once, and all of them fail. So an outage that a framework reports as bare 500s parks
//! nothing, and one bad message among good ones is parked within the time of a few others.

mod config;

use std::collections::BTreeMap;
use std::time::Duration;

use crate::breaker::{Admission, Breaker, BreakerConfig, Outcome, Probe};
use crate::time::Timestamp;

pub use config::{BrakeConfig, BrakeMode};

/// Causes counted at once; beyond, the one that failed longest ago is forgotten.
pub const MOST_CAUSES: usize = 256;

/// How long a person's word holds that what fails for a cause is to be parked.
pub const WAIVED: Duration = Duration::from_secs(600);

/// What makes two failures the same here: error class and message template, as a hash and for people.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cause(pub String);

/// A message that is to be parked, and what had ended when that was decided.
#[derive(Debug, Clone)]
pub struct Doom {
    cause: Cause,
    since: Timestamp,
    ended: u64,
    of_cause: u64,
}

impl Doom {
    pub fn cause(&self) -> &Cause {
        &self.cause
    }
}

/// What becomes of a message that is to be parked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Judgement {
    Park,
    /// Parked, and somebody should hear of it: the brake would be on if the policy did not say `warn`.
    ParkAndWarn,
    /// Ask again, after this long at most.
    Wait(Duration),
    /// The brake is on: it goes back before the gate, at no charge.
    Hold,
}

/// The brake of one consumer.
#[derive(Debug, Clone)]
pub struct Brake {
    config: BrakeConfig,
    /// Attempts that ended, in any way.
    ended: u64,
    by_cause: BTreeMap<Cause, Count>,
    /// How many failed for one cause, one after the other.
    row: Option<(Cause, u64)>,
    on: Option<(Cause, Breaker)>,
    warned: Option<(Cause, Timestamp)>,
    /// A person said that what fails for this cause is to be parked.
    waived: Option<(Cause, Timestamp)>,
}

#[derive(Debug, Clone, Copy)]
struct Count {
    failed: u64,
    last: Timestamp,
}

impl Brake {
    pub fn new(config: BrakeConfig) -> Self {
        Self { config, ended: 0, by_cause: BTreeMap::new(), row: None, on: None, warned: None, waived: None }
    }

    /// An attempt ended, and its message is neither parked nor tried again.
    pub fn flowed(&mut self) {
        self.ended += 1;
        self.row = None;
    }

    /// An attempt failed for this cause, and is made again.
    pub fn failed(&mut self, cause: &Cause, now: Timestamp) {
        self.count(cause, now);
    }

    /// An attempt failed for this cause, and its message is to be parked. Ask [`Brake::judge`] what becomes of it.
    pub fn doomed(&mut self, cause: Cause, now: Timestamp) -> Doom {
        let of_cause = self.count(&cause, now);
        Doom { of_cause, cause, since: now, ended: self.ended }
    }

    /// How many failed for this cause, this one included.
    fn count(&mut self, cause: &Cause, now: Timestamp) -> u64 {
        self.ended += 1;
        match &mut self.row {
            Some((same, row)) if same == cause => *row += 1,
            row => *row = Some((cause.clone(), 1)),
        }
        if self.by_cause.len() >= MOST_CAUSES && !self.by_cause.contains_key(cause) {
            let oldest = self.by_cause.iter().min_by_key(|(_, count)| count.last);
            if let Some(oldest) = oldest.map(|(cause, _)| cause.clone()) {
                self.by_cause.remove(&oldest);
            }
        }
        let count = self.by_cause.entry(cause.clone()).or_insert(Count { failed: 0, last: now });
        count.failed += 1;
        count.last = now;
        count.failed
    }

    pub fn judge(&mut self, doom: &Doom, now: Timestamp) -> Judgement {
        if self.config.mode == BrakeMode::Off || self.is_waived(&doom.cause, now) {
            return Judgement::Park;
        }
        if self.on.as_ref().is_some_and(|(cause, _)| *cause == doom.cause) {
            return Judgement::Hold;
        }
        let others = self.ended.saturating_sub(doom.ended);
        let left = self.config.grace.saturating_sub(now.since(doom.since));
        if others < u64::from(self.config.least) && !left.is_zero() {
            return Judgement::Wait(left);
        }
        if self.is_mass(doom, others) { self.trip(doom, now) } else { Judgement::Park }
    }

    /// Of what ended since, most for the same cause; or so many before it that nothing else can have ended.
    fn is_mass(&self, doom: &Doom, others: u64) -> bool {
        let least = u64::from(self.config.least);
        let same =
            self.by_cause.get(&doom.cause).map_or(0, |count| count.failed.saturating_sub(doom.of_cause));
        let share = same as f64 >= self.config.share * others as f64;
        let in_a_row = self.row.as_ref().is_some_and(|(cause, row)| *cause == doom.cause && *row > least);
        (others >= least && share) || in_a_row
    }

    fn trip(&mut self, doom: &Doom, now: Timestamp) -> Judgement {
        match self.config.mode {
            BrakeMode::Off => Judgement::Park,
            BrakeMode::Warn => {
                let again = self.config.longest_pause;
                let told = self.warned.as_ref();
                if told.is_some_and(|(cause, at)| *cause == doom.cause && now.since(*at) < again) {
                    return Judgement::Park;
                }
                self.warned = Some((doom.cause.clone(), now));
                Judgement::ParkAndWarn
            }
            BrakeMode::Pause => {
                let mut breaker = Breaker::new(BreakerConfig {
                    pause: self.config.pause,
                    longest_pause: self.config.longest_pause,
                    ..BreakerConfig::default()
                });
                breaker.trip(now);
                self.on = Some((doom.cause.clone(), breaker));
                Judgement::Hold
            }
        }
    }

    /// The cause for which it is on.
    pub fn is_on(&self) -> Option<&Cause> {
        self.on.as_ref().map(|(cause, _)| cause)
    }

    /// The cause for which the next message would have to wait; none where one would go, be it as a probe.
    pub fn in_the_way(&self, now: Timestamp) -> Option<&Cause> {
        self.on.as_ref().filter(|(_, breaker)| breaker.is_in_the_way(now)).map(|(cause, _)| cause)
    }

    /// Whether a message may go to the handler.
    pub fn admit(&mut self, now: Timestamp) -> Admission {
        match &mut self.on {
            Some((_, breaker)) => breaker.admit(now),
            None => Admission::Go,
        }
    }

    /// How a probe ended: for the same cause, the brake stays on for longer; otherwise it is off. True when it is off.
    pub fn probed(&mut self, probe: Probe, failed_for: Option<&Cause>, now: Timestamp) -> bool {
        let Some((cause, breaker)) = &mut self.on else { return true };
        if failed_for == Some(cause) {
            breaker.probed(probe, now, Outcome::Failure);
            return false;
        }
        self.release();
        true
    }

    /// A person takes the brake off: for [`WAIVED`] what fails for its cause is parked. The cause, if it was on.
    pub fn waive(&mut self, now: Timestamp) -> Option<Cause> {
        let cause = self.is_on()?.clone();
        self.release();
        self.waived = Some((cause.clone(), now));
        Some(cause)
    }

    fn is_waived(&self, cause: &Cause, now: Timestamp) -> bool {
        self.waived.as_ref().is_some_and(|(waived, at)| waived == cause && now.since(*at) < WAIVED)
    }

    fn release(&mut self) {
        self.on = None;
        self.row = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn cause(name: &str) -> Cause {
        Cause(name.to_owned())
    }

    fn brake() -> Brake {
        Brake::new(BrakeConfig::default())
    }

    #[test]
    fn one_bad_message_among_good_ones_is_parked_as_soon_as_enough_others_ended() {
        let mut brake = brake();
        let doom = brake.doomed(cause("KeyError"), at(0));
        assert!(matches!(brake.judge(&doom, at(0)), Judgement::Wait(_)));
        (0..20).for_each(|_| brake.flowed());
        assert_eq!(brake.judge(&doom, at(1)), Judgement::Park);
    }

    #[test]
    fn a_lonely_one_is_parked_when_its_grace_is_over() {
        let mut brake = brake();
        let doom = brake.doomed(cause("KeyError"), at(0));
        assert_eq!(brake.judge(&doom, at(400)), Judgement::Wait(Duration::from_millis(600)));
        assert_eq!(brake.judge(&doom, at(1_000)), Judgement::Park);
    }

    #[test]
    fn when_all_fail_for_one_cause_the_brake_goes_on_and_nothing_is_parked() {
        let mut brake = brake();
        (0..10_000).for_each(|_| brake.flowed());
        let dooms: Vec<Doom> = (0..64).map(|_| brake.doomed(cause("500"), at(0))).collect();
        let judged: Vec<Judgement> = dooms.iter().map(|doom| brake.judge(doom, at(1))).collect();
        assert!(judged.iter().all(|one| *one == Judgement::Hold), "{judged:?}");
        assert!(matches!(brake.admit(at(1)), Admission::Wait(_)));
        assert_eq!(brake.is_on(), Some(&cause("500")));
    }

    #[test]
    fn attempts_that_are_made_again_tell_of_an_outage_as_well() {
        let mut brake = brake();
        let doom = brake.doomed(cause("503"), at(0));
        (0..25).for_each(|_| brake.failed(&cause("503"), at(10)));
        assert_eq!(brake.judge(&doom, at(20)), Judgement::Hold);
    }

    #[test]
    fn what_a_person_waived_is_parked_and_another_cause_is_not() {
        let mut brake = brake();
        let mut all_fail_for = |name: &str, now: i64| {
            let dooms: Vec<Doom> = (0..64).map(|_| brake.doomed(cause(name), at(now))).collect();
            let judged = dooms.iter().map(|doom| brake.judge(doom, at(now))).last();
            (judged, brake.waive(at(now)))
        };
        assert_eq!(all_fail_for("500", 0), (Some(Judgement::Hold), Some(cause("500"))));
        assert_eq!(all_fail_for("500", 1), (Some(Judgement::Park), None));
        assert_eq!(all_fail_for("KeyError", 2), (Some(Judgement::Hold), Some(cause("KeyError"))));
        let later = i64::try_from(WAIVED.as_millis()).unwrap() + 3;
        assert_eq!(all_fail_for("KeyError", later).0, Some(Judgement::Hold));
    }

    #[test]
    fn a_tenth_of_the_traffic_failing_alike_does_not_trip_it() {
        let mut brake = brake();
        for n in 0..10_000 {
            if n % 10 != 0 {
                brake.flowed();
                continue;
            }
            let doom = brake.doomed(cause("KeyError"), at(n));
            (0..20).for_each(|other| {
                if other % 10 == 0 { drop(brake.doomed(cause("KeyError"), at(n))) } else { brake.flowed() }
            });
            assert_eq!(brake.judge(&doom, at(n)), Judgement::Park);
        }
    }

    #[test]
    fn a_probe_that_comes_through_takes_it_off_and_one_that_does_not_leaves_it_on_for_longer() {
        let mut brake = brake();
        let dooms: Vec<Doom> = (0..64).map(|_| brake.doomed(cause("500"), at(0))).collect();
        assert_eq!(brake.judge(&dooms[0], at(0)), Judgement::Hold);
        let Admission::Probe(probe) = brake.admit(at(5_000)) else { panic!("expected a probe") };
        assert!(matches!(brake.admit(at(5_000)), Admission::Wait(_)), "one at a time");
        assert!(!brake.probed(probe, Some(&cause("500")), at(5_001)));
        assert!(matches!(brake.admit(at(5_001)), Admission::Wait(wait) if wait == Duration::from_secs(10)));
        let Admission::Probe(probe) = brake.admit(at(15_001)) else { panic!("expected a probe") };
        assert!(brake.probed(probe, None, at(15_002)));
        assert_eq!(brake.admit(at(15_002)), Admission::Go);
    }

    #[test]
    fn one_lane_that_can_only_fail_one_by_one_trips_it_by_its_row() {
        let mut brake = brake();
        let mut parked = 0;
        for second in 0..100 {
            let doom = brake.doomed(cause("500"), at(second * 1_000));
            match brake.judge(&doom, at(second * 1_000 + 1_000)) {
                Judgement::Park => parked += 1,
                other => return assert_eq!((other, parked), (Judgement::Hold, 20)),
            }
        }
        panic!("never tripped");
    }

    #[test]
    fn warn_parks_and_says_so_once_in_a_while_and_off_says_nothing() {
        let warn = BrakeConfig { mode: BrakeMode::Warn, ..BrakeConfig::default() };
        let mut brake = Brake::new(warn);
        let dooms: Vec<Doom> = (0..64).map(|_| brake.doomed(cause("500"), at(0))).collect();
        let judged: Vec<Judgement> = dooms[..40].iter().map(|doom| brake.judge(doom, at(1))).collect();
        assert_eq!(judged[0], Judgement::ParkAndWarn);
        assert!(judged[1..].iter().all(|one| *one == Judgement::Park));
        let mut off = Brake::new(BrakeConfig { mode: BrakeMode::Off, ..BrakeConfig::default() });
        let doom = off.doomed(cause("500"), at(0));
        assert_eq!(off.judge(&doom, at(0)), Judgement::Park);
    }

    #[test]
    fn causes_made_up_without_end_take_no_more_memory() {
        let mut brake = brake();
        (0..10_000).for_each(|n| drop(brake.doomed(cause(&format!("E{n}")), at(n))));
        assert_eq!(brake.by_cause.len(), MOST_CAUSES);
    }
}
