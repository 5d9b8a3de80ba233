//! `dlo rules test` (A4): what rules would decide, before they do.
//!
//! One failure given by flags needs no office. On history the office decides its letters anew, by the same code that
//! consumers run, and tells what would change. A letter does not keep the HTTP status of its failure, so rules on
//! a status are not tried on history.

use std::collections::BTreeMap;
use std::path::Path;

use dlo_core::classify::{Classified, Place, Ruleset, Unknown};
use dlo_core::failure::Failure as Failed;
use serde_json::{Value, json};

use super::query_text;
use crate::args::{ClientArgs, RulesTestArgs};
use crate::client::{Client, text_of};
use crate::config::{Config, Rules};
use crate::exit::{Failure, Outcome};
use crate::output::{Align, Out, Progress, Table, Tone, clean, count, letters};

/// Letters that the office looks at for one request.
const AT_ONCE: u64 = 10_000;

pub(super) fn test(client: &ClientArgs, args: RulesTestArgs, config: Option<&Path>) -> Outcome {
    let rules = match &args.rules {
        Some(path) => Config::rules_of(path)?,
        None => Config::load(config)?.rules,
    };
    let out = Out::new(client.json);
    match one_failure(&args) {
        Some(failure) => tell_one(out, rules, &failure, &args),
        None => on_history(&Client::new(client)?, out, &rules, &args),
    }
}

/// The failure that the flags describe, if they describe one.
fn one_failure(args: &RulesTestArgs) -> Option<Failed> {
    let given =
        args.class.is_some() || args.message.is_some() || args.code.is_some() || args.http_status.is_some();
    given.then(|| Failed {
        code: args.code.clone(),
        http_status: args.http_status,
        ..Failed::new(args.class.clone().unwrap_or_default(), args.message.clone().unwrap_or_default())
    })
}

fn tell_one(out: Out, rules: Rules, failure: &Failed, args: &RulesTestArgs) -> Outcome {
    let ruleset = Ruleset::compile(rules.classify).map_err(|bad| Failure::usage(bad.to_string()))?;
    let place = Place {
        queue: args.queue.as_deref().unwrap_or(""),
        consumer: args.consumer.as_deref(),
        event_type: args.event_type.as_deref(),
    };
    let Classified { verdict, rule, reason, limits, .. } =
        ruleset.classify(failure, &place, Unknown::default());
    if out.json {
        let attempts = limits.attempts.map(std::num::NonZeroU32::get);
        let age = limits.age.map(|age| dlo_core::units::HumanDuration(age).to_string());
        return out.value(&json!({
            "verdict": verdict, "rule": rule, "reason": reason, "attempts": attempts, "age": age,
        }));
    }
    out.line(format!("{} by {rule}, parked as {reason}", out.paint(verdict.as_str(), Tone::Strong)))
}

/// What would change, over all requests.
#[derive(Debug, Default)]
struct Trial {
    scanned: u64,
    attempts: u64,
    /// What, from, to, rule → how many, and one of them.
    changes: BTreeMap<(&'static str, String, String, String), (u64, String)>,
}

impl Trial {
    /// Adds one answer of the office.
    fn take(&mut self, answer: &Value) {
        self.scanned += answer.get("scanned").and_then(Value::as_u64).unwrap_or(0);
        self.attempts += answer.get("attempts_scanned").and_then(Value::as_u64).unwrap_or(0);
        for (what, list) in [("verdict", "verdicts"), ("attempt", "attempts"), ("owner", "owners")] {
            for change in answer.get(list).and_then(Value::as_array).into_iter().flatten() {
                let key = (what, text_of(change, "from"), text_of(change, "to"), text_of(change, "rule"));
                let sample = change.pointer("/samples/0").and_then(Value::as_str).unwrap_or("-");
                let (seen, _) = self.changes.entry(key).or_insert_with(|| (0, sample.to_string()));
                *seen += change.get("count").and_then(Value::as_u64).unwrap_or(0);
            }
        }
    }

