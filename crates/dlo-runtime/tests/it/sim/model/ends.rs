//! Where every message ended: one place, unless something explains a second.

use dlo_core::brake::BrakeMode;
use dlo_testkit::sim::Number;

use super::{Fault, Life};
use crate::sim::plan::Plan;

pub(super) fn check(plan: &Plan, message: Number, life: &Life) -> Result<(), Fault> {
    let (handled, letters) = (life.handled, life.letters.len());
    if handled == 0 && letters == 0 {
        return Err(Fault::of(message, "is lost: neither handled nor in the dead-letter queue"));
    }
    if !life.disturbed && handled as usize + letters > 1 {
        let what = format!("was handled {handled} times and parked {letters} times, and nothing explains it");
        return Err(Fault::of(message, what));
    }
    let allowed = plan.policy.retry.attempts.get();
    let braked = plan.policy.brake.mode == BrakeMode::Pause || plan.database_down.is_some();
    if !life.disturbed && plan.places == 1 && plan.is_quiet() && !braked && life.charges > allowed {
        let charges = life.charges;
        return Err(Fault::of(message, format!("failed {charges} times; {allowed} attempts were allowed")));
    }
    Ok(())
}
