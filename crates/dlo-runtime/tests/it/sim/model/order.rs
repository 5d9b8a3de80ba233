//! Order of a key, where it was asked for: what was sent later is not done before what was sent earlier is.
//!
//! Repeats are allowed: what was done may come again and be done again. A message whose end is decided may be overtaken
//! while its letter is on the way; one that goes to the handler once more after that was not at its end. Where what is behind is
//! parked it may lie in the dead-letter queue first, but it is not handled first.

use dlo_runtime::{Behind, OrderBy};
use dlo_testkit::sim::{Copy, End, Fact, Number};

use super::{Fault, Life};
use crate::sim::plan::Plan;

pub(super) fn check(plan: &Plan, message: Number, lives: &mut [Life], fact: &Fact) -> Result<(), Fault> {
    let script = &plan.messages[message as usize];
    if plan.order == OrderBy::None || script.key.is_none() {
        return Ok(());
    }
    let is_end = match fact {
        Fact::Began { .. } => return goes_on(message, &lives[message as usize]),
        Fact::Ended { how: End::Handled, .. } => true,
        Fact::Wrote { copy: Copy::Letter(_), .. } => plan.behind == Behind::Wait,
        _ => false,
    };
    if !is_end {
        return Ok(());
    }
    for ((number, other), life) in (0..).zip(&plan.messages).zip(lives) {
        let before = (other.sent, number) < (script.sent, message);
        if other.key == script.key && before && !life.is_done() {
            life.overtaken_by.get_or_insert(message);
        }
    }
    Ok(())
}

fn goes_on(message: Number, life: &Life) -> Result<(), Fault> {
    match life.overtaken_by.filter(|_| !life.is_done()) {
        Some(later) => {
            Err(Fault::of(message, format!("is tried again after #{later} of its key was done, sent later")))
        }
        None => Ok(()),
    }
}
