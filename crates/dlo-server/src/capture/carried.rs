//! Digests in doubt, by age: how often each, and which is forgotten first.
//!
//! Every crash adds rows of batches that were settled before it and will never come again. So the bound is held by
//! forgetting the oldest: what a crash left last is what the broker still has.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::window::Digest;

#[derive(Debug)]
pub(super) struct Carried {
    most: usize,
    next: u64,
    by_age: BTreeMap<u64, Digest>,
    /// The ages of each, the oldest first.
    ages: HashMap<Digest, VecDeque<u64>>,
}

impl Carried {
    pub(super) fn new(most: usize) -> Self {
        Self { most, next: 0, by_age: BTreeMap::new(), ages: HashMap::new() }
    }

    /// One more of this digest; past the bound the oldest of all goes. A second letter of that one is possible, which is
    /// the lesser evil beside growing without end.
    pub(super) fn add(&mut self, digest: Digest) {
        self.by_age.insert(self.next, digest);
        self.ages.entry(digest).or_default().push_back(self.next);
        self.next += 1;
        if self.by_age.len() > self.most
            && let Some(oldest) = self.by_age.values().next().copied()
        {
            self.take(oldest);
        }
    }

    /// Takes one of this digest, the oldest; `false` when there is none.
    pub(super) fn take(&mut self, digest: Digest) -> bool {
        let Some(ages) = self.ages.get_mut(&digest) else { return false };
        let age = ages.pop_front();
        if ages.is_empty() {
            self.ages.remove(&digest);
        }
        age.is_some_and(|age| self.by_age.remove(&age).is_some())
    }

    pub(super) fn by_age(&self) -> impl Iterator<Item = Digest> {
        self.by_age.values().copied()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.by_age.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.by_age.clear();
        self.ages.clear();
    }
}
