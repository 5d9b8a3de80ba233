//! What a message is charged: never for what was not its handler's doing, never more than the policy allows.

use dlo_core::brake::BrakeMode;
use dlo_core::reason::Reason;
use dlo_core::verdict::VerdictKind;
use dlo_runtime::{Behind, OrderBy};
use dlo_testkit::sim::{Letter, Number};

use super::{Fault, Life};
use crate::sim::plan::{Mood, Plan, Then};

/// The number of an attempt, as the handler is told.
pub(super) fn attempt(plan: &Plan, message: Number, life: &Life, attempt: u32) -> Result<(), Fault> {
    let allowed = plan.policy.retry.attempts.get();
    if attempt > allowed {
        return Err(Fault::of(message, format!("is tried for the {attempt}th time, of {allowed}")));
    }
    // The broker's count speaks where nobody remembers more; it never makes an attempt the last one.
    let counted = life.count.min(allowed.saturating_sub(1)).max(1);
    let most = life.charges + counted;
    if attempt > most {
        let charges = life.charges;
        return Err(Fault::of(
            message,
            format!("is at attempt {attempt} after {charges} failures, counted {counted}"),
        ));
    }
    if is_exact(plan, message, life) && attempt != life.charges + 1 {
        let charges = life.charges;
        return Err(Fault::of(message, format!("is at attempt {attempt} after exactly {charges} failures")));
    }
    Ok(())
}

/// Whether nothing but its own failures has happened to it: then nothing is forgotten, and nothing is free.
fn is_exact(plan: &Plan, message: Number, life: &Life) -> bool {
    let script = &plan.messages[message as usize];
    let free = script.then == Then::HandledByDatabase || life.broken || plan.broken.is_some();
    plan.mood == Mood::Calm && plan.policy.brake.mode != BrakeMode::Pause && !life.disturbed && !free
}

/// A letter, when it is written.
pub(super) fn letter(plan: &Plan, message: Number, life: &Life, letter: &Letter) -> Result<(), Fault> {
    let script = &plan.messages[message as usize];
    let fault = |what: String| Err(Fault::of(message, format!("{what}: {letter:?}")));
    if letter.key != script.key {
        return fault("lost its key on the way to the dead-letter queue".to_owned());
    }
    if let Some(known) = life.letters.iter().find(|known| known.death != letter.death) {
        return fault(format!("died once and has two deaths, the other is {:?}", known.death));
    }
    if !letter.is_recognised && life.letters.iter().any(|known| !known.is_recognised) {
        return fault("has a second letter that nobody recognises as one".to_owned());
    }
    if letter.death.is_none() {
        return fault("has a letter without a death".to_owned());
    }
    match letter.reason {
        Some(Reason::Poison) => return poison(plan, message, life),
        Some(Reason::Rejected) if plan.order != OrderBy::None && plan.behind == Behind::Park => return Ok(()),
        Some(_) | None => {}
    }
    let attempts = letter.attempts.unwrap_or(0);
    if attempts == 0 || attempts > life.attempts {
        return fault(format!("has a letter of {attempts} attempts, and the handler saw {}", life.attempts));
    }
    // A useless message may also have died of its retries before it came to that.
    if letter.verdict != VerdictKind::DeadLetter && script.then != Then::Useless {
        return fault("was dropped, and nobody said so".to_owned());
    }
    deserved(plan, message, life, letter)
}

/// The consumer did not survive it: often enough, with it in the handler.
fn poison(plan: &Plan, message: Number, life: &Life) -> Result<(), Fault> {
    let counted = plan.shape.capabilities().delivery_count && life.crashes_alone > 0;
    if life.crashes >= plan.policy.poison.crashes.get() || counted {
        return Ok(());
    }
    let (crashes, alone) = (life.crashes, life.crashes_alone);
    Err(Fault::of(message, format!("is parked as poison after {crashes} crashes, {alone} of them alone")))
}

/// It is parked for what its handler did, often enough.
fn deserved(plan: &Plan, message: Number, life: &Life, letter: &Letter) -> Result<(), Fault> {
    let script = &plan.messages[message as usize];
    let allowed = plan.policy.retry.attempts.get();
    // By the broker's count alone no attempt is the last one.
    let least = if plan.shape.capabilities().delivery_count { allowed.min(2) } else { allowed };
    let terminal = match script.then {
        Then::Handled | Then::HandledByDatabase => false,
        Then::Invalid | Then::Useless | Then::Panics => true,
    };
    let terminal = terminal || life.broken;
    let needed = if terminal && life.charges > 0 { 1 } else { least };
    if life.charges < needed {
        let charges = life.charges;
        let what = format!("is parked after {charges} failures, at least {needed} were needed: {letter:?}");
        return Err(Fault::of(message, what));
    }
    if !terminal && letter.attempts != Some(allowed) {
        let what = format!("is parked before its {allowed} attempts are over: {letter:?}");
        return Err(Fault::of(message, what));
    }
    Ok(())
}
