//! Who is in the handlers, and how much a process has in hand: bounds that hold at every moment.

use std::collections::{BTreeMap, BTreeSet};

use dlo_testkit::sim::{End, Fact, Number};

use super::Fault;
use crate::sim::plan::Plan;

/// The processes of a run.
#[derive(Debug, Default)]
pub(super) struct Crowd {
    /// Who is in the handler of which process, and how often: a message may be there twice.
    handling: BTreeMap<u32, Vec<Number>>,
    stopped: BTreeSet<u32>,
    place_of: BTreeMap<u32, usize>,
    /// Who was in the handler at a crash, by the place where that is remembered, and did not come through since.
    suspects: BTreeMap<usize, BTreeSet<Number>>,
}

impl Crowd {
    /// The messages that were in the handler, if it was a crash.
    pub(super) fn see(&mut self, plan: &Plan, fact: &Fact) -> Result<Vec<Number>, Fault> {
        match fact {
            Fact::Started { life, place } => drop(self.place_of.insert(*life, *place)),
            Fact::Began { by, message, .. } => {
                if self.stopped.contains(by) {
                    return Err(Fault::of(*message, format!("is handled by p{by}, which has ended")));
                }
                let inside = self.handling.entry(*by).or_default();
                inside.push(*message);
                if inside.len() > plan.concurrency {
                    let (inside, most) = (inside.len(), plan.concurrency);
                    return Err(Fault::of(
                        *message,
                        format!("is one of {inside} in the handler; at most {most}"),
                    ));
                }
                self.suspects_are_alone(plan, *by, *message)?;
            }
            Fact::Ended { by, message, how } => {
                let inside = self.handling.entry(*by).or_default();
                if let Some(at) = inside.iter().position(|other| other == message) {
                    inside.swap_remove(at);
                }
                if !matches!(how, End::Dropped | End::FailedByShutdown)
                    && let Some(suspects) = self.suspects_of(*by)
                {
                    suspects.remove(message);
                }
            }
            Fact::Wrote { by, message, .. } => {
                if let Some(suspects) = self.suspects_of(*by) {
                    suspects.remove(message);
                }
            }
            Fact::Crashed(life) => {
                let inside = self.handling.remove(life).unwrap_or_default();
                self.stopped.insert(*life);
                if let Some(suspects) = self.suspects_of(*life) {
                    suspects.extend(&inside);
                }
                return Ok(inside);
            }
            Fact::Stopped(life) => {
                self.stopped.insert(*life);
                if let Some([message, ..]) = self.handling.get(life).map(Vec::as_slice) {
                    return Err(Fault::of(
                        *message,
                        format!("is still in the handler of p{life}, which has stopped"),
                    ));
                }
            }
            Fact::Sent(_)
            | Fact::Delivered { .. }
            | Fact::CameBack { .. }
            | Fact::Told { .. }
            | Fact::Settled { .. }
            | Fact::Heard { .. }
            | Fact::Stopping(_)
            | Fact::Note(_) => {}
        }
        Ok(Vec::new())
    }

    fn suspects_of(&mut self, life: u32) -> Option<&mut BTreeSet<Number>> {
        self.place_of.get(&life).map(|place| self.suspects.entry(*place).or_default())
    }

    /// Who was there at a crash is run with nobody else in the handler.
    fn suspects_are_alone(&mut self, plan: &Plan, by: u32, message: Number) -> Result<(), Fault> {
        let inside = self.handling.get(&by).cloned().unwrap_or_default();
        if !plan.keeps_state || inside.len() < 2 {
            return Ok(());
        }
        let suspects = self.suspects_of(by);
        match suspects.and_then(|suspects| inside.iter().find(|one| suspects.contains(*one)).copied()) {
            Some(suspect) => Err(Fault::of(
                message,
                format!("is in the handler beside #{suspect}, which was there at a crash"),
            )),
            None => Ok(()),
        }
    }
}
