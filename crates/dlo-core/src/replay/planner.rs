//! Which letters become members of a plan, and of which part of it. Pure: a store hands in candidates, oldest failure first.
//!
//! Two passes. While candidates come in, each is judged by itself ([`Planner::offer`]). What needs the whole view is
//! decided at the end ([`Planner::finish`]): whether a later message of the same key was recovered, and whether a key has
//! letters in several classes. Some fifty bytes are held for each candidate, and no more than [`MOST_MEMBERS`] are taken.

mod kinds;
mod part;
mod refusal;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sha2::{Digest, Sha256};

use super::{Excluded, Exclusion, Settings};
use crate::id::{LetterId, ReplayId};
use crate::letter::Status;
use crate::message::Headers;
use crate::time::Timestamp;

pub use kinds::Kind;
use kinds::Kinds;
use part::Draft;
pub use part::{Member, Part, largest};
pub use refusal::{PlanRefusal, PlannerIdentity};

/// Letters of one plan at most.
pub const MOST_MEMBERS: usize = 1_000_000;

/// What the office allows of a plan.
#[derive(Debug, Clone, Default)]
pub struct PlanPolicy {
    /// By source; a source that is not here has no broker, and its letters are excluded as without target.
    pub sources: BTreeMap<String, SourcePolicy>,
    /// Plans of more letters than this need one approval more.
    pub large: Option<u64>,
    /// Larger payloads are left out.
    pub max_payload: Option<u64>,
    /// How the letters of a source are sent; those of a source that is not here as the plan says.
    pub settings: BTreeMap<String, Settings>,
    /// Letters that may repeat another one are members too.
    pub include_suspected: bool,
    /// Nothing is written of a plan without members; it is answered all the same.
    pub unless_empty: bool,
    /// Who makes the plan.
    pub planner: PlannerIdentity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SourcePolicy {
    /// Persons, other than the planner, who must approve.
    pub approvals: u8,
    /// Order per key matters: superseded letters and keys that span classes are held back.
    pub order: bool,
    /// What is in doubt there is for a person and never sent again.
    pub critical: bool,
    /// Its broker tells how much its queue gets, so that a share of it can be asked for.
    pub counts_traffic: bool,
}

/// A letter that matches.
#[derive(Debug, Clone, Copy)]
pub struct Candidate<'a> {
    pub letter: LetterId,
    pub kind: Kind<'a>,
    pub key: Option<&'a [u8]>,
    pub status: Status,
    /// See [`is_pointer`].
    pub pointer: bool,
    /// See [`Suspect::is_left_out`](crate::suspect::Suspect::is_left_out).
    pub suspected: bool,
    pub payload_size: u64,
    pub replays: u32,
    pub failed_at: Timestamp,
}

/// More letters match than a plan may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "more than {MOST_MEMBERS} letters match, which is the most for one plan; narrow the query, for example by `failed:`"
)]
pub struct TooMany;

/// A plan that is decided.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// One for each source and class, in the order of their oldest letter.
    pub parts: Vec<Part>,
    pub excluded: Vec<Excluded>,
    pub approvals_needed: u8,
}

/// Whether a letter is only a pointer to a record that could not be fetched: there is nothing to send.
pub fn is_pointer(headers: &Headers) -> bool {
    headers.text("dlo-record").is_some_and(|what| what != "fetched")
}

/// What stands for a key in the order of a replay. Two keys that share it wait for each other without need; no more.
pub fn lane(key: &[u8]) -> i64 {
    let hash = Sha256::digest(key);
    hash.iter().take(8).fold(0_i64, |lane, byte| (lane << 8) | i64::from(*byte))
}

/// A candidate that was taken.
#[derive(Debug)]
struct Entry {
    letter: LetterId,
    kind: usize,
    lane: Option<i64>,
    failed_at: Timestamp,
    replayed: bool,
}

