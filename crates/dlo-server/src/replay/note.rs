//! The note that a run keeps with its replay: what whoever takes over must know and cannot see from the items.

use std::collections::BTreeMap;

use dlo_core::broker::Position;
use dlo_core::replay::ItemCounts;
use dlo_core::replay::ItemState;
use dlo_core::time::Timestamp;
use serde::{Deserialize, Serialize};

/// Kept as JSON by [`Replays::mark`](dlo_store::replays::Replays::mark).
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Note {
    /// Every queue that something was sent to, and where it ended before, where queues are read back.
    pub(super) queues: BTreeMap<String, Vec<Place>>,
    /// What the guards have spoken about already: what a person let go on afterwards is judged anew.
    pub(super) judged: Judged,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Judged {
    pub(super) until: Option<Timestamp>,
    pub(super) sent: u64,
    pub(super) good: u64,
    pub(super) failed: u64,
}

impl Judged {
    pub(super) fn now(counts: &ItemCounts, sent: u64, now: Timestamp) -> Self {
        let (good, failed) = outcomes(counts);
        Self { until: Some(now), sent, good, failed }
    }
}

/// Good and bad ends so far. What is presumed is a good one here: a guard asks what is known to have failed.
pub(super) fn outcomes(counts: &ItemCounts) -> (u64, u64) {
    let good = counts.handled() + counts.get(ItemState::Presumed);
    (good, counts.failed_again())
}

/// A [`Position`] as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    incarnation: String,
    partition: i32,
    next: i64,
    mark: Option<String>,
}

impl From<Position> for Place {
    fn from(position: Position) -> Self {
        let Position { incarnation, partition, next, mark } = position;
        Self { incarnation, partition, next, mark }
    }
}

impl From<&Place> for Position {
    fn from(place: &Place) -> Self {
        let Place { incarnation, partition, next, mark } = place.clone();
        Self { incarnation, partition, next, mark }
    }
}

impl Note {
    /// A note that this version cannot read is as good as none: doubts are then left to the policy.
    pub(super) fn read(text: Option<&str>) -> Self {
        text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
    }

    pub(super) fn write(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_as_it_was_written_and_another_is_empty() {
        let place = Place { incarnation: "a".into(), partition: 3, next: 41, mark: None };
        let note = Note {
            queues: BTreeMap::from([("orders".to_owned(), vec![place])]),
            judged: Judged { until: Some(Timestamp::EPOCH), sent: 5, good: 2, failed: 3 },
        };
        assert_eq!(Note::read(Some(&note.write())), note);
        assert_eq!(Note::read(Some("{")), Note::default());
        assert_eq!(Note::read(None), Note::default());
    }
}
