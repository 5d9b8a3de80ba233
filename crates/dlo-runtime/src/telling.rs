//! Tells the office whether messages wait at the gates: when that changes, and again while they do.
//!
//! Looked at, not listened to: a gate opens for a probe by time alone, and an office that was told of it must know. The word
//! is repeated so that an office that was away learns it, and forgotten by the office when it is not.
//!
//! A report has two parts. `halted` is for replays: they send while the next message would go, be it as a probe. `paused` is for
//! people: it lasts until messages flow again, because a probe is no recovery.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::trouble::TroubleKind;
use tokio::time::{Instant, interval};

use crate::receipts::{Pause, Receipts, Standing};
use crate::shared::Shared;

/// How often the gates are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often a word is repeated; an office holds it for three times as long.
const REPEAT: Duration = Duration::from_secs(10);
/// How often a count of held messages is corrected.
const RECOUNT: Duration = Duration::from_secs(2);

/// Runs until the consumer shuts down; the last word takes back what was told before.
pub(crate) async fn tell(shared: Arc<Shared>, to: Arc<dyn Receipts>) {
    let instance = format!("{:016x}", rand::random::<u64>());
    let say = |halted: Option<String>, paused: Option<Pause>| {
        // Nothing waits before something came.
        let Some(queue) = shared.queue.get().cloned() else { return };
        let (consumer, instance) = (shared.letters.group.clone(), instance.clone());
        to.hear(Standing { queue, consumer, instance, halted, paused });
    };
    let mut told: Option<(Option<String>, Option<Pause>, Instant)> = None;
    let mut looks = interval(LOOK);
    loop {
        tokio::select! {
            biased;
            () = shared.shutdown.cancelled() => break,
            _ = looks.tick() => {}
        }
        let (halted, paused) = (shared.gates.in_the_way(), paused(&shared));
        let is_old = match &told {
            None => halted.is_some() || paused.is_some(),
            Some((said_halted, said_paused, at)) => {
                let reason =
                    |pause: &Option<Pause>| pause.as_ref().map(|pause| (pause.kind, pause.why.clone()));
                *said_halted != halted
                    || reason(said_paused) != reason(&paused)
                    || at.elapsed() >= REPEAT
                    || (*said_paused != paused && at.elapsed() >= RECOUNT)
            }
        };
        if is_old {
            say(halted.clone(), paused.clone());
            let waits = halted.is_some() || paused.is_some();
            told = waits.then(|| (halted, paused, Instant::now()));
        }
    }
    if told.is_some() {
        say(None, None);
    }
}

/// Why messages are held back: by a gate that is shut, or because letters cannot be written. Without messages nobody waits:
/// the next one would be the probe.
fn paused(shared: &Shared) -> Option<Pause> {
    let held = shared.room.unsettled();
    if held == 0 {
        return None;
    }
    let spooled = || {
        let letters = shared.room.on_disk();
        let why = format!("its dead-letter queue cannot be written, and {letters} letters wait on its disk");
        (letters > 0).then_some((TroubleKind::ConsumerSpooling, why))
    };
    let (kind, why) = shared.gates.shut().or_else(spooled)?;
    Some(Pause { kind, why, held })
}
