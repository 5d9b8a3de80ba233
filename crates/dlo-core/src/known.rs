//! Known failure patterns (E5): what an error usually means, and what to do about it.
//!
//! A team's own patterns come first, written like classification rules; then those of `known/builtin.rs`, which rest on
//! the same table of names as classification does. A letter's reason is the last resort: it is always known.

mod builtin;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use crate::classify::{BY_DEFAULT, Place, Rule, Ruleset, Unknown, When};
use crate::failure::Failure;
use crate::limits;
use crate::pattern::RuleError;
use crate::reason::Reason;
use crate::verdict::VerdictKind;

/// What an error usually means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Known {
    /// `parse_error`, `schema_drift`, or a name of the team's own.
    pub name: String,
    pub cause: String,
    pub fix: String,
    /// Whether sending it again unchanged can help.
    pub replay_helps: ReplayHelps,
}

/// Whether a replay without a change can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum ReplayHelps {
    /// When whatever was down is up again.
    Unchanged,
    /// When the consumer was fixed, or what it looks up is there.
    AfterAFix,
    /// When the message itself was repaired.
    AfterARepair,
    Never,
    /// Nobody said.
    #[default]
    Unknown,
}

/// A pattern as config writes it: `[[rules.known]]`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KnownRule {
    pub name: String,
    pub when: When,
    pub cause: String,
    pub fix: String,
    #[serde(default)]
    pub replay_helps: ReplayHelps,
}

/// What a pattern is looked for in: a group, or a letter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Symptom<'a> {
    pub queue: &'a str,
    pub consumer: Option<&'a str>,
    pub event_type: Option<&'a str>,
    pub class: Option<&'a str>,
    /// The error message, or the template of a group.
    pub message: &'a str,
    pub code: Option<&'a str>,
    /// Of a letter, or the most frequent one of a group.
    pub reason: Option<Reason>,
}

/// Patterns, ready to use.
#[derive(Debug, Clone)]
pub struct KnownPatterns {
    rules: Ruleset,
    /// By the name of the rule that fits.
    meanings: HashMap<String, Known>,
}

impl KnownPatterns {
    /// The team's patterns, and behind them the built-in ones.
    pub fn compile(own: Vec<KnownRule>) -> Result<Self, RuleError> {
        let mut meanings = HashMap::new();
        let mut rules = Vec::new();
        for (place, known) in (1..).zip(own) {
            check(place, &known)?;
            let rule = format!("known:{}", known.name);
            let KnownRule { name, when, cause, fix, replay_helps } = known;
            if meanings.contains_key(&rule) {
                let problem =
                    format!("expected a name of its own, found `{name}`, which an earlier rule has");
                return Err(RuleError::new(&format!("{place} of known"), "name", problem));
            }
            rules.push(as_rule(rule.clone(), when));
            meanings.insert(rule, Known { name, cause, fix, replay_helps });
        }
        for (rule, message, pattern) in builtin::WORDS {
            let when = When { message: Some((*message).to_owned()), ..When::default() };
            rules.push(as_rule((*rule).to_owned(), when));
            meanings.insert((*rule).to_owned(), builtin::known(pattern));
        }
        Ok(Self { rules: Ruleset::compile(rules)?, meanings })
    }

    /// What this usually means; `None` if nobody knows.
    pub fn find(&self, symptom: &Symptom<'_>) -> Option<Known> {
        let failure = Failure {
            class: symptom.class.unwrap_or_default().to_owned(),
            message: symptom.message.to_owned(),
            code: symptom.code.map(str::to_owned),
            http_status: symptom.code.and_then(|code| code.parse().ok()),
            ..Failure::default()
        };
        let place =
            Place { queue: symptom.queue, consumer: symptom.consumer, event_type: symptom.event_type };
        let known = |failure: &Failure| {
            let rule = self.rules.classify(failure, &place, Unknown::DeadLetter).rule;
            let known = || self.meanings.get(&rule).cloned().or_else(|| builtin::of_rule(&rule));
            if rule == BY_DEFAULT { None } else { known() }
        };
        let by_rule = known(&failure).map(|found| {
            // Many a message speaks of something that is not in a list: a class that tells of more than a bug knows better.
            let weak = found.name == builtin::MISSING_ENTRY;
            let by_class = weak.then(|| known(&Failure { message: String::new(), ..failure })).flatten();
            by_class.filter(|by_class| by_class.name != builtin::CONSUMER_BUG).unwrap_or(found)
        });
        by_rule.or_else(|| symptom.reason.and_then(builtin::of_reason))
    }
}

fn as_rule(name: String, when: When) -> Rule {
    let verdict = VerdictKind::DeadLetter;
    Rule { name: Some(name), when, verdict, reason: None, attempts: None, age: None, dependency: None }
}

