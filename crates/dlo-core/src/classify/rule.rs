//! One rule: as config writes it, and ready to match.

use std::num::NonZeroU32;

use regex::Regex;
use serde::{Deserialize, Serialize};

use super::{Classified, HttpStatus, Limits, Place};
use crate::failure::Failure;
use crate::limits;
use crate::pattern::{OneOrMany, Patterns, RuleError, expression};
use crate::policy::MOST_ATTEMPTS;
use crate::reason::Reason;
use crate::units::HumanDuration;
use crate::verdict::VerdictKind;

/// `when = { class = "KeyError" }`, `verdict = "dead_letter"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Written on the record. Without one, what it looks at is its name: `class=KeyError`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub when: When,
    pub verdict: VerdictKind,
    /// Why it is parked; by default `processing_error`, or for a retry `max_retries_exceeded`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Reason>,
    /// Attempts in all for this kind of failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempts: Option<u32>,
    /// Time since the first failure after which this kind is not tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub age: Option<HumanDuration>,
    /// The downstream that this kind of failure speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dependency: Option<String>,
}

/// Everything that is given must fit. Names are exact, or have `*` for any run of characters.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct When {
    /// The error class, whole or by its last segment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<OneOrMany>,
    /// A regular expression, looked for anywhere in the error message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub http_status: Option<HttpStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dependency: Option<OneOrMany>,
}

impl Rule {
    /// What stands on the record: its name, or what it looks at.
    pub fn title(&self) -> String {
        self.name.clone().unwrap_or_else(|| self.when.describe())
    }
}

impl When {
    /// What it looks at, as the name of a rule that has none.
    fn describe(&self) -> String {
        let statuses = self.http_status.as_ref().and_then(|status| status.ranges().ok());
        let parts = [
            self.class.as_ref().map(|class| format!("class={class}")),
            self.message.as_ref().map(|message| format!("message={message}")),
            self.code.as_ref().map(|code| format!("code={code}")),
            statuses.map(|ranges| format!("http_status={}", show_ranges(&ranges))),
            self.event_type.as_ref().map(|kind| format!("event_type={kind}")),
            self.queue.as_ref().map(|queue| format!("queue={queue}")),
            self.consumer.as_ref().map(|consumer| format!("consumer={consumer}")),
            self.dependency.as_ref().map(|dependency| format!("dependency={dependency}")),
        ];
        let mut name = parts.into_iter().flatten().collect::<Vec<_>>().join(",");
        limits::cut(&mut name, limits::NAME);
        name
    }
}

fn show_ranges(ranges: &[(u16, u16)]) -> String {
    let shown = ranges.iter().map(
        |(first, last)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        },
    );
    shown.collect::<Vec<_>>().join("|")
}

/// A rule that only has to be asked.
#[derive(Debug, Clone)]
pub(super) struct Compiled {
    class: Option<Patterns>,
    message: Option<Regex>,
    code: Option<Patterns>,
    statuses: Option<Vec<(u16, u16)>>,
    event_type: Option<Patterns>,
    queue: Option<Patterns>,
    consumer: Option<Patterns>,
    dependency: Option<Patterns>,
    classified: Classified,
}

impl Compiled {
    /// `place` counts from one and names a rule that cannot be named otherwise.
    pub(super) fn new(place: usize, rule: Rule) -> Result<Self, RuleError> {
        let name = rule.title();
        let shown = if name.is_empty() { format!("{place} of classify") } else { format!("`{name}`") };
        if name.len() > limits::NAME || rule.name.as_deref() == Some("") {
            let problem = format!("expected 1 to {} bytes, found {}", limits::NAME, name.len());
            return Err(RuleError::new(&format!("{place} of classify"), "name", problem));
        }
        if rule.when == When::default() {
            let problem = "expected at least one of class, message, code, http_status, event_type, queue, consumer, \
                           dependency; for errors that no rule knows, set `unknown` of the queue";
            return Err(RuleError::new(&shown, "when", problem));
        }
        let classified = classified(&shown, name, &rule)?;
        let when = &rule.when;
        let patterns = |field, texts: &Option<OneOrMany>| {
            texts.as_ref().map(|texts| Patterns::compile(&shown, field, texts)).transpose()
        };
        let statuses = when.http_status.as_ref().map(HttpStatus::ranges).transpose();
        Ok(Self {
            class: patterns("class", &when.class)?,
            message: when.message.as_deref().map(|text| expression(&shown, "message", text)).transpose()?,
            code: patterns("code", &when.code)?,
            statuses: statuses.map_err(|problem| RuleError::new(&shown, "http_status", problem))?,
            event_type: patterns("event_type", &when.event_type)?,
            queue: patterns("queue", &when.queue)?,
            consumer: patterns("consumer", &when.consumer)?,
            dependency: patterns("dependency", &when.dependency)?,
            classified,
        })
    }

    /// Cheap tests first; the expression last, on bounded text.
    pub(super) fn fits(&self, failure: &Failure, place: &Place<'_>) -> bool {
        fits(&self.statuses, |ranges| {
            failure.http_status.is_some_and(|status| ranges.iter().any(|(a, b)| (*a..=*b).contains(&status)))
        }) && fits(&self.class, |p| p.matches_class(&failure.class))
            && fits(&self.code, |p| p.matches_known(failure.code.as_deref()))
            && fits(&self.queue, |p| p.matches(place.queue))
            && fits(&self.consumer, |p| p.matches_known(place.consumer))
            && fits(&self.event_type, |p| p.matches_known(place.event_type))
            && fits(&self.dependency, |p| p.matches_known(failure.dependency.as_deref()))
            && fits(&self.message, |regex| regex.is_match(head(&failure.message, limits::ERROR_MESSAGE)))
    }

    pub(super) fn classified(&self) -> Classified {
        self.classified.clone()
    }
}

/// A field that is not given fits everything.
fn fits<T>(given: &Option<T>, matches: impl Fn(&T) -> bool) -> bool {
    given.as_ref().is_none_or(matches)
}

/// The first bytes of a text, on a character boundary.
fn head(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

fn classified(shown: &str, name: String, rule: &Rule) -> Result<Classified, RuleError> {
    let attempts = match rule.attempts.map(|n| (n, NonZeroU32::new(n))) {
        None => None,
        Some((_, Some(n))) if n.get() <= MOST_ATTEMPTS => Some(n),
        Some((n, _)) => {
            return Err(RuleError::new(
                shown,
                "attempts",
                format!("expected 1 to {MOST_ATTEMPTS}, found {n}"),
            ));
        }
    };
    if rule.verdict != VerdictKind::Retry && (attempts.is_some() || rule.age.is_some()) {
        let field = if attempts.is_some() { "attempts" } else { "age" };
        let problem =
            "only a rule with verdict = \"retry\" has limits; any other leaves at the first failure";
        return Err(RuleError::new(shown, field, problem));
    }
    let dependency = rule.dependency.clone();
    if dependency.as_ref().is_some_and(|name| name.is_empty() || name.len() > limits::NAME) {
        let problem = format!("expected a name of 1 to {} bytes", limits::NAME);
        return Err(RuleError::new(shown, "dependency", problem));
    }
    let reason = rule.reason.unwrap_or(match rule.verdict {
        VerdictKind::Retry => Reason::MaxRetriesExceeded,
        VerdictKind::DeadLetter | VerdictKind::Discard => Reason::ProcessingError,
    });
    let limits = Limits { attempts, age: rule.age.map(|age| age.0) };
    Ok(Classified { verdict: rule.verdict, rule: name, reason, limits, dependency })
}
