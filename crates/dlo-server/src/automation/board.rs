//! What is shown of the rules: how many letters each has dealt with, when it looked, what is next, what went wrong.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlo_core::automation::AutomationRule;
use dlo_core::time::Timestamp;
use dlo_store::StoreError;
use serde::Serialize;

#[derive(Debug, Default)]
pub(crate) struct AutomationBoard(Mutex<BTreeMap<String, Seen>>);

#[derive(Debug, Clone, Default)]
struct Seen {
    letters: u64,
    looked_at: Option<Timestamp>,
    next_at: Option<Timestamp>,
    waits_for: Option<String>,
    error: Option<String>,
}

/// One rule as the API shows it. Counts are of this process.
#[derive(Debug, Serialize)]
pub(crate) struct RuleStatus<'a> {
    #[serde(flatten)]
    pub(crate) rule: &'a AutomationRule,
    /// Letters that it has dealt with since this server started.
    pub(crate) letters: u64,
    pub(crate) looked_at: Option<Timestamp>,
    /// When the next letter is due, for a rule that replays.
    pub(crate) next_at: Option<Timestamp>,
    /// What it waits for: an approval, a health check, a replay that stopped.
    pub(crate) waits_for: Option<String>,
    pub(crate) error: Option<String>,
}

impl AutomationBoard {
    fn seen(&self) -> MutexGuard<'_, BTreeMap<String, Seen>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn looked(&self, rule: &str, now: Timestamp, error: Option<&StoreError>) {
        let mut seen = self.seen();
        let rule = seen.entry(rule.to_string()).or_default();
        rule.looked_at = Some(now);
        rule.error = error.map(ToString::to_string);
    }

    pub(super) fn did(&self, rule: &str, letters: u64) {
        self.seen().entry(rule.to_string()).or_default().letters += letters;
    }

    pub(super) fn plans(&self, rule: &str, next_at: Option<Timestamp>, waits_for: Option<String>) {
        let mut seen = self.seen();
        let rule = seen.entry(rule.to_string()).or_default();
        (rule.next_at, rule.waits_for) = (next_at, waits_for);
    }

    pub(crate) fn all<'a>(&self, rules: &'a [AutomationRule]) -> Vec<RuleStatus<'a>> {
        let seen = self.seen();
        let status = |rule: &'a AutomationRule| {
            let Seen { letters, looked_at, next_at, waits_for, error } =
                seen.get(&rule.name).cloned().unwrap_or_default();
            RuleStatus { rule, letters, looked_at, next_at, waits_for, error }
        };
        rules.iter().map(status).collect()
    }
}
