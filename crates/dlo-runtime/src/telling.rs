//! Tells the office whether messages wait at the gates: when that changes, and again while they do.
//!
//! Looked at, not listened to: a gate opens for a probe by time alone, and an office that was told of it must know. The word
//! is repeated so that an office that was away learns it, and forgotten by the office when it is not.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, interval};

use crate::receipts::{Receipts, Standing};
use crate::shared::Shared;

/// How often the gates are looked at.
const LOOK: Duration = Duration::from_millis(500);
/// How often a word is repeated; an office holds it for three times as long.
const REPEAT: Duration = Duration::from_secs(10);

/// Runs until the consumer shuts down; the last word takes back what was told before.
pub(crate) async fn tell(shared: Arc<Shared>, to: Arc<dyn Receipts>) {
    let instance = format!("{:016x}", rand::random::<u64>());
    let word = |halted: Option<String>| {
        // Nothing waits before something came.
        let queue = shared.queue.get()?.clone();
        let (consumer, instance) = (shared.letters.group.clone(), instance.clone());
        Some(Standing { queue, consumer, instance, halted })
    };
    let mut told: Option<(String, Instant)> = None;
    let mut looks = interval(LOOK);
    loop {
        tokio::select! {
            biased;
            () = shared.shutdown.cancelled() => break,
            _ = looks.tick() => {}
        }
        let halted = shared.gates.in_the_way();
        let known = told.as_ref().filter(|(_, at)| at.elapsed() < REPEAT).map(|(why, _)| why);
        if known == halted.as_ref() && (halted.is_some() || told.is_none()) {
            continue;
        }
        told = halted.clone().map(|why| (why, Instant::now()));
        word(halted).into_iter().for_each(|word| to.hear(word));
    }
    if told.is_some() {
        word(None).into_iter().for_each(|word| to.hear(word));
    }
}
