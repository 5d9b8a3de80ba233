//! `[brokers.*]` and `[[sources]]`: which queues the office cares for.

use std::time::Duration;

use dlo_brokers::BrokerConfig;
use dlo_core::origin::BrokerKind;

use super::reader::Section;

/// A broker, by the name that sources use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broker {
    pub(crate) name: String,
    pub(crate) kind: BrokerKind,
    /// `None` after a problem was noted.
    pub(crate) settings: Option<BrokerConfig>,
}

/// A queue under the office's care.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    /// What people call it.
    pub(crate) name: String,
    /// `None`: its letters are sent over HTTP.
    pub(crate) broker: Option<String>,
    pub(crate) queue: String,
    /// Where dead letters are captured from. Only with a broker.
    pub(crate) dlq: Option<String>,
    pub(crate) owner: Option<String>,
    /// Replay needs approval.
    pub(crate) critical: bool,
    pub(crate) retention: Option<Duration>,
    /// The line in the file, for messages.
    pub(crate) line: Option<usize>,
}

/// Years that retention is at most.
const LONGEST: Duration = Duration::from_secs(10 * 365 * 86_400);

/// Letters over HTTP come by themselves.
const NO_BROKER: &str = "needs no broker: leave the section and the source's `broker` out, and send letters to POST /api/v1/letters";

pub(super) fn brokers(root: &Section<'_>) -> Vec<Broker> {
    let mut brokers = Vec::new();
    for (name, section) in root.named("brokers") {
        let Some(kind) = section.word::<BrokerKind>("kind") else {
            if !section.keys().iter().any(|key| key == "kind") {
                section
                    .problem("kind", format!("is missing; expected one of {}", BrokerKind::WORDS.join(", ")));
            }
            continue;
        };
        let settings = match kind {
            BrokerKind::Http => {
                section.problem("kind", format!("\"{kind}\" {NO_BROKER}"));
                None
            }
            _ => section.decode(),
        };
        brokers.push(Broker { name, kind, settings });
    }
    brokers
}

pub(super) fn sources(root: &Section<'_>, brokers: &[Broker]) -> Vec<Source> {
    let mut sources: Vec<Source> = Vec::new();
    for section in root.sections("sources") {
        let Some(source) = source(&section, brokers) else { continue };
        if sources.iter().any(|other| other.name == source.name) {
            section
                .problem("name", format!("\"{}\" is taken by another source; names are unique", source.name));
        }
        sources.push(source);
    }
    sources
}

fn source(section: &Section<'_>, brokers: &[Broker]) -> Option<Source> {
    let name = section.name("name");
    let broker = section.name("broker");
    let queue = section.name("queue");
    let dlq = section.name("dlq");
    let owner = section.name("owner");
    let critical = section.flag("critical").unwrap_or(false);
    let retention = section.duration("retention", Duration::from_secs(3_600)..=LONGEST);
    section.check();
    if name.is_none() && !section.keys().iter().any(|key| key == "name") {
        section.problem("name", "is missing; give the source the name that people call it by");
    }
    if let Some(named) = &broker
        && !brokers.iter().any(|known| known.name == *named)
    {
        let names: Vec<&str> = brokers.iter().map(|broker| broker.name.as_str()).collect();
        let what = match super::problem::near(named, &names) {
            Some(meant) => format!("\"{named}\" is not under [brokers]; did you mean \"{meant}\"?"),
            None if names.is_empty() => {
                format!("\"{named}\" is not under [brokers]; add `[brokers.{named}]`")
            }
            None => format!("\"{named}\" is not under [brokers]; known: {}", names.join(", ")),
        };
        section.problem("broker", what);
    }
    if dlq.is_some() && broker.is_none() {
        section.problem("dlq", "needs a `broker` to capture it from; letters sent over HTTP need no dlq");
    }
    let name = name?;
    let queue = queue.unwrap_or_else(|| name.clone());
    Some(Source { name, broker, queue, dlq, owner, critical, retention, line: section.line() })
}
