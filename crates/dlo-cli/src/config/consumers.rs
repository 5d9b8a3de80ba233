//! `[consume]` and `[[consumers]]`: what `dlo consume` reads, and to which handler it pushes.
//!
//! How a consumer works is `dlo_runtime::ConsumerConfig`, all of whose keys stand here beside ours: where it reads
//! (`source`, or `broker` and `queue`) and where it pushes (`handler`, `batch`, `health`).

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use dlo_core::limits;
use dlo_runtime::ConsumerConfig;
use dlo_runtime::push::{self, BadOffice, Batch, OfficeReceipts, PushConfig};

use super::problem::near;
use super::reader::Section;
use super::secret::Secret;
use super::sources::{Broker, Source};

/// How `dlo consume` itself runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Consume {
    /// Health, status and metrics.
    pub(crate) listen: SocketAddr,
    /// Demanded from everybody who asks for status or metrics; needed to listen beyond loopback.
    pub(crate) token: Option<Secret>,
    /// Journals and spools of the consumers that name no `state` of their own.
    pub(crate) data: PathBuf,
    /// Where receipts of replayed messages go.
    pub(crate) office: Option<Office>,
}

/// An office that is told which replayed messages were handled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Office {
    pub(crate) address: String,
    pub(crate) token: Option<Secret>,
}

impl Default for Consume {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 8405)),
            token: None,
            data: PathBuf::from("dlo-consume-data"),
            office: None,
        }
    }
}

/// One consumer that `dlo consume` runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Consumer {
    /// The source's name where it reads one, else the queue's.
    pub(crate) name: String,
    pub(crate) broker: String,
    pub(crate) queue: String,
    pub(crate) dlq: String,
    pub(crate) push: PushConfig,
    pub(crate) settings: ConsumerConfig,
}

/// The keys that are ours; the others are the runtime's.
const OURS: [&str; 6] = ["source", "broker", "queue", "handler", "batch", "health"];

pub(super) fn consume(section: Section<'_>) -> Consume {
    let default = Consume::default();
    let listen = section.text("listen").and_then(|text| {
        let address = super::address(&text);
        if address.is_none() {
            let shown: String = text.chars().take(64).collect();
            let what = format!("expected an address such as \"127.0.0.1:8405\", found \"{shown}\"");
            section.problem("listen", what);
        }
        address
    });
    let (data, token) = (section.path("data"), super::server::token(&section));
    let office = office(&section);
    section.check();
    Consume { listen: listen.unwrap_or(default.listen), token, data: data.unwrap_or(default.data), office }
}

fn office(section: &Section<'_>) -> Option<Office> {
    let (address, token) = (section.text("office"), section.text("office_token"));
    let Some(address) = address else {
        if token.is_some() {
            section.problem("office_token", "is of no use without `office`, the address of the office");
        }
        return None;
    };
    match OfficeReceipts::new(&address, token.as_deref()) {
        Ok(_) => Some(Office { address, token: token.map(Secret::new) }),
        Err(bad @ BadOffice::Address(_)) => {
            section.problem("office", bad.to_string());
            None
        }
        Err(bad @ BadOffice::Token) => {
            section.problem("office_token", bad.to_string());
            None
        }
    }
}

pub(super) fn consumers(root: &Section<'_>, brokers: &[Broker], sources: &[Source]) -> Vec<Consumer> {
    let mut consumers: Vec<Consumer> = Vec::new();
    for section in root.sections("consumers") {
        let Some(consumer) = consumer(&section, brokers, sources) else { continue };
        let same = |other: &&Consumer| {
            (&other.broker, &other.queue, &other.settings.group)
                == (&consumer.broker, &consumer.queue, &consumer.settings.group)
        };
        if consumers.iter().any(|other| same(&other)) {
            let group = &consumer.settings.group;
            section.problem(
                "group",
                format!("\"{group}\" reads this queue in another entry; one consumer has one handler"),
            );
        }
        consumers.push(consumer);
    }
    consumers
}

fn consumer(section: &Section<'_>, brokers: &[Broker], sources: &[Source]) -> Option<Consumer> {
    let place = place(section, brokers, sources);
    let push = handler(section);
    let settings: Option<ConsumerConfig> = section.decode(&OURS);
    let settings = settings.filter(|settings| {
        let named = (1..=limits::NAME).contains(&settings.group.chars().count());
        if !named {
            let what = format!("is missing; name the consumer group, 1 to {} characters", limits::NAME);
            section.problem("group", what);
        }
        named
    })?;
    let (name, broker, queue, dlq) = place?;
    let dlq = settings.dlq.clone().unwrap_or(dlq);
    Some(Consumer { name, broker, queue, dlq, push: push?, settings })
}

