//! Each consumer that `dlo consume` would run: its handler, its order, and a broker that leaves it its attempts.

use std::collections::BTreeMap;
use std::sync::Arc;

use dlo_core::broker::{Broker, Order, TopologySpec};
use dlo_runtime::OrderBy;
use dlo_runtime::push::PushHandler;

use super::Finding;
use super::brokers::weakness;
use crate::clock::OfficeClock;
use crate::config::{Config, Consumer};

/// Attempts that consumers make where the config says nothing of them.
const ATTEMPTS: u32 = 5;

/// What is to be said of the consumers, beside what was said of their sources.
pub(super) async fn look(
    config: &Config,
    brokers: &BTreeMap<String, Result<Arc<dyn Broker>, String>>,
    answers: &[&str],
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for consumer in &config.consumers {
        findings.push(handler(consumer).await);
        let Some(Ok(broker)) = brokers.get(&consumer.broker) else { continue };
        findings.extend(order(consumer, &**broker));
        // The plan of a source was looked at with the source, for the same attempts.
        let of_source = config.sources.iter().any(|source| source.name == consumer.name);
        if !of_source && answers.contains(&consumer.broker.as_str()) {
            findings.extend(topology(config, consumer, &**broker).await);
        }
    }
    findings
}

/// The most attempts that any consumer of the queue makes, by its policy or by a rule.
pub(super) fn attempts(config: &Config, broker: &str, queue: &str) -> u32 {
    let of_queue = config.consumers.iter().filter(|one| one.broker == broker && one.queue == queue);
    let by_policy = of_queue.map(|one| one.settings.retry.attempts.get()).max();
    let by_rule = config.rules.classify.iter().filter_map(|rule| rule.attempts).max();
    by_policy.map_or(ATTEMPTS, |most| most.max(by_rule.unwrap_or(0)))
}

fn called(consumer: &Consumer) -> String {
    format!("{} for {}", consumer.settings.group, consumer.name)
}

async fn handler(consumer: &Consumer) -> Finding {
    let (name, address) = (called(consumer), &consumer.push.handler);
    let made = PushHandler::new(&consumer.push, Arc::new(OfficeClock));
    let asked = match made {
        Ok(handler) => handler.is_there().await,
        Err(bad) => return Finding::missing("handler", format!("{name}: {bad}")),
    };
    match asked {
        Ok(()) => Finding::fine("handler", format!("{name}: {address} is there")),
        Err(cause) => {
            Finding::weak("handler", format!("{name}: {cause}\nstart it; `dlo consume` waits for it"))
        }
    }
}

/// Order over restarts and several instances is the broker's to promise.
fn order(consumer: &Consumer, broker: &dyn Broker) -> Option<Finding> {
    let (settings, able) = (&consumer.settings, broker.capabilities());
    let words = match (settings.order, able.order) {
        (OrderBy::None, _) | (_, Order::PerPartition) => return None,
        (OrderBy::Key | OrderBy::Partition, Order::WholeQueue) if settings.alone => return None,
        (OrderBy::Key | OrderBy::Partition, Order::WholeQueue) => {
            "all instances share one queue\nset `alone = true` if there is only one, or leave `order` out"
        }
        (OrderBy::Key | OrderBy::Partition, Order::None) => {
            "it promises none\nuse a broker with partitions, or leave `order` out"
        }
    };
    Some(Finding::missing("order", format!("{}: no order on {}: {words}", called(consumer), able.kind)))
}

async fn topology(config: &Config, consumer: &Consumer, broker: &dyn Broker) -> Vec<Finding> {
    let attempts = attempts(config, &consumer.broker, &consumer.queue);
    let spec = TopologySpec::new(&consumer.queue, &consumer.dlq, attempts);
    match broker.topology().plan(&spec).await {
        Ok(changes) => changes.iter().map(|change| weakness(&consumer.name, change)).collect(),
        Err(error) => {
            vec![Finding::weak("topology", format!("{}: it cannot be looked at: {error}", consumer.name))]
        }
    }
}
