//! `dlo.toml`: text → typed config, or everything that is wrong with it.
//!
//! Every value has a safe default, so no file at all is a valid config. A name that is not known is refused with its
//! line and the near one; variables are filled in after parsing and cannot become syntax. What is secret is a
//! [`Secret`] from the first line on. Flags are laid over the file by the commands.
//!
//! The settings themselves are read in `server.rs`, `sources.rs`, `consumers.rs`, `replay.rs` and `rules.rs`, one section each.

mod consumers;
mod decode;
mod expand;
mod problem;
mod reader;
mod replay;
mod rules;
mod secret;
mod server;
mod sources;
mod teams;
mod values;

use std::path::{Path, PathBuf};

use dlo_core::pattern::RuleError;
use toml_edit::Document;

pub(crate) use consumers::{Consume, Consumer};
pub(crate) use problem::{Problem, Problems};
pub(crate) use replay::{Replay, SourceReplay};
pub(crate) use rules::Rules;
pub(crate) use secret::{Secret, without_password};
pub(crate) use server::{Limits, Log, LogStyle, Server, Storage, address, is_postgres};
pub(crate) use sources::{Broker, Source};

use expand::Lookup;
use reader::{Reader, Section};

/// Bytes of a config file.
const LARGEST: u64 = 1024 * 1024;

/// Everything that can be set, with everything that was not set at its default.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    /// The file that was read; `None`: there was none and all is default.
    pub(crate) file: Option<PathBuf>,
    pub(crate) server: Server,
    pub(crate) brokers: Vec<Broker>,
    pub(crate) sources: Vec<Source>,
    pub(crate) consume: Consume,
    pub(crate) consumers: Vec<Consumer>,
    pub(crate) replay: Replay,
    pub(crate) rules: Rules,
    pub(crate) log: Log,
}

impl Config {
    /// Reads the file that was named, else `./dlo.toml` if it is there, else nothing.
    pub(crate) fn load(named: Option<&Path>) -> Result<Self, Problems> {
        let usual = Path::new("dlo.toml");
        let path = match named {
            Some(path) => path,
            None if usual.exists() => usual,
            None => return Ok(Self::default()),
        };
        let file = path.display().to_string();
        let text = read(path)
            .map_err(|what| Problems { file: file.clone(), list: vec![Problem { line: None, what }] })?;
        let mut config = Self::parse(&file, &text, &|name| std::env::var(name).ok())?;
        config.file = Some(path.to_path_buf());
        if let Some(owners) = config.rules.owners_file.clone() {
            let taken = teams::owners_file(path.parent(), &owners).and_then(|rules| {
                let told = |bad: RuleError| {
                    vec![Problem { line: None, what: format!("`rules.owners_file`: {bad}") }]
                };
                config.rules.take_up(rules).map_err(told)
            });
            taken.map_err(|list| Problems { file, list })?;
        }
        Ok(config)
    }

    /// Reads a config from text; `file` is its name in messages.
    pub(crate) fn parse(file: &str, text: &str, env: Lookup<'_>) -> Result<Self, Problems> {
        let reader = Reader::new(text, env);
        let fail = |list| Problems { file: file.to_string(), list };
        let document = Document::parse(text).map_err(|bad| {
            let what = format!("this is not TOML: {}", bad.message().replace('\n', " "));
            fail(vec![Problem { line: reader.line(bad.span()), what }])
        })?;
        let config = read_all(&Section::root(&reader, document.as_table()));
        let problems = reader.into_problems();
        if problems.is_empty() { Ok(config) } else { Err(fail(problems)) }
    }

    /// Reads a file that holds nothing but rules, to try them.
    pub(crate) fn rules_of(path: &Path) -> Result<Rules, Problems> {
        Self::load(Some(path)).map(|config| config.rules)
    }
}

fn read_all(root: &Section<'_>) -> Config {
    let server = server::read(root.section("server"));
    let brokers = sources::brokers(root);
    let sources = sources::sources(root, &brokers);
    let rules = rules::read(root, &sources);
    let replay = replay::read(&root.section("replay"));
    let log = server::log(root.section("log"));
    let consume = consumers::consume(root.section("consume"));
    let consumers = consumers::consumers(root, &brokers, &sources);
    root.check();
    Config { file: None, server, brokers, sources, consume, consumers, replay, rules, log }
}

fn read(path: &Path) -> Result<String, String> {
    let size = std::fs::metadata(path).map_err(|cause| format!("cannot be read: {cause}"))?.len();
    if size > LARGEST {
        return Err(format!("has {size} bytes; a config has at most {LARGEST}"));
    }
    std::fs::read_to_string(path).map_err(|cause| format!("cannot be read: {cause}"))
}

#[cfg(test)]
mod tests;