/// Decides about a plan; see the head of the file.
#[derive(Debug)]
pub struct Planner<'p> {
    policy: &'p PlanPolicy,
    settings: &'p Settings,
    now: Timestamp,
    kinds: Kinds,
    entries: Vec<Entry>,
    excluded: BTreeMap<Exclusion, u64>,
    held_by: Option<ReplayId>,
    /// The latest failure of a recovered letter, by source and lane.
    recovered: HashMap<String, HashMap<i64, Timestamp>>,
}

impl<'p> Planner<'p> {
    pub fn new(policy: &'p PlanPolicy, settings: &'p Settings, now: Timestamp) -> Self {
        Self {
            policy,
            settings,
            now,
            kinds: Kinds::default(),
            entries: Vec::new(),
            excluded: BTreeMap::new(),
            held_by: None,
            recovered: HashMap::new(),
        }
    }

    /// Counts letters that are left out without being looked at.
    pub fn exclude(&mut self, why: Exclusion, count: u64) {
        if count > 0 {
            *self.excluded.entry(why).or_default() += count;
        }
    }

    /// Names a replay that has candidates in hand.
    pub fn held_by(&mut self, replay: Option<ReplayId>) {
        self.held_by = replay;
    }

    /// Takes the next candidate, not older than the one before.
    pub fn offer(&mut self, candidate: &Candidate<'_>) -> Result<(), TooMany> {
        if let Some(why) = self.judge(candidate) {
            self.exclude(why, 1);
            return Ok(());
        }
        if self.entries.len() >= MOST_MEMBERS {
            return Err(TooMany);
        }
        let ordered = self.keeps_order(candidate.kind.source);
        self.entries.push(Entry {
            letter: candidate.letter,
            kind: self.kinds.number(&candidate.kind),
            lane: candidate.key.filter(|_| ordered).map(lane),
            failed_at: candidate.failed_at,
            replayed: candidate.replays > 0,
        });
        Ok(())
    }

    fn judge(&self, candidate: &Candidate<'_>) -> Option<Exclusion> {
        if candidate.status == Status::Claimed {
            Some(Exclusion::Held)
        } else if candidate.status != Status::Open {
            Some(Exclusion::NotOpen)
        } else if !self.policy.sources.contains_key(candidate.kind.source) {
            Some(Exclusion::NoTarget)
        } else if candidate.pointer {
            Some(Exclusion::PointerOnly)
        } else if candidate.suspected && !self.policy.include_suspected {
            Some(Exclusion::Suspected)
        } else if self.policy.max_payload.is_some_and(|most| candidate.payload_size > most) {
            Some(Exclusion::TooLarge)
        } else if candidate.replays >= self.settings_of(candidate.kind.source).limit {
            Some(Exclusion::Exhausted)
        } else {
            None
        }
    }

    fn settings_of(&self, source: &str) -> &Settings {
        self.policy.settings.get(source).unwrap_or(self.settings)
    }

    /// Whether letters of one key go in their order: where the source or the plan asks for it.
    fn keeps_order(&self, source: &str) -> bool {
        self.settings_of(source).order || self.holds_back(source)
    }

    /// Whether the source itself asks for order, so that letters are held back for it.
    fn holds_back(&self, source: &str) -> bool {
        self.policy.sources.get(source).is_some_and(|policy| policy.order)
    }

    /// The sources of which recovered letters are to be told by [`Planner::recovered`] before the plan is finished.
    pub fn asks_for_recovered(&self) -> BTreeSet<String> {
        let keyed: HashSet<usize> =
            self.entries.iter().filter(|entry| entry.lane.is_some()).map(|entry| entry.kind).collect();
        let sources = keyed.into_iter().map(|kind| &self.kinds.get(kind).source);
        sources.filter(|source| self.holds_back(source)).cloned().collect()
    }

    /// A letter of this source and key is recovered.
    pub fn recovered(&mut self, source: &str, key: &[u8], failed_at: Timestamp) {
        if !self.recovered.contains_key(source) {
            self.recovered.insert(source.to_string(), HashMap::new());
        }
        if let Some(lanes) = self.recovered.get_mut(source) {
            let latest = lanes.entry(lane(key)).or_insert(failed_at);
            *latest = (*latest).max(failed_at);
        }
    }

