//! Each broker and each source with one: reachable, allowed, there, strong enough; and the command that mends it.

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError, Gravity, TopologyChange, TopologySpec};

use super::{Finding, consumers};
use crate::block_on::block_on;
use crate::commands::brokers::connected;
use crate::config::{Config, Source};
use crate::wire;

pub(super) fn look(config: &Config) -> Vec<Finding> {
    let looked = block_on(async { Ok(everything(config).await) });
    looked.unwrap_or_else(|failure| vec![Finding::missing("broker", failure.words)])
}

async fn everything(config: &Config) -> Vec<Finding> {
    let brokers = connected(config).await;
    let mut findings = Vec::new();
    let mut answers = Vec::new();
    for (name, broker) in &brokers {
        let (finding, there) = match broker {
            Ok(broker) => reachable(name, &**broker).await,
            Err(cause) => (Finding::missing("broker", format!("{name}: {cause}")), false),
        };
        findings.push(finding);
        if there {
            answers.push(name.as_str());
        }
    }
    for source in &config.sources {
        let (Some(name), Some(dlq)) = (&source.broker, &source.dlq) else {
            findings.push(Finding::fine(
                "source",
                format!("{}: its letters are sent to POST /api/v1/letters", source.name),
            ));
            continue;
        };
        let Some(Ok(broker)) = brokers.get(name) else { continue };
        // As `dlo serve` refuses it, whether the broker answers or not.
        if let Err(refused) = wire::capture(source, dlq, Arc::clone(broker)) {
            findings.push(Finding::missing("source", refused.words));
            continue;
        }
        // A broker that does not answer was said once; its sources would only say it again.
        if answers.contains(&name.as_str()) {
            let attempts = consumers::attempts(config, name, &source.queue);
            findings.extend(of_source(source, dlq, attempts, &**broker).await);
        }
    }
    findings.extend(consumers::look(config, &brokers, &answers).await);
    findings
}

async fn reachable(name: &str, broker: &dyn Broker) -> (Finding, bool) {
    let kind = broker.capabilities().kind;
    match broker.ping().await {
        Ok(Some(product)) => (Finding::fine("broker", format!("{name}: {product} answers")), true),
        Ok(None) => (Finding::fine("broker", format!("{name}: {kind} answers")), true),
        Err(error) => {
            let advice = match &error {
                BrokerError::Unavailable(_) => "start it, or mend its address under [brokers]",
                BrokerError::Refused(_) => "mend the settings or the rights that it names",
                BrokerError::Missing(_) | BrokerError::Closed => "look at the broker's own log",
                _ => "see docs/reference/brokers",
            };
            (Finding::missing("broker", format!("{name}: {error}\n{advice}")), false)
        }
    }
}

async fn of_source(source: &Source, dlq: &str, attempts: u32, broker: &dyn Broker) -> Vec<Finding> {
    let name = &source.name;
    let mut findings = Vec::new();
    match broker.inspector().inspect(dlq, None).await {
        Ok(state) => {
            let waiting = state.depth.map_or(String::new(), |depth| format!(", {depth} waiting there"));
            findings.push(Finding::fine(
                "source",
                format!("{name}: dead letters are captured from {dlq}{waiting}"),
            ));
        }
        // The plan says it with the way to mend it.
        Err(BrokerError::Missing(_)) => {}
        Err(error) => findings.push(Finding::missing("source", format!("{name}: {dlq}: {error}"))),
    }
    let spec = TopologySpec::new(&source.queue, dlq, attempts);
    match broker.topology().plan(&spec).await {
        Ok(changes) => findings.extend(changes.iter().map(|change| weakness(name, change))),
        Err(error) => {
            findings.push(Finding::weak("topology", format!("{name}: it cannot be looked at: {error}")))
        }
    }
    findings
}

pub(super) fn weakness(source: &str, change: &TopologyChange) -> Finding {
    let mut words = format!("{source}: {}", change.what);
    if change.appliable {
        words.push_str(&format!("\ndlo topology apply {source} --yes"));
    }
    if let Some(command) = &change.command {
        words.push_str(&format!("\n{command}"));
    }
    match change.gravity {
        Gravity::Missing => Finding::missing("topology", words),
        Gravity::Weak => Finding::weak("topology", words),
    }
}
