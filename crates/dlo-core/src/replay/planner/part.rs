//! One part of a plan: the members with one cause, and what is said about them.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use super::super::{MOST_KINDS, PlannedKind};
use super::Entry;
use super::kinds::Known;
use crate::id::LetterId;
use crate::time::Timestamp;

/// A cause that brought failures this recently may still be active.
const RECENTLY: Duration = Duration::from_secs(5 * 60);

/// Members with one cause.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub source: String,
    pub error_class: Option<String>,
    /// Where they have it in common.
    pub event_type: Option<String>,
    /// Letters of one key go in their order.
    pub order: bool,
    pub by_class: Vec<PlannedKind>,
    pub doubts: Vec<String>,
    /// Oldest failure first.
    pub members: Vec<Member>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    pub letter: LetterId,
    /// Stands for its key, where order matters.
    pub lane: Option<i64>,
    /// An earlier member has the same lane.
    pub waits: bool,
}

/// A part that is being put together.
#[derive(Debug)]
pub(super) struct Draft {
    part: Part,
    several_types: bool,
    kinds: HashMap<usize, PlannedKind>,
    lanes: HashSet<i64>,
    recent: u64,
    replayed: u64,
}

impl Draft {
    pub(super) fn new(kind: &Known, order: bool) -> Self {
        let part = Part {
            source: kind.source.clone(),
            error_class: kind.error_class.clone(),
            event_type: kind.event_type.clone(),
            order,
            by_class: Vec::new(),
            doubts: Vec::new(),
            members: Vec::new(),
        };
        let (kinds, lanes) = (HashMap::new(), HashSet::new());
        Self { part, several_types: false, kinds, lanes, recent: 0, replayed: 0 }
    }

    pub(super) fn add(&mut self, entry: &Entry, kind: &Known, now: Timestamp) {
        let waits = entry.lane.is_some_and(|lane| !self.lanes.insert(lane));
        self.part.members.push(Member { letter: entry.letter, lane: entry.lane, waits });
        self.several_types |= self.part.event_type != kind.event_type;
        self.recent += u64::from(now.since(entry.failed_at) < RECENTLY);
        self.replayed += u64::from(entry.replayed);
        let counted = self.kinds.entry(entry.kind).or_insert_with(|| kind.planned(entry.failed_at));
        counted.count += 1;
        counted.oldest = counted.oldest.min(entry.failed_at);
        counted.newest = counted.newest.max(entry.failed_at);
    }

    pub(super) fn finish(mut self) -> Part {
        if self.several_types {
            self.part.event_type = None;
        }
        self.part.by_class = largest(self.kinds.into_values());
        if self.recent > 0 {
            let recent = self.recent;
            let doubt =
                format!("the cause may still be active: {recent} of these failed within the last 5 minutes");
            self.part.doubts.push(doubt);
        }
        if self.replayed > 0 {
            let died = if self.replayed == 1 { "letter died" } else { "letters died" };
            self.part.doubts.push(format!("{} {died} before: replayed already", self.replayed));
        }
        self.part
    }
}

/// The largest kinds first, as many as are shown.
pub fn largest(kinds: impl Iterator<Item = PlannedKind>) -> Vec<PlannedKind> {
    let mut kinds: Vec<PlannedKind> = kinds.collect();
    kinds.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.oldest.cmp(&b.oldest)));
    kinds.truncate(MOST_KINDS);
    kinds
}
