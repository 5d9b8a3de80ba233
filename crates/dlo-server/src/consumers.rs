//! Which consumers hold messages back, as their runtimes report it: for the list of troubles.
//!
//! A report holds for half a minute; the runtime repeats it every ten seconds while it lasts, and takes it back at once.
//! Reports are kept in memory by the server that gets them.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::time::Timestamp;
use dlo_core::trouble::{Trouble, TroubleKind};

use crate::replay::Speaker;

/// How long a report holds without being repeated.
const HOLDS: Duration = Duration::from_secs(30);
/// Reports that are kept; beyond, the oldest is forgotten.
const MOST: usize = 1_000;

/// What a consumer says of its pause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PauseReport {
    pub(crate) kind: TroubleKind,
    pub(crate) why: String,
    /// Messages that it has received and not settled.
    pub(crate) held: u64,
}

#[derive(Debug)]
struct Entry {
    report: PauseReport,
    since: Timestamp,
    said: Timestamp,
}

/// The consumers that hold messages back.
#[derive(Debug, Default)]
pub(crate) struct ConsumerBoard(Mutex<BTreeMap<Speaker, Entry>>);

impl ConsumerBoard {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<Speaker, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `report`: `None` if the consumer lets messages through.
    pub(crate) fn record(&self, speaker: Speaker, report: Option<PauseReport>, now: Timestamp) {
        let mut entries = self.entries();
        entries.retain(|_, entry| now.since(entry.said) <= HOLDS);
        let Some(report) = report else {
            entries.remove(&speaker);
            return;
        };
        if entries.len() >= MOST && !entries.contains_key(&speaker) {
            let oldest = entries.iter().min_by_key(|(_, entry)| entry.said).map(|(oldest, _)| oldest.clone());
            oldest.map(|oldest| entries.remove(&oldest));
        }
        let since = entries.get(&speaker).map_or(now, |entry| entry.since);
        entries.insert(speaker, Entry { report, since, said: now });
    }

    /// One trouble for each group of a queue and kind; instances that share the group are added up.
    pub(crate) fn troubles(&self, now: Timestamp) -> Vec<Trouble> {
        let mut groups: BTreeMap<(String, String, TroubleKind), (u64, Timestamp, String)> = BTreeMap::new();
        for (speaker, Entry { report, since, said }) in &*self.entries() {
            if now.since(*said) > HOLDS {
                continue;
            }
            let key = (speaker.queue.clone(), speaker.consumer.clone(), report.kind);
            let sum = groups.entry(key).or_insert_with(|| (0, *since, report.why.clone()));
            sum.0 += report.held;
            sum.1 = sum.1.min(*since);
        }
        let trouble = |((queue, group, kind), (held, since, why)): ((String, String, _), (_, _, String))| {
            Trouble::consumer(kind, (&group, &queue), held, since, &why)
        };
        groups.into_iter().map(trouble).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_millis(1_793_534_400_000);

    fn speaker(instance: impl Into<String>) -> Speaker {
        Speaker { queue: "orders".to_owned(), consumer: "pricing".to_owned(), instance: instance.into() }
    }

    fn braked(held: u64) -> Option<PauseReport> {
        Some(PauseReport { kind: TroubleKind::ConsumerBraked, why: "HTTP 404".to_owned(), held })
    }

    #[test]
    fn instances_of_a_group_are_one_trouble_since_the_first_of_them() {
        let board = ConsumerBoard::default();
        board.record(speaker("1"), braked(40), NOW);
        board.record(speaker("2"), braked(20), NOW.plus(Duration::from_secs(5)));
        board.record(speaker("1"), braked(41), NOW.plus(Duration::from_secs(10)));
        let troubles = board.troubles(NOW.plus(Duration::from_secs(12)));
        let [trouble] = &troubles[..] else { panic!("{troubles:?}") };
        assert_eq!(
            (trouble.since, trouble.title.as_str()),
            (NOW, "Consumer pricing of orders holds back 61 messages")
        );
        board.record(speaker("1"), None, NOW.plus(Duration::from_secs(13)));
        board.record(speaker("2"), None, NOW.plus(Duration::from_secs(13)));
        assert_eq!(board.troubles(NOW.plus(Duration::from_secs(13))), []);
    }

    #[test]
    fn a_consumer_that_falls_silent_is_forgotten_and_many_take_no_more_memory() {
        let board = ConsumerBoard::default();
        board.record(speaker("1"), braked(1), NOW);
        assert_eq!(board.troubles(NOW.plus(HOLDS)).len(), 1);
        assert_eq!(board.troubles(NOW.plus(HOLDS * 2)), []);
        for n in 0..3 * MOST as u64 {
            board.record(speaker(n.to_string()), braked(1), NOW.plus(Duration::from_millis(n)));
        }
        assert_eq!(board.entries().len(), MOST);
        assert!(board.entries().contains_key(&speaker((3 * MOST - 1).to_string())));
    }
}