/// Name, broker, queue and usual dead-letter queue: of the source, or written out.
fn place(
    section: &Section<'_>,
    brokers: &[Broker],
    sources: &[Source],
) -> Option<(String, String, String, String)> {
    let (source, broker, queue) = (section.name("source"), section.name("broker"), section.name("queue"));
    match (source, broker, queue) {
        (Some(name), None, None) => of_source(section, &name, sources),
        (None, Some(broker), Some(queue)) => {
            let Some(known) = brokers.iter().find(|known| known.name == broker) else {
                let names = brokers.iter().map(|known| known.name.as_str());
                section.problem("broker", unknown(&broker, "under [brokers]", &names.collect::<Vec<_>>()));
                return None;
            };
            let dlq = known.dlq.name(&queue);
            Some((queue.clone(), broker, queue, dlq))
        }
        (Some(_), _, _) => {
            section.problem(
                "source",
                "has a broker and a queue of its own: leave `broker` and `queue` out, or `source`",
            );
            None
        }
        (None, _, _) => {
            section.problem("source", "is missing; name one of [[sources]], or write `broker` and `queue`");
            None
        }
    }
}

fn of_source(
    section: &Section<'_>,
    name: &str,
    sources: &[Source],
) -> Option<(String, String, String, String)> {
    let Some(source) = sources.iter().find(|source| source.name == name) else {
        let names = sources.iter().map(|source| source.name.as_str());
        section.problem("source", unknown(name, "one of [[sources]]", &names.collect::<Vec<_>>()));
        return None;
    };
    let (Some(broker), Some(dlq)) = (&source.broker, &source.dlq) else {
        section.problem("source", format!("\"{name}\" has no `broker`: there is nothing to read from"));
        return None;
    };
    Some((source.name.clone(), broker.clone(), source.queue.clone(), dlq.clone()))
}

fn unknown(found: &str, what: &str, known: &[&str]) -> String {
    match near(found, known) {
        Some(meant) => format!("\"{found}\" is not {what}; did you mean \"{meant}\"?"),
        None if known.is_empty() => format!("\"{found}\" is not {what}; there are none"),
        None => format!("\"{found}\" is not {what}; known: {}", known.join(", ")),
    }
}

