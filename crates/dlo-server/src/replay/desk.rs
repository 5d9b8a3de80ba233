//! The desk of the replays: where the API rings, and where each run says how it stands.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::id::ReplayId;
use dlo_core::replay::pace::Rate;
use dlo_core::time::Timestamp;
use tokio::sync::watch;

/// A consumer's word that it is paused holds this long: it says so again while it lasts.
const WORD: Duration = Duration::from_secs(30);

/// How a replay that this server has in hand stands, beside what is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// What it waits for, or why it is slow; for a person.
    pub waits: Option<String>,
    /// The rate now; `None`: no limit.
    pub rate: Rate,
}

#[derive(Debug)]
pub struct ReplayDesk {
    bell: watch::Sender<u64>,
    standing: Mutex<BTreeMap<ReplayId, Standing>>,
    /// By source: why its consumer is paused, and when it said so.
    halted: Mutex<BTreeMap<String, (String, Timestamp)>>,
}

impl Default for ReplayDesk {
    fn default() -> Self {
        Self { bell: watch::Sender::new(0), standing: Mutex::default(), halted: Mutex::default() }
    }
}

impl ReplayDesk {
    /// Something was changed by a person: look at once.
    pub fn ring(&self) {
        self.bell.send_modify(|rings| *rings += 1);
    }

    pub(super) fn listen(&self) -> watch::Receiver<u64> {
        self.bell.subscribe()
    }

    /// How a replay stands here; `None` if another server has it in hand, or nobody.
    pub fn standing(&self, id: ReplayId) -> Option<Standing> {
        lock(&self.standing).get(&id).cloned()
    }

    pub(super) fn stands(&self, id: ReplayId, standing: Standing) {
        lock(&self.standing).insert(id, standing);
    }

    pub(super) fn leaves(&self, id: ReplayId) {
        lock(&self.standing).remove(&id);
    }

    /// The consumer of a source says that it is paused (breaker, brake), or `None`: that it works.
    pub fn consumer_says(&self, source: &str, halted: Option<String>, now: Timestamp) {
        let mut all = lock(&self.halted);
        match halted {
            Some(why) => drop(all.insert(source.to_owned(), (why, now))),
            None => drop(all.remove(source)),
        }
    }

    pub(super) fn halted(&self, source: &str, now: Timestamp) -> Option<String> {
        let mut all = lock(&self.halted);
        all.retain(|_, (_, at)| now.since(*at) <= WORD);
        all.get(source).map(|(why, _)| why.clone())
    }
}

/// Maps are changed entry by entry, and stay readable after a panic of ours.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_of_a_consumer_holds_for_a_while() {
        let desk = ReplayDesk::default();
        let now = Timestamp::from_millis(1_793_534_400_000);
        desk.consumer_says("orders", Some("its breaker is open".to_owned()), now);
        assert_eq!(desk.halted("orders", now.plus(WORD)).as_deref(), Some("its breaker is open"));
        assert_eq!(desk.halted("orders", now.plus(WORD * 2)), None);
        desk.consumer_says("orders", Some("its breaker is open".to_owned()), now);
        desk.consumer_says("orders", None, now);
        assert_eq!(desk.halted("orders", now), None);
    }
}