    fn changed(&self, what: &str) -> u64 {
        self.changes.iter().filter(|((kind, ..), _)| *kind == what).map(|(_, (seen, _))| seen).sum()
    }
}

fn on_history(client: &Client, out: Out, rules: &Rules, args: &RulesTestArgs) -> Outcome {
    if let Some(file) = args.query.iter().find(|word| Path::new(word).is_file()) {
        return Err(Failure::usage(format!(
            "`{file}` is a file; to try the rules in it write --rules {file}"
        )));
    }
    let query = query_text(&args.query)?;
    let (mut trial, mut progress, mut cursor) = (Trial::default(), Progress::new(), Value::Null);
    while trial.scanned < args.limit {
        let mut body = json!({
            "classify": rules.classify, "query": query, "limit": AT_ONCE.min(args.limit - trial.scanned),
            "attempts": args.attempts,
        });
        if !rules.owners_written.is_empty() {
            body["owners"] = json!(rules.owners_written);
        }
        if cursor.is_string() {
            body["cursor"] = cursor;
        }
        let answer = client.post("/api/v1/rules/test", &body)?;
        trial.take(&answer);
        progress.at(&letters(trial.scanned));
        cursor = answer.get("next_cursor").cloned().unwrap_or_default();
        if cursor.is_null() {
            break;
        }
    }
    progress.end();
    let automation = match rules.automation.as_slice() {
        [] => Value::Null,
        rules => client.post("/api/v1/rules/test-automation", &json!({ "automation": rules }))?["automation"]
            .take(),
    };
    if out.json {
        let mut value = as_json(&trial);
        value["automation"] = automation;
        return out.value(&value);
    }
    tell(out, &trial)?;
    tell_automation(out, &automation)
}

/// What the rules that act by themselves would find.
fn tell_automation(out: Out, tried: &Value) -> Outcome {
    let Some(rules) = tried.as_array().filter(|rules| !rules.is_empty()) else { return Ok(()) };
    let mut table = Table::new(&[
        ("OPEN LETTERS", Align::Right),
        ("ACTION", Align::Left),
        ("RULE", Align::Left),
        ("SUCH AS", Align::Left),
    ]);
    for rule in rules {
        let action = match &rule["action"] {
            Value::String(word) => word.clone(),
            Value::Object(action) => action.keys().next().cloned().unwrap_or_default(),
            _ => String::new(),
        };
        let sample = rule.pointer("/samples/0").and_then(Value::as_str).unwrap_or("-");
        let found = rule.get("letters").and_then(Value::as_u64).unwrap_or(0);
        table.row([&count(found), &action, &clean(&text_of(rule, "name")), sample]);
    }
    out.line("")?;
    out.table(&table)?;
    out.line("rules stand in order: a letter that several find is the first one's; nothing was changed")
}

fn as_json(trial: &Trial) -> Value {
    let changes = trial.changes.iter().map(|((what, from, to, rule), (seen, sample))| {
        json!({ "what": what, "from": from, "to": to, "rule": rule, "letters": seen, "sample": sample })
    });
    json!({
        "letters": trial.scanned, "verdicts_changed": trial.changed("verdict"),
        "attempts": trial.attempts, "attempts_changed": trial.changed("attempt"),
        "owners_changed": trial.changed("owner"), "changes": changes.collect::<Vec<_>>(),
    })
}

fn tell(out: Out, trial: &Trial) -> Outcome {
    let mut table = Table::new(&[
        ("LETTERS", Align::Right),
        ("WHAT", Align::Left),
        ("WAS", Align::Left),
        ("WOULD BE", Align::Left),
        ("BY RULE", Align::Left),
        ("FOR EXAMPLE", Align::Left),
    ]);
    let mut rows: Vec<_> = trial.changes.iter().collect();
    rows.sort_by_key(|(_, (seen, _))| std::cmp::Reverse(*seen));
    for ((what, from, to, rule), (seen, sample)) in rows {
        table.row([&count(*seen), *what, from, to, rule, sample]);
        table.tone(3, Tone::Warn);
    }
    if !table.is_empty() {
        out.table(&table)?;
        out.line("")?;
    }
    out.line(format!(
        "with these rules {} of {} would have been decided otherwise",
        count(trial.changed("verdict")),
        letters(trial.scanned)
    ))?;
    if trial.attempts == 0 {
        return Ok(());
    }
    let changed = trial.changed("attempt");
    out.line(format!("and {} of {} recorded attempts", count(changed), count(trial.attempts)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_add_up_over_the_answers_of_the_office() {
        let answer = json!({
            "scanned": 10, "owners": [],
            "verdicts": [{"from": "dead_letter", "to": "retry", "rule": "tax", "count": 2, "samples": ["a", "b"]}],
            "attempts_scanned": 30,
            "attempts": [{"from": "retry", "to": "discard", "rule": "tax", "count": 3, "samples": ["a"]}],
        });
        let mut trial = Trial::default();
        trial.take(&answer);
        trial.take(&answer);
        assert_eq!((trial.scanned, trial.changed("verdict"), trial.changed("owner")), (20, 4, 0));
        assert_eq!((trial.attempts, trial.changed("attempt")), (60, 6));
        let key = ("verdict", "dead_letter".to_string(), "retry".to_string(), "tax".to_string());
        assert_eq!(trial.changes.get(&key), Some(&(4, "a".to_string())));
    }
}