fn handler(section: &Section<'_>) -> Option<PushConfig> {
    let address = |key| {
        let text = section.text(key)?;
        if let Err(bad) = push::check(&text) {
            section.problem(key, bad.to_string());
            return None;
        }
        Some(text)
    };
    let handler = address("handler");
    if handler.is_none() && !section.keys().iter().any(|key| key == "handler") {
        section.problem("handler", "is missing; give its address, such as \"http://127.0.0.1:9000/price\"");
    }
    let health = address("health");
    let batch = section.section("batch");
    let batch: Option<Batch> = batch.is_there().then(|| batch.decode(&[])).flatten();
    Some(PushConfig { handler: handler?, batch, health })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use dlo_runtime::OrderBy;

    use crate::config::Config;

    const HOUSE: &str = "[brokers.shop]\nkind = \"memory\"\n[[sources]]\nname = \"orders\"\nbroker = \"shop\"\n[[sources]]\nname = \"mail\"\n[[consumers]]\n";

    fn parse(entry: &str) -> Result<Config, String> {
        Config::parse("dlo.toml", &format!("{HOUSE}{entry}"), &|_| None)
            .map_err(|problems| problems.to_string())
    }

    #[test]
    fn a_consumer_reads_a_source_and_has_every_setting_of_the_runtime() {
        let config = parse(
            "source = \"orders\"\ngroup = \"pricing\"\nhandler = \"http://127.0.0.1:9000/price\"\nconcurrency = 8\norder = \"key\"\ntimeout = \"10s\"\nbatch = { size = 10 }\nretry = { attempts = 3, base = \"200ms\", cap = \"30s\", jitter = \"full\", quick = 2 }\n[consume]\nlisten = \"127.0.0.1:0\"",
        )
        .unwrap();
        let consumer = &config.consumers[0];
        assert_eq!(
            (consumer.broker.as_str(), consumer.queue.as_str(), consumer.dlq.as_str()),
            ("shop", "orders", "orders.dlq")
        );
        assert_eq!((consumer.settings.concurrency, consumer.settings.order), (8, OrderBy::Key));
        assert_eq!(consumer.settings.retry.attempts.get(), 3);
        assert_eq!(consumer.push.batch.unwrap().linger, Duration::from_millis(2));
        assert_eq!(config.consume.listen.port(), 0);
        let direct = parse(
            "broker = \"shop\"\nqueue = \"jobs\"\ngroup = \"a\"\nhandler = \"http://h/\"\ndlq = \"dead\"",
        )
        .unwrap();
        assert_eq!((direct.consumers[0].name.as_str(), direct.consumers[0].dlq.as_str()), ("jobs", "dead"));
    }

    #[test]
    fn an_office_for_receipts_is_an_address_and_its_token_is_not_shown() {
        let parse =
            |text: &str| Config::parse("dlo.toml", text, &|_| None).map_err(|problems| problems.to_string());
        let config =
            parse("[consume]\noffice = \"http://127.0.0.1:8404\"\noffice_token = \"hunter2\"").unwrap();
        let office = config.consume.office.clone().unwrap();
        assert_eq!(
            (office.address.as_str(), office.token.unwrap().reveal()),
            ("http://127.0.0.1:8404", "hunter2")
        );
        assert!(!format!("{:?}", config.consume).contains("hunter2"));
        for (text, words) in [
            (
                "office = \"office\"",
                "line 2: `consume.office` expected the address of the office, such as http://127.0.0.1:8404: it is not a URL",
            ),
            (
                "office_token = \"t\"",
                "line 2: `consume.office_token` is of no use without `office`, the address of the office",
            ),
            ("offise = \"http://h\"", "line 2: `consume.offise` is not a setting; did you mean `office`?"),
        ] {
            let refusal = parse(&format!("[consume]\n{text}")).map(|_| ()).unwrap_err();
            assert_eq!(refusal, format!("dlo.toml, {words}"));
        }
    }

    #[test]
    fn a_consumer_that_cannot_work_is_refused_with_directions() {
        let whole = "group = \"g\"\nhandler = \"http://h/\"\n";
        for (entry, words) in [
            (
                "source = \"orders\"\ngroup = \"g\"".to_owned(),
                "line 8: `consumers[1].handler` is missing; give its address, such as \"http://127.0.0.1:9000/price\"",
            ),
            (
                "source = \"orders\"\nhandler = \"http://h/\"".to_owned(),
                "line 8: `consumers[1].group` is missing; name the consumer group, 1 to 256 characters",
            ),
            (
                "source = \"orders\"\ngroup = \"g\"\nhandler = \"ftp://h/\"".to_owned(),
                "line 11: `consumers[1].handler` expected an address such as http://127.0.0.1:9000/price: it begins with http:// or https://",
            ),
            (
                format!("source = \"ordres\"\n{whole}"),
                "line 9: `consumers[1].source` \"ordres\" is not one of [[sources]]; did you mean \"orders\"?",
            ),
            (
                format!("source = \"mail\"\n{whole}"),
                "line 9: `consumers[1].source` \"mail\" has no `broker`: there is nothing to read from",
            ),
            (
                format!("source = \"orders\"\nqueue = \"q\"\n{whole}"),
                "line 9: `consumers[1].source` has a broker and a queue of its own: leave `broker` and `queue` out, or `source`",
            ),
            (
                whole.to_owned(),
                "line 8: `consumers[1].source` is missing; name one of [[sources]], or write `broker` and `queue`",
            ),
            (
                format!("broker = \"shpo\"\nqueue = \"q\"\n{whole}"),
                "line 9: `consumers[1].broker` \"shpo\" is not under [brokers]; did you mean \"shop\"?",
            ),
            (
                format!("source = \"orders\"\n{whole}concurency = 3"),
                "line 12: `consumers[1].concurency` is not a setting; did you mean `concurrency`?",
            ),
            (
                format!("source = \"orders\"\n{whole}heatlh = \"http://h/\""),
                "line 12: `consumers[1].heatlh` is not a setting; did you mean `health`?",
            ),
            (
                format!("source = \"orders\"\n{whole}batch = {{ size = 0 }}"),
                "line 12: `consumers[1].batch`: `size`: expected 1 to 1000 messages, found 0",
            ),
            (
                format!("source = \"orders\"\n{whole}[[consumers]]\nsource = \"orders\"\n{whole}"),
                "line 14: `consumers[2].group` \"g\" reads this queue in another entry; one consumer has one handler",
            ),
        ] {
            assert_eq!(parse(&entry).map(|_| ()).unwrap_err(), format!("dlo.toml, {words}"), "in:\n{entry}");
        }
    }
}
