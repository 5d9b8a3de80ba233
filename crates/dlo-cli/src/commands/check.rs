//! `dlo check`: what works, what is missing, and what to do about it.
//!
//! An embedded store that is not there yet is not created; one that is there is opened, as a start would open it. Each
//! check is a line; none stops the others.

mod brokers;
mod consumers;
mod machine;
mod office;

use std::path::Path;

use serde_json::{Value, json};

use crate::args::CheckArgs;
use crate::client::Client;
use crate::config::Config;
use crate::exit::{Exit, Failure, Outcome};
use crate::output::{Out, Tone, clean};
use crate::schemas;

/// How one thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Fine,
    /// It works, and is weaker than it should be.
    Weak,
    Missing,
}

/// One line of the report.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Finding {
    what: &'static str,
    state: State,
    /// How it is, and where that is not fine, what to do.
    words: String,
}

impl Finding {
    fn fine(what: &'static str, words: impl Into<String>) -> Self {
        Self { what, state: State::Fine, words: words.into() }
    }

    fn weak(what: &'static str, words: impl Into<String>) -> Self {
        Self { what, state: State::Weak, words: words.into() }
    }

    fn missing(what: &'static str, words: impl Into<String>) -> Self {
        Self { what, state: State::Missing, words: words.into() }
    }
}

pub(super) fn run(args: &CheckArgs, config: Option<&Path>) -> Outcome {
    let findings = match Config::load(config) {
        Ok(config) => {
            let client = Client::of(&args.client, &config)?;
            all(&config, &client)
        }
        Err(problems) => vec![Finding::missing("config", problems.to_string())],
    };
    report(Out::new(args.client.json), &findings)
}

fn all(config: &Config, client: &Client) -> Vec<Finding> {
    // A running office keeps its data directory and its port; that is no mistake of the config.
    let (office, answers) = office::look(client);
    let mut findings = vec![about(config), machine::door(config)];
    findings.extend(machine::settings(config));
    let (storage, locked) = machine::storage(config, answers);
    findings.extend(storage);
    findings.push(machine::port(config, answers, locked));
    findings.push(office);
    findings.extend(brokers::look(config));
    findings.extend(office::captures(client));
    findings.push(owners(config));
    findings.extend(schemas(config));
    findings
}

/// Said only where the config names one.
fn schemas(config: &Config) -> Option<Finding> {
    let named = schemas::count(config);
    (named > 0).then(|| match schemas::read(config) {
        Ok(_) => Finding::fine("schemas", format!("{named} are read; repairs have to fit them")),
        Err(failure) => Finding::missing("schemas", failure.words),
    })
}

fn about(config: &Config) -> Finding {
    let (sources, rules) = (config.sources.len(), config.rules.classify.len());
    match &config.file {
        Some(file) => Finding::fine(
            "config",
            format!(
                "{} is valid: {sources} sources, {rules} classification rules of your own",
                file.display()
            ),
        ),
        None => Finding::fine("config", "there is no dlo.toml, everything is at its default"),
    }
}

fn owners(config: &Config) -> Finding {
    match config.rules.owners_written.len() {
        0 => Finding::weak(
            "owners",
            "no rule names an owner: letters belong to nobody\n  add `owner` to a source, or `[[rules.owners]]`",
        ),
        rules => Finding::fine("owners", format!("{rules} rules name owners")),
    }
}

fn report(out: Out, findings: &[Finding]) -> Outcome {
    let missing = findings.iter().filter(|finding| finding.state == State::Missing).count();
    if out.json {
        out.value(&as_json(findings, missing == 0))?;
    }
    for finding in findings.iter().filter(|_| !out.json) {
        let mark = match finding.state {
            State::Fine => out.paint("✓", Tone::Good),
            State::Weak => out.paint("!", Tone::Warn),
            State::Missing => out.paint("✗", Tone::Bad),
        };
        let mut lines = finding.words.lines().map(clean);
        out.line(format!("{mark} {:<8} {}", finding.what, lines.next().unwrap_or_default()))?;
        for line in lines {
            out.line(format!("           {}", line.trim_start()))?;
        }
    }
    match missing {
        0 => Ok(()),
        1 => Err(Failure::new(Exit::Failed, "one thing is missing")),
        more => Err(Failure::new(Exit::Failed, format!("{more} things are missing"))),
    }
}

fn as_json(findings: &[Finding], ok: bool) -> Value {
    let checks: Vec<Value> = findings
        .iter()
        .map(|finding| {
            let state = match finding.state {
                State::Fine => "ok",
                State::Weak => "weak",
                State::Missing => "missing",
            };
            json!({ "check": finding.what, "state": state, "detail": finding.words })
        })
        .collect();
    json!({ "ok": ok, "checks": checks })
}
