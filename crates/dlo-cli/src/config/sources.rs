//! `[brokers.*]` and `[[sources]]`: which queues the office cares for.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::time::Duration;

use dlo_brokers::BrokerConfig;
use dlo_core::automation::AutomationRule;
use dlo_core::conventions::Mapper;
use dlo_core::limits;
use dlo_core::origin::BrokerKind;
use dlo_server::{CaptureLimits, Mode};

use super::reader::Section;
use super::replay::{self, SourceReplay};
use crate::features;

/// A broker, by the name that sources use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broker {
    pub(crate) name: String,
    pub(crate) kind: BrokerKind,
    /// `None` after a problem was noted.
    pub(crate) settings: Option<BrokerConfig>,
    /// How the dead-letter queue of a queue is called, where a source does not say.
    pub(crate) dlq: Template,
}

/// A name with `{queue}` in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template(String);

impl Template {
    /// Where the queue's own name goes.
    const QUEUE: &str = "{queue}";

    /// The usual name among the users of a broker, within what the broker allows in names.
    fn usual(kind: BrokerKind, flavour: Option<&str>) -> Self {
        let name = match kind {
            // Service Bus has one for every queue and allows no other.
            BrokerKind::Amqp1 if flavour == Some("servicebus") => "{queue}/$deadletterqueue",
            BrokerKind::Redis => "{queue}:dlq",
            BrokerKind::Sqs => "{queue}-dlq",
            BrokerKind::Sql => "{queue}_dlq",
            BrokerKind::Kafka | BrokerKind::Rabbitmq | BrokerKind::Nats | BrokerKind::Amqp1 => "{queue}.dlq",
            BrokerKind::Stomp | BrokerKind::Pubsub | BrokerKind::Memory | BrokerKind::Http => "{queue}.dlq",
        };
        Self(name.to_string())
    }

    pub(crate) fn name(&self, queue: &str) -> String {
        match queue.strip_suffix(".fifo").filter(|_| !self.0.ends_with(".fifo")) {
            // SQS knows a FIFO queue by this ending, and only one such can be the dead-letter queue of another.
            Some(base) => format!("{}.fifo", self.0.replace(Self::QUEUE, base)),
            None => self.0.replace(Self::QUEUE, queue),
        }
    }
}

/// A queue under the office's care.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Source {
    /// What people call it.
    pub(crate) name: String,
    /// `None`: its letters are sent over HTTP.
    pub(crate) broker: Option<String>,
    pub(crate) queue: String,
    /// Where dead letters are captured from; with a broker always set.
    pub(crate) dlq: Option<String>,
    pub(crate) mode: Mode,
    /// How home-made headers and envelopes are read.
    pub(crate) mapper: Mapper,
    pub(crate) limits: CaptureLimits,
    pub(crate) owner: Option<String>,
    /// Replay needs approval.
    pub(crate) critical: bool,
    pub(crate) replay: SourceReplay,
    /// What is done with its letters without a person.
    pub(crate) automation: Vec<AutomationRule>,
    pub(crate) retention: Option<Duration>,
    /// The file of the JSON Schema that repaired payloads have to fit; beside the config file.
    pub(crate) schema: Option<String>,
    /// The same by type of event, which goes before.
    pub(crate) schemas: BTreeMap<String, String>,
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
        let settings = match (kind, features::lacking(kind.as_str())) {
            (BrokerKind::Http, _) => {
                section.problem("kind", format!("\"{kind}\" {NO_BROKER}"));
                None
            }
            (_, Some(lacking)) => {
                section.problem("kind", format!("\"{kind}\": {lacking}"));
                None
            }
            (_, None) => section.decode(&["dlq"]),
        };
        let dlq = template(&section, kind);
        brokers.push(Broker { name, kind, settings, dlq });
    }
    brokers
}

fn template(section: &Section<'_>, kind: BrokerKind) -> Template {
    let usual = Template::usual(kind, section.text("flavour").as_deref());
    let Some(text) = section.name("dlq") else { return usual };
    if !text.contains(Template::QUEUE) {
        let what = format!(
            "names the dead-letter queue of every queue, so it needs `{{queue}}` in it, such as \"{}\"",
            usual.0
        );
        section.problem("dlq", what);
    }
    Template(text)
}

/// `mode` and `limits`: how a dead-letter queue is captured.
fn capture(section: &Section<'_>) -> (Mode, CaptureLimits) {
    let mode = match section.text("mode").as_deref() {
        None | Some("drain") => Mode::Drain,
        Some("mirror") => Mode::Mirror,
        Some(other) => {
            section.problem("mode", format!("expected \"drain\" or \"mirror\", found \"{other}\""));
            Mode::Drain
        }
    };
    let given = section.section("limits");
    let rate =
        given.number("rate", 1..=1_000_000).and_then(|rate| NonZeroU32::new(u32::try_from(rate).ok()?));
    let waiting =
        given.size("waiting", 64 * 1024..=1024 * 1024 * 1024).and_then(|size| usize::try_from(size).ok());
    given.check();
    let usual = CaptureLimits::default();
    (mode, CaptureLimits { rate, waiting: waiting.unwrap_or(usual.waiting) })
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
    let replay = replay::of_source(section, critical);
    let named = name.clone().unwrap_or_default();
    let automation = replay::automation(section, &named, critical, replay.settings.limit);
    let schema = section.text("schema");
    let by_type = section.section("schemas");
    let schemas = by_type.is_there().then(|| by_type.decode(&[])).flatten().unwrap_or_default();
    let (mode, allowed) = capture(section);
    let mapper = section.section("mapper");
    let mapper = mapper.is_there().then(|| mapper.decode(&[])).flatten().unwrap_or_default();
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
    if broker.is_none() {
        for key in ["dlq", "mode", "mapper", "limits"]
            .into_iter()
            .filter(|key| section.keys().iter().any(|there| there == key))
        {
            let what = format!("needs a `broker` to capture from; letters sent over HTTP need no {key}");
            section.problem(key, what);
        }
    }
    let name = name?;
    let queue = queue.unwrap_or_else(|| name.clone());
    let known = broker.as_ref().and_then(|named| brokers.iter().find(|known| known.name == *named));
    replay::refuse_for(section, known.map(|broker| broker.kind));
    let dlq = dlq.or_else(|| known.map(|broker| broker.dlq.name(&queue)));
    if dlq.as_ref().is_some_and(|dlq| dlq.chars().count() > limits::NAME) {
        section
            .problem("queue", format!("makes a dead-letter queue of more than {} characters", limits::NAME));
    }
    let line = section.line();
    Some(Source {
        name,
        broker,
        queue,
        dlq,
        mode,
        mapper,
        limits: allowed,
        owner,
        critical,
        replay,
        automation,
        retention,
        schema,
        schemas,
        line,
    })
}