fn check(place: usize, rule: &KnownRule) -> Result<(), RuleError> {
    let named = format!("{place} of known");
    let bounded = [
        ("name", rule.name.as_str(), limits::NAME - "known:".len()),
        ("cause", rule.cause.as_str(), limits::NOTE),
        ("fix", rule.fix.as_str(), limits::NOTE),
    ];
    for (field, text, most) in bounded {
        if text.trim().is_empty() || text.len() > most {
            let problem = format!("expected 1 to {most} bytes, found {}", text.len());
            return Err(RuleError::new(&named, field, problem));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(own: &str) -> KnownPatterns {
        KnownPatterns::compile(serde_json::from_str(own).unwrap()).unwrap()
    }

    fn found(patterns: &KnownPatterns, class: &str, message: &str, reason: Option<Reason>) -> Option<String> {
        let class = Some(class).filter(|class| !class.is_empty());
        patterns.find(&Symptom { class, message, reason, ..Symptom::default() }).map(|known| known.name)
    }

    #[test]
    fn common_failures_have_a_cause_and_a_fix() {
        let patterns = patterns("[]");
        for (class, message, expected) in [
            ("json.decoder.JSONDecodeError", "Expecting value: line 1 column 1", "parse_error"),
            ("", "missing field `currency` at line 1 column 40", "schema_drift"),
            ("SchemaException", "Unknown field 'amount_cents'", "schema_drift"),
            ("java.net.SocketTimeoutException", "Read timed out", "slow_dependency"),
            ("", "connect ECONNREFUSED <ip>:<n>", "dependency_down"),
            ("OutOfMemoryError", "Java heap space", "resource_exhausted"),
            ("", "No space left on device", "resource_exhausted"),
            ("BusinessRuleViolation", "insufficient funds", "business_reject"),
            ("", "permission denied for table invoices", "authentication"),
            ("", "update or delete violates foreign key constraint", "missing_reference"),
            ("", "duplicate key value violates unique constraint", "duplicate_key"),
            ("psycopg.errors.UniqueViolation", "already exists", "duplicate_key"),
            ("KeyError", "pin <num> not in tax table", "missing_entry"),
            ("", "no such entry: gst.rate", "missing_entry"),
            ("java.net.SocketTimeoutException", "pool not in the connection list", "slow_dependency"),
            ("TypeError", "'NoneType' object is not subscriptable", "consumer_bug"),
            ("", "429 Too Many Requests", "rate_limited"),
        ] {
            assert_eq!(
                found(&patterns, class, message, None).as_deref(),
                Some(expected),
                "{class} {message}"
            );
        }
    }

    #[test]
    fn what_nobody_knows_is_told_by_its_reason_or_not_at_all() {
        let patterns = patterns("[]");
        assert_eq!(found(&patterns, "Odd", "quite odd", None), None);
        let told = |reason| found(&patterns, "Odd", "quite odd", Some(reason));
        assert_eq!(told(Reason::DeserializationError).as_deref(), Some("parse_error"));
        assert_eq!(told(Reason::Poison).as_deref(), Some("poison"));
        assert_eq!(told(Reason::ProcessingError), None);
    }

    #[test]
    fn a_teams_own_pattern_comes_first() {
        let own = r#"[{"name":"tax_table","when":{"class":"KeyError","message":"tax table"},
                       "cause":"a new pin code","fix":"load the table of the month","replay_helps":"after_a_fix"}]"#;
        let patterns = patterns(own);
        assert_eq!(found(&patterns, "KeyError", "pin not in tax table", None).as_deref(), Some("tax_table"));
        assert_ne!(found(&patterns, "KeyError", "no such thing", None).as_deref(), Some("tax_table"));
    }

    #[test]
    fn a_pattern_without_words_is_refused() {
        let rules = serde_json::from_str(r#"[{"name":"x","when":{"class":"A"},"cause":" ","fix":"y"}]"#);
        let refusal = KnownPatterns::compile(rules.unwrap()).unwrap_err().to_string();
        assert!(refusal.starts_with("rule 1 of known: `cause`: expected 1 to"), "{refusal}");
    }

    #[test]
    fn two_patterns_of_one_name_are_refused() {
        let rule = r#"{"name":"x","when":{"class":"A"},"cause":"c","fix":"f"}"#;
        let rules = serde_json::from_str(&format!("[{rule},{rule}]")).unwrap();
        let refusal = KnownPatterns::compile(rules).unwrap_err().to_string();
        let expected =
            "rule 2 of known: `name`: expected a name of its own, found `x`, which an earlier rule has";
        assert_eq!(refusal, expected);
    }

    #[test]
    fn every_pattern_of_the_tables_is_described() {
        for (_, _, name) in builtin::WORDS {
            assert!(!builtin::known(name).cause.is_empty(), "{name}");
        }
    }
}
