//! Splitting a group by a condition: what may be asked, and what is remembered of it.
//!
//! A condition is held against a letter once, when it is stored, and the letter goes to its group for good. So it may ask only
//! for what is known by then and stays: a letter that is resolved, aged or given to another team does not change its group.

use serde::Serialize;

use crate::id::GroupId;
use crate::limits;
use crate::query::{Matcher, Query, QueryError};
use crate::time::Timestamp;

/// What made a group out of the letters of another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SplitOff {
    /// The group whose letters they were.
    pub from: GroupId,
    /// What they have in common, as it was written.
    pub condition: String,
    /// What somebody called it.
    pub title: Option<String>,
}

/// A query that a letter answers once and for all.
#[derive(Debug, Clone, PartialEq)]
pub struct Condition {
    text: String,
    query: Query,
}

/// Why a query cannot split a group.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConditionError {
    #[error("say which letters are split off, such as `payload.country:CH`")]
    Empty,
    #[error("a condition has at most {} characters, this one has {length}", limits::SPLIT_CONDITION)]
    TooLong { length: usize },
    #[error("{0}")]
    Query(#[from] QueryError),
    #[error(
        "`{term}` cannot split a group: {why}; a condition is held against a letter once, when it is stored"
    )]
    Unsteady { term: String, why: &'static str },
}

impl Condition {
    /// Reads a condition. What is refused is named, with the reason.
    pub fn parse(text: &str) -> Result<Self, ConditionError> {
        let text = text.trim();
        let length = text.chars().count();
        if length > limits::SPLIT_CONDITION {
            return Err(ConditionError::TooLong { length });
        }
        let query = Query::parse(text, Timestamp::EPOCH)?;
        // What is another moment when it is asked a day later is an age; the others are dates.
        let later = Query::parse(text, Timestamp::from_millis(24 * 60 * 60 * 1_000))?;
        for (term, later) in query.terms.iter().zip(&later.terms) {
            let aged = (term != later).then_some("an age grows");
            if let Some(why) = aged.or_else(|| unsteady(&term.matcher)) {
                let term = if aged.is_some() { "age:".to_string() } else { term.to_string() };
                return Err(ConditionError::Unsteady { term, why });
            }
        }
        if query.terms.is_empty() {
            return Err(ConditionError::Empty);
        }
        Ok(Self { text: text.to_string(), query })
    }

    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    pub fn query(&self) -> &Query {
        &self.query
    }
}

/// Why a letter may answer differently later; `None`: it does not.
fn unsteady(matcher: &Matcher) -> Option<&'static str> {
    match matcher {
        Matcher::Status(_) => Some("a status changes with every step"),
        Matcher::Owner(_) => Some("an owner changes by hand and by rules"),
        Matcher::Group(_) => Some("which group a letter is in is what the condition decides"),
        Matcher::Id(_) => Some("an id is that of one letter, and none that comes later has it"),
        Matcher::Replays(_) => Some("replays are counted after a letter was stored"),
        Matcher::Exhausted(_) => Some("it depends on replays and on the rules of today"),
        Matcher::Expiring(_) => Some("it depends on the clock and on the rules of today"),
        Matcher::Suspected(_) => Some("it depends on the letters that were there first"),
        Matcher::Source(_)
        | Matcher::Queue(_)
        | Matcher::Type(_)
        | Matcher::Class(_)
        | Matcher::Consumer(_)
        | Matcher::Broker(_)
        | Matcher::Partition(_)
        | Matcher::Offset(_)
        | Matcher::Version(_)
        | Matcher::Reason(_)
        | Matcher::Verdict(_)
        | Matcher::Rule(_)
        | Matcher::Code(_)
        | Matcher::ConsumerId(_)
        | Matcher::Attempts(_)
        | Matcher::Size(_)
        | Matcher::Failed(_)
        | Matcher::Captured(_)
        | Matcher::Key(_)
        | Matcher::Correlation(_)
        | Matcher::Message(_)
        | Matcher::Trace(_)
        | Matcher::Header { .. }
        | Matcher::Payload { .. }
        | Matcher::Text(_)
        | Matcher::Hidden(_)
        | Matcher::Shown { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::group;
    use super::*;

    #[test]
    fn what_is_known_when_a_letter_is_stored_may_split_a_group() {
        for text in [
            "payload.country:CH",
            " header.x-tenant:acme -key:C-1 ",
            "\"no rate\"",
            "failed:>2026-11-01T00:00:00Z captured:2026-11-02",
            "class:A queue:q attempts:>3 code:E7 size:>1kb",
        ] {
            let condition = Condition::parse(text).unwrap();
            assert_eq!(condition.as_str(), text.trim());
            assert!(!condition.query().terms.is_empty(), "{text}");
        }
    }

    #[test]
    fn what_changes_later_is_refused_by_name_and_reason() {
        for (text, named) in [
            ("status:open", "`status:open`"),
            ("payload.a:1 -owner:tax", "`-owner:tax`"),
            ("replays:>1", "`replays:>1`"),
            ("is:expiring", "`is:expiring`"),
            ("is:exhausted", "`is:exhausted`"),
            ("is:suspected_return", "`is:suspected_return`"),
            ("age:>2h", "`age:`"),
            ("group:018f4e7e-0000-7000-8000-000000000001", "`group:"),
            ("id:018f4e7e-0000-7000-8000-000000000001", "`id:"),
        ] {
            let refused = Condition::parse(text).unwrap_err().to_string();
            assert!(
                refused.starts_with(named) && refused.contains("held against a letter once"),
                "{refused}"
            );
        }
        assert_eq!(Condition::parse("  "), Err(ConditionError::Empty));
        assert!(matches!(Condition::parse("nofield:x"), Err(ConditionError::Query(_))));
        let long = "x".repeat(limits::SPLIT_CONDITION + 1);
        assert!(matches!(Condition::parse(&long), Err(ConditionError::TooLong { .. })));
    }

    #[test]
    fn a_group_that_was_split_off_says_so_in_its_title_and_in_why() {
        let split = |title: Option<&str>| {
            let from = group("orders", 1).id;
            let condition = "payload.country:CH".to_string();
            super::super::Group {
                error_class: Some("NoRate".into()),
                split: Some(SplitOff { from, condition, title: title.map(String::from) }),
                ..group("orders", 2)
            }
        };
        assert_eq!(split(None).title(), "NoRate, where payload.country:CH");
        assert_eq!(split(Some("Swiss orders")).title(), "Swiss orders");
        let named = split(None);
        let last = super::super::why(&named).pop().map(|part| (part.name, part.value.map(String::from)));
        assert_eq!(last, Some(("where", Some("payload.country:CH".to_string()))));
    }
}
