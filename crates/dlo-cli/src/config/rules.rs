//! `[[rules.classify]]`, `[[rules.owners]]`, `[[rules.automation]]` and `[redact]`: read here, understood by `dlo-core`.
//!
//! Each rule is compiled by itself first, so that what is wrong with one is told at its own line.

use dlo_core::automation::AutomationRule;
use dlo_core::classify::{Rule, Ruleset};
use dlo_core::owners::{OwnerRule, OwnerWhen, Owners};
use dlo_core::pattern::{OneOrMany, RuleError};
use dlo_core::redact::{RedactRules, Redactor};

use super::reader::Section;
use super::sources::Source;

/// What decides without a person.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// The team's own; the built-in ones stand behind them.
    pub(crate) classify: Vec<Rule>,
    /// As they are written, those of sources behind them.
    pub(crate) owners_written: Vec<OwnerRule>,
    pub(crate) owners: Owners,
    /// What is done without a person; what sources say by themselves stands behind.
    pub(crate) automation: Vec<AutomationRule>,
    /// What is masked; `None`: nothing.
    pub(crate) redactor: Option<Redactor>,
    pub(crate) redact_written: Option<RedactRules>,
}

pub(super) fn read(root: &Section<'_>, sources: &[Source]) -> Rules {
    let section = root.section("rules");
    let classify: Vec<Rule> =
        each(&section, "classify", |rule: Rule| Ruleset::compile_only(vec![rule]).map(drop));
    let mut owners: Vec<OwnerRule> =
        each(&section, "owners", |rule: OwnerRule| Owners::compile(vec![rule]).map(drop));
    let mut automation: Vec<AutomationRule> =
        each(&section, "automation", |rule: AutomationRule| rule.check());
    section.check();
    automation.extend(sources.iter().flat_map(|source| source.automation.clone()));
    unique(&section, &automation);
    // Behind the rules: whoever wrote a rule meant something more precise than the source as a whole.
    owners.extend(sources.iter().filter_map(of_source));
    let compiled = Owners::compile(owners.clone()).unwrap_or_else(|bad| {
        section.note(format!("`rules.owners`: {bad}"));
        Owners::default()
    });
    let (redactor, redact_written) = redactor(&root.section("redact")).unzip();
    Rules { classify, owners_written: owners, owners: compiled, automation, redactor, redact_written }
}

/// The audit log knows a rule by its name alone.
fn unique(section: &Section<'_>, rules: &[AutomationRule]) {
    for (at, rule) in rules.iter().enumerate() {
        if rules[..at].iter().any(|other| other.name == rule.name) {
            section.problem("automation", format!("has two rules named \"{}\"; names are unique", rule.name));
        }
    }
}

fn each<T: serde::de::DeserializeOwned + Clone>(
    section: &Section<'_>,
    key: &'static str,
    compile: impl Fn(T) -> Result<(), RuleError>,
) -> Vec<T> {
    let mut rules = Vec::new();
    for entry in section.sections(key) {
        let Some(rule) = entry.decode::<T>(&[]) else { continue };
        match compile(rule.clone()) {
            Ok(()) => rules.push(rule),
            Err(bad) => entry.problem(bad.field, bad.problem),
        }
    }
    rules
}

fn of_source(source: &Source) -> Option<OwnerRule> {
    let owner = source.owner.clone()?;
    let when = OwnerWhen { source: Some(OneOrMany::One(source.name.clone())), ..OwnerWhen::default() };
    Some(OwnerRule { when, owner })
}

fn redactor(section: &Section<'_>) -> Option<(Redactor, RedactRules)> {
    let rules = section.is_there().then(|| section.decode::<RedactRules>(&[])).flatten()?;
    match Redactor::compile(&rules) {
        Ok(redactor) => Some((redactor, rules)),
        Err(bad) => {
            section.problem(bad.field, bad.problem);
            None
        }
    }
}
