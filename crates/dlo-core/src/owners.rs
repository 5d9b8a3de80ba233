//! Whose letter it is (E4): ordered rules from source, queue, event type, consumer and error class to a team.
//!
//! The first rule that fits wins. A letter that no rule fits has no owner, which is counted and alerted, so there is no
//! catch-all by default; `when = { source = "*" }` at the end is one.

pub mod file;

use serde::{Deserialize, Serialize};

use crate::limits;
use crate::pattern::{OneOrMany, Patterns, RULES, RuleError};

/// One rule as config writes it: `when = { queue = "orders*" }`, `owner = "payments"`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OwnerRule {
    pub when: OwnerWhen,
    pub owner: String,
}

/// Everything that is given must fit.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OwnerWhen {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub source: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub event_type: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub consumer: Option<OneOrMany>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub class: Option<OneOrMany>,
}

/// What ownership is decided by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Subject<'a> {
    pub source: &'a str,
    pub queue: &'a str,
    pub event_type: Option<&'a str>,
    pub consumer: Option<&'a str>,
    pub class: Option<&'a str>,
}

/// Rules, ready to use. Without rules nobody owns anything.
#[derive(Debug, Clone, Default)]
pub struct Owners {
    rules: Vec<Compiled>,
}

#[derive(Debug, Clone)]
struct Compiled {
    source: Option<Patterns>,
    queue: Option<Patterns>,
    event_type: Option<Patterns>,
    consumer: Option<Patterns>,
    class: Option<Patterns>,
    owner: String,
}

impl Owners {
    pub fn compile(rules: Vec<OwnerRule>) -> Result<Self, RuleError> {
        if rules.len() > RULES {
            let problem = format!("expected at most {RULES} rules, found {}", rules.len());
            return Err(RuleError::new("list", "owners", problem));
        }
        let rules = rules.into_iter().enumerate().map(|(at, rule)| compile(at + 1, rule));
        Ok(Self { rules: rules.collect::<Result<_, _>>()? })
    }

    /// The team of the first rule that fits.
    pub fn owner_of(&self, subject: &Subject<'_>) -> Option<&str> {
        self.rules.iter().find(|rule| rule.fits(subject)).map(|rule| rule.owner.as_str())
    }
}

impl Compiled {
    fn fits(&self, subject: &Subject<'_>) -> bool {
        fits(&self.source, |p| p.matches(subject.source))
            && fits(&self.queue, |p| p.matches(subject.queue))
            && fits(&self.event_type, |p| p.matches_known(subject.event_type))
            && fits(&self.consumer, |p| p.matches_known(subject.consumer))
            && fits(&self.class, |p| subject.class.is_some_and(|class| p.matches_class(class)))
    }
}

/// A field that is not given fits everything.
fn fits(patterns: &Option<Patterns>, matches: impl Fn(&Patterns) -> bool) -> bool {
    patterns.as_ref().is_none_or(matches)
}

fn compile(place: usize, rule: OwnerRule) -> Result<Compiled, RuleError> {
    let name = format!("{place} of owners");
    if rule.owner.is_empty() || rule.owner.len() > limits::NAME {
        let problem =
            format!("expected a team's name of 1 to {} bytes, found {}", limits::NAME, rule.owner.len());
        return Err(RuleError::new(&name, "owner", problem));
    }
    if rule.when == OwnerWhen::default() {
        let problem = "expected at least one of source, queue, event_type, consumer, class; for everything else write source = \"*\"";
        return Err(RuleError::new(&name, "when", problem));
    }
    let field = |field, texts: &Option<OneOrMany>| {
        texts.as_ref().map(|texts| Patterns::compile(&name, field, texts)).transpose()
    };
    Ok(Compiled {
        source: field("source", &rule.when.source)?,
        queue: field("queue", &rule.when.queue)?,
        event_type: field("event_type", &rule.when.event_type)?,
        consumer: field("consumer", &rule.when.consumer)?,
        class: field("class", &rule.when.class)?,
        owner: rule.owner,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owners(json: &str) -> Result<Owners, String> {
        let rules = serde_json::from_str(json).map_err(|e| e.to_string())?;
        Owners::compile(rules).map_err(|e| e.to_string())
    }

    #[test]
    fn the_first_rule_that_fits_names_the_owner() {
        let owners = owners(
            r#"[{"when":{"queue":"orders*","class":"KeyError"},"owner":"tax"},
                {"when":{"queue":"orders*"},"owner":"payments"},
                {"when":{"event_type":["invoice.*","receipt.*"],"consumer":"mail"},"owner":"crm"}]"#,
        )
        .unwrap();
        let order = Subject { source: "orders", queue: "orders.eu", ..Subject::default() };
        let tax = Subject { class: Some("builtins.KeyError"), ..order };
        let mail = Subject { event_type: Some("receipt.sent"), consumer: Some("mail"), ..Subject::default() };
        assert_eq!(owners.owner_of(&tax), Some("tax"));
        assert_eq!(owners.owner_of(&order), Some("payments"));
        assert_eq!(owners.owner_of(&mail), Some("crm"));
        assert_eq!(owners.owner_of(&Subject { consumer: None, ..mail }), None);
        assert_eq!(Owners::default().owner_of(&order), None);
    }

    #[test]
    fn a_rule_that_would_match_by_accident_is_refused() {
        let refusal = owners(r#"[{"when":{},"owner":"payments"}]"#).unwrap_err();
        assert!(
            refusal.starts_with("rule 1 of owners: `when`: expected at least one of source"),
            "{refusal}"
        );
        assert!(owners(r#"[{"when":{"queue":"a"},"owner":""}]"#).unwrap_err().contains("`owner`"));
        assert!(owners(r#"[{"when":{"que":"a"},"owner":"b"}]"#).unwrap_err().contains("unknown field `que`"));
    }
}
