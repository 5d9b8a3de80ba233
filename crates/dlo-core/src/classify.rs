//! What kind of failure it is: rules are data, ordered, and the first match wins (A1 to A3).
//!
//! The order of voices: the handler's own word, then the team's rules, then the built-in ones
//! (`classify/builtin.rs`), then the queue's default for what nobody knows, which is terminal unless configured. Which
//! of them spoke is part of the answer and ends up on the record. Rules are compiled once; a match compiles
//! nothing and looks at bounded text.

mod builtin;
mod known;
mod rule;
mod status;

use std::num::NonZeroU32;
use std::time::Duration;

use crate::failure::Failure;
use crate::pattern::{RULES, RuleError};
use crate::reason::Reason;
use crate::verdict::VerdictKind;

pub use builtin::PROCESSING_TIMEOUT;
pub use rule::{Rule, When};
pub use status::HttpStatus;

/// The rule named on the record when the handler itself spoke.
pub const BY_HANDLER: &str = "handler";
/// The rule named on the record when nobody knew the error.
pub const BY_DEFAULT: &str = "default:unknown";

/// Where a failure happened, as far as rules look at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Place<'a> {
    pub queue: &'a str,
    pub consumer: Option<&'a str>,
    pub event_type: Option<&'a str>,
}

/// The kind of a failure, and who said so.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Classified {
    pub verdict: VerdictKind,
    /// Written on the record: `handler`, `builtin:timeout`, a rule's name, `default:unknown`.
    pub rule: String,
    /// Why it is parked, at once or when its retries are over.
    pub reason: Reason,
    pub limits: Limits,
    /// The downstream that failed, by the handler's word or the rule's.
    pub dependency: Option<String>,
}

/// A rule's own limits, which come before the policy's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub attempts: Option<NonZeroU32>,
    pub age: Option<Duration>,
}

/// What becomes of an error that no rule knows (A1), per queue. Terminal unless configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
#[serde(from = "WrittenUnknown", into = "WrittenUnknown")]
pub enum Unknown {
    #[default]
    DeadLetter,
    /// Tried again, up to this many attempts in all.
    Retry {
        attempts: NonZeroU32,
    },
    Discard,
}

impl Unknown {
    /// The cap of `unknown = "retry"`: one more try.
    const STRICT: NonZeroU32 = NonZeroU32::MIN.saturating_add(1);

    fn classified(self) -> Classified {
        let rule = BY_DEFAULT.to_owned();
        let (verdict, reason, attempts) = match self {
            Self::DeadLetter => (VerdictKind::DeadLetter, Reason::ProcessingError, None),
            Self::Retry { attempts } => (VerdictKind::Retry, Reason::MaxRetriesExceeded, Some(attempts)),
            Self::Discard => (VerdictKind::Discard, Reason::ProcessingError, None),
        };
        Classified { verdict, rule, reason, limits: Limits { attempts, age: None }, dependency: None }
    }
}

/// `unknown = "retry"`, or with a cap: `unknown = { verdict = "retry", attempts = 3 }`.
#[derive(serde::Serialize, serde::Deserialize)]
#[serde(
    untagged,
    expecting = "expected dead_letter, retry, discard, or { verdict = \"retry\", attempts = 3 }"
)]
enum WrittenUnknown {
    Word(VerdictKind),
    Capped(CappedUnknown),
}

#[derive(serde::Serialize, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct CappedUnknown {
    verdict: VerdictKind,
    attempts: Option<NonZeroU32>,
}

impl From<WrittenUnknown> for Unknown {
    fn from(written: WrittenUnknown) -> Self {
        let (verdict, attempts) = match written {
            WrittenUnknown::Word(verdict) => (verdict, None),
            WrittenUnknown::Capped(capped) => (capped.verdict, capped.attempts),
        };
        match verdict {
            VerdictKind::DeadLetter => Self::DeadLetter,
            VerdictKind::Retry => Self::Retry { attempts: attempts.unwrap_or(Self::STRICT) },
            VerdictKind::Discard => Self::Discard,
        }
    }
}

impl From<Unknown> for WrittenUnknown {
    fn from(unknown: Unknown) -> Self {
        match unknown {
            Unknown::DeadLetter => Self::Word(VerdictKind::DeadLetter),
            Unknown::Retry { attempts } => {
                Self::Capped(CappedUnknown { verdict: VerdictKind::Retry, attempts: Some(attempts) })
            }
            Unknown::Discard => Self::Word(VerdictKind::Discard),
        }
    }
}

/// Rules, ready to use: the team's first, the built-in ones behind them.
#[derive(Debug, Clone)]
pub struct Ruleset {
    rules: Vec<rule::Compiled>,
}

impl Ruleset {
    /// Compiles the team's rules and puts the built-in ones behind them.
    pub fn compile(rules: Vec<Rule>) -> Result<Self, RuleError> {
        let mut own = Self::compile_only(rules)?;
        own.rules.extend(Self::compile_only(builtin::rules())?.rules);
        Ok(own)
    }

    /// Compiles these rules and nothing else.
    pub fn compile_only(rules: Vec<Rule>) -> Result<Self, RuleError> {
        if rules.len() > RULES {
            let problem = format!("expected at most {RULES} rules, found {}", rules.len());
            return Err(RuleError::new("list", "classify", problem));
        }
        let rules = rules.into_iter().enumerate().map(|(at, rule)| rule::Compiled::new(at + 1, rule));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The kind of this failure. There is no "don't know".
    pub fn classify(&self, failure: &Failure, place: &Place<'_>, unknown: Unknown) -> Classified {
        let matched =
            self.rules.iter().find(|rule| rule.fits(failure, place)).map(rule::Compiled::classified);
        let mut classified = match (failure.says, matched) {
            (Some(verdict), matched) => by_handler(verdict, matched),
            (None, Some(classified)) => classified,
            (None, None) => unknown.classified(),
        };
        // The handler knows its downstream better than a rule does.
        if failure.dependency.is_some() {
            classified.dependency.clone_from(&failure.dependency);
        }
        classified
    }
}

/// The handler's verdict. A rule may still say what the failure is called: a parse error that the handler refuses
/// is parked as a parse error, and the rule's limits bound a retry that the handler asks for.
fn by_handler(verdict: VerdictKind, matched: Option<Classified>) -> Classified {
    let (known, limits, dependency) = match matched {
        Some(rule) => ((rule.verdict == verdict).then_some(rule.reason), rule.limits, rule.dependency),
        None => (None, Limits::default(), None),
    };
    let fallback = match verdict {
        VerdictKind::Retry => Reason::MaxRetriesExceeded,
        VerdictKind::DeadLetter | VerdictKind::Discard => Reason::ProcessingError,
    };
    Classified { verdict, rule: BY_HANDLER.to_owned(), reason: known.unwrap_or(fallback), limits, dependency }
}

#[cfg(test)]
mod tests;