    /// Decides what needs the whole view, and whether the plan is allowed.
    pub fn finish(mut self) -> Result<Plan, PlanRefusal> {
        self.leave_out_superseded();
        self.leave_out_spanning();
        let parts = self.parts();
        let approvals_needed = self.approvals_needed(&parts);
        self.policy.planner.check(approvals_needed)?;
        for part in &parts {
            self.policy.check(&part.source, self.settings_of(&part.source))?;
        }
        let held_by = |why: Exclusion| self.held_by.filter(|_| why == Exclusion::Held);
        let excluded = self.excluded.into_iter();
        let excluded = excluded.map(|(why, count)| Excluded { why, count, held_by: held_by(why) }).collect();
        Ok(Plan { parts, excluded, approvals_needed })
    }

    /// A later message of the key was recovered: sending an older one behind it would undo what it did.
    fn leave_out_superseded(&mut self) {
        if self.recovered.is_empty() {
            return;
        }
        let before = self.entries.len();
        let (kinds, recovered) = (&self.kinds, &self.recovered);
        self.entries.retain(|entry| {
            let lanes = recovered.get(&kinds.get(entry.kind).source);
            let latest = lanes.zip(entry.lane).and_then(|(lanes, lane)| lanes.get(&lane));
            latest.is_none_or(|latest| *latest <= entry.failed_at)
        });
        self.exclude(Exclusion::Superseded, (before - self.entries.len()) as u64);
    }

    /// Parts run one after the other, so that a key with letters in several of them would lose its order.
    fn leave_out_spanning(&mut self) {
        let held: HashSet<usize> =
            (0..self.kinds.len()).filter(|kind| self.holds_back(&self.kinds.get(*kind).source)).collect();
        // The part that has a key, and `None` once there are several. Keys of different sources are different ones.
        let mut parts: HashMap<(&str, i64), Option<usize>> = HashMap::new();
        for entry in self.entries.iter().filter(|entry| held.contains(&entry.kind)) {
            let (kind, Some(lane)) = (self.kinds.get(entry.kind), entry.lane) else { continue };
            let part = parts.entry((&kind.source, lane)).or_insert(Some(kind.part));
            if *part != Some(kind.part) {
                *part = None;
            }
        }
        let before = self.entries.len();
        let kinds = &self.kinds;
        self.entries.retain(|entry| {
            let key = entry.lane.map(|lane| (kinds.get(entry.kind).source.as_str(), lane));
            key.and_then(|key| parts.get(&key)).is_none_or(Option::is_some)
        });
        self.exclude(Exclusion::KeySpansClasses, (before - self.entries.len()) as u64);
    }

    fn parts(&self) -> Vec<Part> {
        let mut drafts: Vec<Draft> = Vec::new();
        let mut places: HashMap<usize, usize> = HashMap::new();
        for entry in &self.entries {
            let kind = self.kinds.get(entry.kind);
            let at = *places.entry(kind.part).or_insert_with(|| {
                drafts.push(Draft::new(kind, self.keeps_order(&kind.source)));
                drafts.len() - 1
            });
            drafts[at].add(entry, kind, self.now);
        }
        drafts.into_iter().map(Draft::finish).collect()
    }

    fn approvals_needed(&self, parts: &[Part]) -> u8 {
        let policies = parts.iter().filter_map(|part| self.policy.sources.get(&part.source));
        let mut needed = policies.map(|policy| policy.approvals).max().unwrap_or(0);
        // Where anything at all is approved, a changed message is.
        if self.settings.repair.is_some() && self.policy.sources.values().any(|policy| policy.approvals > 0) {
            needed = needed.max(1);
        }
        let total: usize = parts.iter().map(|part| part.members.len()).sum();
        if self.policy.large.is_some_and(|large| total as u64 > large) {
            needed = needed.saturating_add(1);
        }
        needed
    }
}
