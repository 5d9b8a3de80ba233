//! How often letters may be replayed, by source: what `is:exhausted` is measured by.
//!
//! A text says only the words. Whoever knows the sources fills in their limits before the question is asked.

use std::collections::BTreeMap;

use super::{Matcher, Query};
use crate::replay::Settings;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplayLimits {
    pub by_source: BTreeMap<String, u32>,
    /// Of every other source.
    pub otherwise: u32,
}

impl Default for ReplayLimits {
    fn default() -> Self {
        Self { by_source: BTreeMap::new(), otherwise: Settings::default().limit }
    }
}

impl ReplayLimits {
    /// Whether a letter of `source` that was replayed so often is not replayed again.
    pub fn is_reached(&self, source: &str, replays: u32) -> bool {
        replays >= self.by_source.get(source).copied().unwrap_or(self.otherwise)
    }
}

impl Query {
    /// The same question, measured by these limits.
    #[must_use]
    pub fn with_limits(mut self, limits: &ReplayLimits) -> Self {
        for term in &mut self.terms {
            if let Matcher::Exhausted(own) = &mut term.matcher {
                own.clone_from(limits);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Timestamp;

    #[test]
    fn exhausted_is_measured_by_the_limit_of_the_source() {
        let limits = ReplayLimits { by_source: [("orders".to_owned(), 1)].into(), otherwise: 3 };
        let query = Query::parse("-is:exhausted", Timestamp::EPOCH).unwrap().with_limits(&limits);
        let Matcher::Exhausted(limits) = &query.terms[0].matcher else { panic!("{query:?}") };
        assert!(limits.is_reached("orders", 1) && !limits.is_reached("orders", 0));
        assert!(limits.is_reached("mail", 3) && !limits.is_reached("mail", 2));
        assert_eq!(query.to_string(), "-is:exhausted");
    }

    #[test]
    fn nothing_else_is_known_of_what_a_letter_is() {
        let bad = Query::parse("is:open", Timestamp::EPOCH).unwrap_err();
        assert!(bad.to_string().contains("exhausted"), "{bad}");
    }
}
