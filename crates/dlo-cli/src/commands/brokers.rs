//! The brokers of the config, for commands that talk to them: one connection each, however many sources share it.

use std::collections::BTreeMap;
use std::sync::Arc;

use dlo_core::broker::Broker;
use dlo_core::time::Clock;

use crate::clock::OfficeClock;
use crate::config::{Config, Source};
use crate::exit::{Exit, Failure, Outcome};

/// A source, its broker and its dead-letter queue.
#[derive(Debug, Clone)]
pub(super) struct Placed<'a> {
    pub(super) source: &'a Source,
    pub(super) dlq: &'a str,
    pub(super) broker: Arc<dyn Broker>,
}

/// Every broker under its name. Settings that cannot work are told with that name.
pub(super) async fn connected(config: &Config) -> BTreeMap<String, Result<Arc<dyn Broker>, String>> {
    let clock: Arc<dyn Clock> = Arc::new(OfficeClock);
    let mut brokers = BTreeMap::new();
    for broker in &config.brokers {
        let Some(settings) = &broker.settings else { continue };
        let made = dlo_brokers::connect(settings, Arc::clone(&clock)).await;
        brokers.insert(broker.name.clone(), made.map_err(|cause| cause.to_string()));
    }
    brokers
}

/// The named sources, or all that have a broker and a dead-letter queue. One that is not there is said with the near
/// names.
pub(super) async fn placed<'a>(config: &'a Config, names: &[String]) -> Outcome<Vec<Placed<'a>>> {
    let brokers = connected(config).await;
    for name in names {
        if !config.sources.iter().any(|source| source.name == *name) {
            let known: Vec<&str> = config.sources.iter().map(|source| source.name.as_str()).collect();
            let known = if known.is_empty() { "there are none".to_owned() } else { known.join(", ") };
            return Err(Failure::new(
                Exit::NotFound,
                format!("`{name}` is not a source of the config; known: {known}"),
            ));
        }
    }
    let wanted = |source: &&Source| names.is_empty() || names.contains(&source.name);
    let mut all = Vec::new();
    for source in config.sources.iter().filter(wanted) {
        let (Some(name), Some(dlq)) = (&source.broker, &source.dlq) else {
            if names.is_empty() {
                continue;
            }
            return Err(Failure::usage(format!(
                "source `{}` has no `broker` and `dlq` in the config: its letters come over HTTP, there is nothing to look at",
                source.name
            )));
        };
        match brokers.get(name) {
            Some(Ok(broker)) => all.push(Placed { source, dlq, broker: Arc::clone(broker) }),
            Some(Err(cause)) => return Err(Failure::failed(format!("broker `{name}`: {cause}"))),
            None => return Err(Failure::usage(format!("broker `{name}` is not under [brokers]"))),
        }
    }
    if all.is_empty() {
        return Err(Failure::usage(
            "no source of the config has a `broker` and a `dlq`; see docs/reference/config.md",
        ));
    }
    Ok(all)
}
