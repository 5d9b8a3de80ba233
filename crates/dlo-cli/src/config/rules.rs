//! `[[rules.classify]]`, `[[rules.owners]]`, `[[rules.known]]`, `[[rules.automation]]` and `[redact]`: read here, understood by `dlo-core`.
//!
//! Each rule is compiled by itself first, so that what is wrong with one is told at its own line.

use std::path::PathBuf;

use dlo_core::automation::AutomationRule;
use dlo_core::classify::{Rule, Ruleset};
use dlo_core::known::{KnownPatterns, KnownRule};
use dlo_core::owners::{OwnerRule, OwnerWhen, Owners};
use dlo_core::pattern::{OneOrMany, RuleError};
use dlo_core::redact::{RedactRules, Redactor};
use dlo_core::teams::Teams;

use super::reader::Section;
use super::sources::Source;
use super::teams;

/// What decides without a person.
#[derive(Debug, Clone, Default)]
pub(crate) struct Rules {
    /// The team's own; the built-in ones stand behind them.
    pub(crate) classify: Vec<Rule>,
    /// As they are written, those of sources behind them.
    pub(crate) owners_written: Vec<OwnerRule>,
    /// A file of owners beside the config, in the manner of CODEOWNERS; asked behind the rules that are written here.
    pub(super) owners_file: Option<PathBuf>,
    /// How many of the rules above are those of sources.
    of_sources: usize,
    pub(crate) owners: Owners,
    pub(crate) teams: Teams,
    /// What failures usually mean: the team's own patterns, and the built-in ones.
    pub(crate) known: Option<KnownPatterns>,
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
    let known: Vec<KnownRule> =
        each(&section, "known", |rule: KnownRule| KnownPatterns::compile(vec![rule]).map(drop));
    let known =
        KnownPatterns::compile(known).map_err(|bad| section.note(format!("`rules.known`: {bad}"))).ok();
    let owners_file = section.path("owners_file");
    section.check();
    automation.extend(sources.iter().flat_map(|source| source.automation.clone()));
    unique(&section, &automation);
    // Behind the rules: whoever wrote a rule meant something more precise than the source as a whole.
    let written = owners.len();
    owners.extend(sources.iter().filter_map(of_source));
    let of_sources = owners.len() - written;
    let compiled = Owners::compile(owners.clone()).unwrap_or_else(|bad| {
        section.note(format!("`rules.owners`: {bad}"));
        Owners::default()
    });
    let (redactor, redact_written) = redactor(&root.section("redact")).unzip();
    Rules {
        classify,
        owners_written: owners,
        owners_file,
        of_sources,
        owners: compiled,
        teams: teams::read(root),
        known,
        automation,
        redactor,
        redact_written,
    }
}

impl Rules {
    /// Takes up the rules of a file: behind those that are written in the config, before those of whole sources.
    pub(super) fn take_up(&mut self, of_file: Vec<OwnerRule>) -> Result<(), RuleError> {
        let at = self.owners_written.len() - self.of_sources;
        self.owners_written.splice(at..at, of_file);
        self.owners = Owners::compile(self.owners_written.clone())?;
        Ok(())
    }
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
