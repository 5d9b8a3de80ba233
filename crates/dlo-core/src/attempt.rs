//! Attempts: which one this is, and the bounded memory of those before (B5).

use std::num::NonZeroU32;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::time::Timestamp;
use crate::verdict::VerdictKind;

/// Which try of a message this is, counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Attempt(NonZeroU32);

impl Attempt {
    pub const FIRST: Self = Self(NonZeroU32::MIN);

    /// The attempt of that number; zero is no attempt.
    pub const fn new(number: u32) -> Option<Self> {
        match NonZeroU32::new(number) {
            Some(number) => Some(Self(number)),
            None => None,
        }
    }

    pub const fn number(self) -> u32 {
        self.0.get()
    }

    #[must_use]
    pub const fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// One failed attempt, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AttemptRecord {
    pub number: u32,
    pub at: Timestamp,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error_class: Option<String>,
    /// Cut to [`limits::HISTORY_MESSAGE`] bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verdict: Option<VerdictKind>,
    /// How long the next try was put off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub delay_ms: Option<u64>,
}

impl AttemptRecord {
    /// The delay that was chosen.
    pub fn delay(&self) -> Option<Duration> {
        self.delay_ms.map(Duration::from_millis)
    }
}

/// The attempts of one message, bounded: the first one and the latest ones, with a count of all.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct History(Vec<AttemptRecord>);

impl History {
    /// Takes what is remembered elsewhere, in order; the middle is left out if it is too long.
    pub fn from_records(records: impl IntoIterator<Item = AttemptRecord>) -> Self {
        let mut history = Self::default();
        for record in records {
            history.push(record);
        }
        history
    }

    /// Adds one attempt. Past [`limits::HISTORY`] the oldest but the very first is forgotten.
    pub fn push(&mut self, mut record: AttemptRecord) {
        if let Some(message) = &mut record.message {
            limits::cut(message, limits::HISTORY_MESSAGE);
        }
        if let Some(class) = &mut record.error_class {
            limits::cut(class, limits::NAME);
        }
        if self.0.len() >= limits::HISTORY {
            self.0.remove(1);
        }
        self.0.push(record);
    }

    /// Forgets the oldest but the very first, to make a dead letter fit; `false` when nothing is left to forget.
    pub fn shrink(&mut self) -> bool {
        if self.0.len() > 2 {
            self.0.remove(1);
            return true;
        }
        self.0.pop().is_some()
    }

    pub fn records(&self) -> &[AttemptRecord] {
        &self.0
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(number: u32) -> AttemptRecord {
        let at = Timestamp::from_millis(i64::from(number));
        AttemptRecord {
            number,
            at,
            error_class: None,
            message: Some("x".repeat(1_000)),
            verdict: None,
            delay_ms: None,
        }
    }

    #[test]
    fn the_first_and_the_latest_attempts_are_remembered() {
        let history = History::from_records((1..=50).map(record));
        let numbers: Vec<u32> = history.records().iter().map(|r| r.number).collect();
        assert_eq!(numbers.len(), limits::HISTORY);
        assert_eq!((numbers[0], numbers[1], numbers[19]), (1, 32, 50));
    }

    #[test]
    fn a_remembered_message_is_cut() {
        let history = History::from_records([record(1)]);
        assert_eq!(history.records()[0].message.as_ref().map(String::len), Some(limits::HISTORY_MESSAGE));
    }
}
