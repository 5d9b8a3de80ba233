//! The desk of the replays: where the API rings, and where each run says how it stands.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::id::ReplayId;
use dlo_core::replay::pace::Rate;
use dlo_core::time::Timestamp;
use dlo_core::trouble::Trouble;
use tokio::sync::watch;

/// A consumer's word that it is paused holds this long: it says so again while it lasts.
const WORD: Duration = Duration::from_secs(30);
/// Words that are kept; beyond, the oldest is forgotten.
const MOST_WORDS: usize = 1_000;

/// How a replay that this server has in hand stands, beside what is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// Whether this server runs it; otherwise it cannot, and `waits` says why.
    pub runs: bool,
    /// What it waits for, or why it is slow; for a person.
    pub waits: Option<String>,
    /// Since when it sends nothing because of that; unset while it is only slow.
    pub stalled: Option<Timestamp>,
    /// The source of its letters, if they come from one. Set while it is stalled.
    pub source: Option<String>,
    /// The rate now; `None`: no limit.
    pub rate: Rate,
    /// How long its letters take from first failure to death, as far as the run looked. It is a sample of a thousand
    /// letters, which whoever watches a replay must not take from the store again with every look.
    pub usual: Option<Duration>,
}

/// One run of a consumer.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Speaker {
    pub queue: String,
    /// Its group.
    pub consumer: String,
    /// Which of those that share the group.
    pub instance: String,
}

#[derive(Debug)]
pub struct ReplayDesk {
    bell: watch::Sender<u64>,
    standing: Mutex<BTreeMap<ReplayId, Standing>>,
    /// Why consumers are paused, and when they said so.
    halted: Mutex<BTreeMap<Speaker, (String, Timestamp)>>,
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

    /// A replay that was stalled before is stalled since then.
    pub(crate) fn stands(&self, id: ReplayId, mut standing: Standing) {
        let mut all = lock(&self.standing);
        let before = all.get(&id).and_then(|before| before.stalled);
        standing.stalled = standing.stalled.map(|now| before.unwrap_or(now));
        all.insert(id, standing);
    }

    /// Replays that send nothing until something else works again.
    pub(crate) fn troubles(&self) -> Vec<Trouble> {
        let trouble = |(id, standing): (&ReplayId, &Standing)| {
            let why = standing.waits.as_deref().unwrap_or_default();
            Some(Trouble::replay(&id.to_string(), standing.source.as_deref(), standing.stalled?, why))
        };
        lock(&self.standing).iter().filter_map(trouble).collect()
    }

    /// Forgets how others stand: they are not to be run any more.
    pub(super) fn only(&self, active: &HashSet<ReplayId>) {
        lock(&self.standing).retain(|id, standing| standing.runs || active.contains(id));
    }

    pub(super) fn leaves(&self, id: ReplayId) {
        lock(&self.standing).remove(&id);
    }

    /// A consumer says that its messages wait (breaker, brake), or `None`: that they do not.
    pub fn consumer_says(&self, speaker: Speaker, halted: Option<String>, now: Timestamp) {
        let mut all = lock(&self.halted);
        all.retain(|_, (_, at)| now.since(*at) <= WORD);
        let before = all.get(&speaker).map(|(why, _)| why.clone());
        if before.is_none() && all.len() >= MOST_WORDS {
            let oldest = all.iter().min_by_key(|(_, (_, at))| *at).map(|(speaker, _)| speaker.clone());
            oldest.map(|oldest| all.remove(&oldest));
        }
        let changed = before != halted;
        match halted {
            Some(why) => drop(all.insert(speaker, (why, now))),
            None => drop(all.remove(&speaker)),
        }
        drop(all);
        if changed {
            self.ring();
        }
    }

    /// Why messages of these queues wait, as a consumer of the group says; of any group where none is named.
    pub(super) fn halted<'q>(
        &self,
        queues: impl Iterator<Item = &'q str> + Clone,
        group: Option<&str>,
        now: Timestamp,
    ) -> Option<String> {
        let all = lock(&self.halted);
        let concerns = |speaker: &Speaker| {
            group.is_none_or(|group| group == speaker.consumer)
                && queues.clone().any(|queue| queue == speaker.queue)
        };
        let holds = |at: Timestamp| now.since(at) <= WORD;
        all.iter().find(|(speaker, (_, at))| holds(*at) && concerns(speaker)).map(|(_, (why, _))| why.clone())
    }
}

/// Maps are changed entry by entry, and stay readable after a panic of ours.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_793_534_400_000);

    fn speaker(instance: impl Into<String>) -> Speaker {
        Speaker { queue: "orders".to_owned(), consumer: "pricing".to_owned(), instance: instance.into() }
    }

    fn open() -> Option<String> {
        Some("its breaker for tax is open".to_owned())
    }

    fn halted(desk: &ReplayDesk, queue: &str, group: Option<&str>, now: Timestamp) -> bool {
        desk.halted(std::iter::once(queue), group, now).is_some()
    }

    #[test]
    fn the_word_of_a_consumer_holds_for_a_while() {
        let desk = ReplayDesk::default();
        desk.consumer_says(speaker("1"), open(), NOW);
        assert!(halted(&desk, "orders", None, NOW.plus(WORD)));
        assert!(!halted(&desk, "orders", None, NOW.plus(WORD * 2)));
        desk.consumer_says(speaker("1"), None, NOW);
        assert!(!halted(&desk, "orders", None, NOW));
    }

    #[test]
    fn it_concerns_its_own_queue_and_group_and_each_instance_speaks_for_itself() {
        let desk = ReplayDesk::default();
        desk.consumer_says(speaker("1"), open(), NOW);
        desk.consumer_says(speaker("2"), None, NOW);
        assert!(halted(&desk, "orders", Some("pricing"), NOW));
        assert!(!halted(&desk, "orders", Some("mail"), NOW) && !halted(&desk, "refunds", None, NOW));
    }

    #[test]
    fn words_of_consumers_without_end_take_no_more_memory_and_the_newest_are_kept() {
        let desk = ReplayDesk::default();
        for n in 0..3 * MOST_WORDS as u64 {
            desk.consumer_says(speaker(n.to_string()), open(), NOW.plus(Duration::from_millis(n)));
        }
        let kept = lock(&desk.halted);
        assert_eq!(kept.len(), MOST_WORDS);
        assert!(kept.contains_key(&speaker((3 * MOST_WORDS - 1).to_string())));
    }

    #[test]
    fn whoever_has_a_replay_in_hand_is_rung_when_a_word_is_new_and_not_when_it_is_repeated() {
        let desk = ReplayDesk::default();
        let mut bell = desk.listen();
        desk.consumer_says(speaker("1"), open(), NOW);
        assert!(bell.has_changed().unwrap());
        bell.mark_unchanged();
        desk.consumer_says(speaker("1"), open(), NOW.plus(Duration::from_secs(1)));
        assert!(!bell.has_changed().unwrap());
        desk.consumer_says(speaker("1"), None, NOW.plus(Duration::from_secs(2)));
        assert!(bell.has_changed().unwrap());
    }
}
