//! What must hold, whatever happened: the log is read once, fact by fact, and the first thing that cannot be explained
//! is the fault.
//!
//! Duplicates are allowed where something explains them: a message that came back, a copy whose confirm was lost. Losses
//! are never allowed. Charges are counted from what the handler did, not from what the runtime says it did.

mod charges;
mod crowd;
mod ends;
mod order;

use std::collections::BTreeMap;

use dlo_core::broker::Settlement;
use dlo_testkit::sim::{Back, Copy, End, Fact, Letter, Noted, Number};

use super::plan::Plan;

/// Something that must not have happened.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) message: Option<Number>,
    pub(super) what: String,
}

impl Fault {
    pub(super) fn of_run(what: impl Into<String>) -> Self {
        Self { message: None, what: what.into() }
    }

    fn of(message: Number, what: impl Into<String>) -> Self {
        let what = format!("#{message} {}", what.into());
        Self { message: Some(message), what }
    }
}

/// One message, as far as the log has been read.
#[derive(Debug, Default)]
struct Life {
    /// Failures that the handler told of or ran into: what may be charged.
    charges: u32,
    handled: u32,
    /// It failed once with an error that nobody knows: that may end it.
    broken: bool,
    /// Crashes with it in the handler, and those with it alone.
    crashes: u32,
    crashes_alone: u32,
    letters: Vec<Letter>,
    /// A letter of it is known to be there.
    parked: bool,
    /// A later message of its key was done while it was not. Harmless if its end was decided by then.
    overtaken_by: Option<Number>,
    /// Something happened to it that explains a duplicate.
    disturbed: bool,
    /// The most that the broker has counted.
    count: u32,
    /// The highest attempt that the handler has seen.
    attempts: u32,
    /// Where it is in hand: who has it under which tag, and whether that delivery may be settled as done.
    hands: BTreeMap<u64, Hand>,
}

#[derive(Debug)]
struct Hand {
    of: u32,
    /// Handled, or its retry confirmed, since this delivery.
    may_end: bool,
}

impl Life {
    fn is_done(&self) -> bool {
        self.handled > 0 || !self.letters.is_empty()
    }

    /// Something was achieved by that process: its deliveries of this message may end.
    fn achieved(&mut self, by: u32) {
        self.hands.values_mut().filter(|hand| hand.of == by).for_each(|hand| hand.may_end = true);
    }
}

/// Reads the log of a run that came to rest.
pub(super) fn check(plan: &Plan, log: &[Noted]) -> Result<(), Fault> {
    let mut lives: Vec<Life> = plan.messages.iter().map(|_| Life::default()).collect();
    let mut crowd = crowd::Crowd::default();
    for noted in log {
        let crashed = crowd.see(plan, &noted.fact)?;
        for message in &crashed {
            lives[*message as usize].crashes += 1;
            lives[*message as usize].crashes_alone += u32::from(crashed.len() == 1);
        }
        let Some(message) = noted.fact.message() else { continue };
        let Some(life) = lives.get_mut(message as usize) else {
            return Err(Fault::of(message, "is a message that nobody sent"));
        };
        see(plan, message, life, &noted.fact)?;
        order::check(plan, message, &mut lives, &noted.fact)?;
    }
    for (message, life) in (0..).zip(&lives) {
        ends::check(plan, message, life)?;
    }
    Ok(())
}

fn see(plan: &Plan, message: Number, life: &mut Life, fact: &Fact) -> Result<(), Fault> {
    match fact {
        Fact::Delivered { to, tag, count, .. } => {
            life.count = life.count.max(count.unwrap_or(0));
            life.hands.insert(*tag, Hand { of: *to, may_end: false });
        }
        Fact::CameBack { why, .. } => match why {
            // It keeps its tag here: whoever had it may still say that it is done, and be told that it is not.
            Back::LeaseOver
            | Back::HolderGone
            | Back::HandedBack
            | Back::PartitionMoved
            | Back::ConnectionLost => {
                life.disturbed = true;
            }
        },
        Fact::Told { tag, how, .. } => return told(message, life, *tag, *how),
        Fact::Wrote { copy: Copy::Letter(letter), .. } => {
            charges::letter(plan, message, life, letter)?;
            life.letters.push((**letter).clone());
        }
        Fact::Wrote { copy: Copy::Retry { aimed }, .. } => {
            if plan.shape.capabilities().groups && !aimed {
                return Err(Fault::of(message, "was sent to the queue again, where every group gets it"));
            }
        }
        Fact::Heard { by, of_letter, confirmed, .. } => match (of_letter, confirmed) {
            (true, true) => life.parked = true,
            (false, true) => life.achieved(*by),
            (true | false, false) => life.disturbed = true,
        },
        Fact::Began { attempt, .. } => {
            charges::attempt(plan, message, life, *attempt)?;
            life.attempts = life.attempts.max(*attempt);
        }
        Fact::Ended { by, how, .. } => match how {
            End::Handled => {
                life.handled += 1;
                life.achieved(*by);
            }
            End::Broken => {
                life.charges += 1;
                life.broken = true;
            }
            End::Failed | End::TimedOut | End::Panicked => life.charges += 1,
            End::FailedByShutdown | End::Dropped => {}
        },
        Fact::Settled { tag, .. } => drop(life.hands.remove(tag)),
        Fact::Sent(_)
        | Fact::Started { .. }
        | Fact::Stopping(_)
        | Fact::Stopped(_)
        | Fact::Crashed(_)
        | Fact::Note(_) => {}
    }
    Ok(())
}

/// Nothing is settled before what replaces it is safe.
fn told(message: Number, life: &Life, tag: u64, how: Settlement) -> Result<(), Fault> {
    match how {
        Settlement::Done => {
            let may_end = life.hands.get(&tag).is_some_and(|hand| hand.may_end);
            if may_end || life.parked {
                return Ok(());
            }
            Err(Fault::of(
                message,
                format!("is told as done (tag {tag}) and is neither handled nor safe elsewhere"),
            ))
        }
        Settlement::Again { .. } => Ok(()),
        Settlement::Refuse => {
            Err(Fault::of(message, "is refused: the broker would park it without its story"))
        }
    }
}
