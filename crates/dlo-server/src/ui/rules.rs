//! Rules: what is decided without a person, what each did, and a place to try one on history before it is in force.
//!
//! Rules live in the config file; nothing here changes them. A trial asks the same API as `dlo rules test`.

mod told;

use std::collections::BTreeMap;
use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use dlo_core::automation::AutomationRule;
use dlo_core::classify::{BY_DEFAULT, BY_HANDLER, Rule};
use dlo_core::query::{Matcher, Query};
use dlo_core::time::Timestamp;
use dlo_store::Page;

use super::show::When;
use super::{Failed, Shell, render, words};
use crate::automation::RuleStatus;
use crate::office::Office;

/// Letters that are looked at to tell what rules did lately.
const LATELY: usize = 500;

/// A rule that chooses between retry, dead-letter and discard.
struct ClassifyLine {
    name: String,
    when: String,
    verdict: String,
    limits: String,
    /// How many of the latest letters it decided.
    lately: usize,
    q: String,
}

struct OwnerLine {
    when: String,
    owner: String,
    q: String,
}

struct AutomationLine {
    name: String,
    query: String,
    action: String,
    letters: String,
    looked: Option<When>,
    next: Option<When>,
    waits: Option<String>,
    error: Option<String>,
}

#[derive(Template)]
#[template(path = "rules.html")]
struct RulesPage {
    shell: Shell,
    q: String,
    looked_at: usize,
    classify: Vec<ClassifyLine>,
    /// Those that are not the team's, with what they decided lately.
    builtin: Vec<(String, &'static str, usize, String)>,
    owners: Vec<OwnerLine>,
    redact: Vec<(&'static str, Vec<String>)>,
    automation: Vec<AutomationLine>,
    classify_json: String,
    owners_json: String,
    automation_json: String,
}

pub(crate) async fn page(State(office): State<Arc<Office>>, shell: Shell) -> Result<Response, Failed> {
    let found = office.shown().letters(&Query::default(), &Page::first(LATELY)).await?;
    let mut lately: BTreeMap<&str, usize> = BTreeMap::new();
    for letter in &found.letters {
        *lately.entry(letter.rule.as_deref().unwrap_or_default()).or_default() += 1;
    }
    let now = office.now();
    let written = office.written.get();
    let classify: Vec<ClassifyLine> =
        written.classify.iter().map(|rule| ClassifyLine::new(rule, &lately)).collect();
    let automation = office.automation.all(&office.config.automation);
    Ok(render(&RulesPage {
        shell,
        q: String::new(),
        looked_at: found.letters.len(),
        builtin: builtin(&lately, &classify),
        classify,
        owners: written.owners.iter().map(OwnerLine::new).collect(),
        redact: written.redact.as_ref().map(told::redaction).unwrap_or_default(),
        automation: automation.iter().map(|rule| AutomationLine::new(rule, now)).collect(),
        classify_json: told::sample(&written.classify, told::CLASSIFY),
        owners_json: told::sample(&written.owners, told::OWNERS),
        automation_json: told::sample(&office.config.automation, told::AUTOMATION),
    }))
}

impl ClassifyLine {
    fn new(rule: &Rule, lately: &BTreeMap<&str, usize>) -> Self {
        let name = rule.title();
        let attempts = rule.attempts.map(|attempts| format!("{attempts} attempts in all"));
        let age = rule.age.map(|age| format!("not after {age}"));
        Self {
            when: told::condition(&rule.when),
            verdict: words::phrase(rule.verdict.as_str()),
            limits: attempts.into_iter().chain(age).collect::<Vec<_>>().join(", "),
            lately: lately.get(name.as_str()).copied().unwrap_or_default(),
            q: Matcher::Rule(name.clone()).to_string(),
            name,
        }
    }
}

/// Who else decided lately.
fn builtin(
    lately: &BTreeMap<&str, usize>,
    classify: &[ClassifyLine],
) -> Vec<(String, &'static str, usize, String)> {
    let others = lately.iter().filter(|(name, _)| classify.iter().all(|rule| rule.name != **name));
    let line = |(name, count): (&&str, &usize)| {
        let means = match *name {
            "" => "nobody said: the letter came from a consumer that names no rule",
            BY_HANDLER => "the handler itself said what it is",
            BY_DEFAULT => "no rule knew the error, so it went to the dead letters at once",
            _ => "a rule that is built in, or that is no longer in the config",
        };
        (name.to_string(), means, *count, Matcher::Rule(name.to_string()).to_string())
    };
    let mut all: Vec<_> = others.map(line).collect();
    all.sort_by_key(|(_, _, count, _)| std::cmp::Reverse(*count));
    all
}

impl OwnerLine {
    fn new(rule: &dlo_core::owners::OwnerRule) -> Self {
        Self {
            when: told::condition(&rule.when),
            q: format!("status:open {}", Matcher::Owner(Some(rule.owner.clone()))),
            owner: rule.owner.clone(),
        }
    }
}

impl AutomationLine {
    fn new(status: &RuleStatus<'_>, now: Timestamp) -> Self {
        Self {
            name: status.rule.name.clone(),
            query: status.rule.query.clone(),
            action: told::action(&status.rule.action),
            letters: words::number(status.letters),
            looked: status.looked_at.map(|at| When::new(at, now)),
            next: status.next_at.map(|at| When::new(at, now)),
            waits: status.waits_for.clone(),
            error: status.error.clone(),
        }
    }
}

/// The rules that may act on letters of a source: those that name it, or name none.
pub(crate) fn of_source(rules: &[AutomationRule], source: &str) -> Vec<(String, String)> {
    let means = |rule: &&AutomationRule| {
        let Ok(query) = Query::parse(&rule.query, Timestamp::EPOCH) else { return false };
        query.terms.iter().all(|term| match &term.matcher {
            Matcher::Source(name) => (name == source) != term.negated,
            _ => true,
        })
    };
    let told = |rule: &AutomationRule| (rule.name.clone(), told::action(&rule.action));
    rules.iter().filter(means).map(told).collect()
}
