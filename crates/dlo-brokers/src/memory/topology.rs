//! Looking at queues from outside, and creating those that should be there.
//!
//! What is weaker than asked is said; what can be mended without losing anything is mended. Partitions are not
//! added to a queue that exists: keys would move to others, and their order would be lost.

use std::num::NonZeroU16;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Inspect, QueueState, Topology, TopologyChange, TopologySpec};

use super::queue::Queue;
use super::{DeadLetters, MemoryBroker, QueueOptions};

/// How far the broker's delivery limit lies above the runtime's attempts: pauses and restarts count as deliveries too.
const SLACK: u32 = 10;

#[async_trait]
impl Inspect for MemoryBroker {
    async fn inspect(&self, queue: &str, group: Option<&str>) -> Result<QueueState, BrokerError> {
        let mut queues = self.queues();
        let queue = queues.queue(queue)?;
        let seen = group.and_then(|group| queue.groups.get(group));
        let mut state = QueueState {
            partitions: u32::try_from(queue.logs.len()).ok(),
            consumers: u32::try_from(queue.groups.values().map(|group| group.members.len()).sum::<usize>())
                .ok(),
            ..QueueState::default()
        };
        let mut oldest = None;
        let (mut depth, mut in_flight) = (0, 0);
        for (partition, log) in queue.logs.iter().enumerate() {
            let next = seen.map_or(log.base(), |group| group.shares[partition].next);
            depth += log.end() - next;
            oldest = earlier(oldest, log.get(next).map(|record| record.published_at));
            if let Some(group) = seen {
                let share = &group.shares[partition];
                in_flight += share.in_flight() as u64;
                depth += (share.open.len() - share.in_flight()) as u64;
                let waiting = share.open.values().find(|open| open.holder.is_none());
                oldest = earlier(oldest, waiting.map(|open| open.record.published_at));
            }
        }
        if let Some(group) = seen {
            state.consumers = u32::try_from(group.members.len()).ok();
            state.in_flight = Some(in_flight);
        }
        Ok(QueueState { depth: Some(depth), oldest, ..state })
    }
}

fn earlier<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}

#[async_trait]
impl Topology for MemoryBroker {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let wanted = self.wanted(spec)?;
        let queues = self.queues();
        let queue = queues.by_name.get(&spec.queue);
        let mut changes = match queue {
            Some(queue) => weaker(queue, &wanted, spec),
            None => vec![TopologyChange::create(format!("create queue `{}`", spec.queue))],
        };
        match queues.by_name.get(&spec.dlq) {
            None => changes.push(TopologyChange::create(format!("create dead-letter queue `{}`", spec.dlq))),
            Some(dlq) => {
                let partitions = queue.map_or(wanted.partitions, |queue| queue.options.partitions);
                if dlq.options.partitions < partitions {
                    changes.push(TopologyChange::warn(format!(
                        "dead-letter queue `{}` has {} partitions, its queue has {partitions}: \
                         order per key is not kept among the dead; create it anew",
                        spec.dlq, dlq.options.partitions
                    )));
                }
            }
        }
        Ok(changes)
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let changes = self.plan(spec).await?;
        if changes.iter().any(|change| change.appliable) {
            let wanted = self.wanted(spec)?;
            let dlq = QueueOptions { retention: None, dead_letters: None, ..wanted.clone() };
            let (has_dlq, has) = {
                let queues = self.queues();
                let has = queues.by_name.get(&spec.queue).map(|queue| queue.options.clone());
                (queues.by_name.contains_key(&spec.dlq), has)
            };
            if !has_dlq {
                self.declare(&spec.dlq, dlq);
            }
            self.declare(&spec.queue, has.map_or(wanted.clone(), |has| strengthened(has, wanted)));
        }
        Ok(changes)
    }
}

impl MemoryBroker {
    fn wanted(&self, spec: &TopologySpec) -> Result<QueueOptions, BrokerError> {
        let defaults = self.defaults();
        let partitions = match spec.partitions {
            None => defaults.partitions,
            Some(count) => u16::try_from(count).ok().and_then(NonZeroU16::new).ok_or_else(|| {
                BrokerError::Refused(format!("partitions: expected 1 to {}, found {count}", u16::MAX))
            })?,
        };
        let delivery_limit = Some(spec.attempts.saturating_add(SLACK));
        Ok(QueueOptions {
            partitions,
            retention: spec.retention,
            dead_letters: Some(DeadLetters { queue: spec.dlq.clone(), delivery_limit }),
            ..defaults
        })
    }
}

/// What of an existing queue is weaker than asked.
fn weaker(queue: &Queue, wanted: &QueueOptions, spec: &TopologySpec) -> Vec<TopologyChange> {
    let has = &queue.options;
    let mut changes = Vec::new();
    if spec.partitions.is_some() && has.partitions < wanted.partitions {
        changes.push(TopologyChange::warn(format!(
            "queue `{}` has {} partitions, {} are asked for: adding some would move keys; create it anew",
            queue.name, has.partitions, wanted.partitions
        )));
    }
    match &has.dead_letters {
        Some(dead) if dead.queue == spec.dlq => {
            if dead.delivery_limit.is_some_and(|limit| limit <= spec.attempts) {
                changes.push(TopologyChange::mend(format!(
                    "raise the delivery limit of `{}` above the {} attempts of its consumers",
                    queue.name, spec.attempts
                )));
            }
        }
        Some(_) | None => {
            changes.push(TopologyChange::mend(format!(
                "send the dead letters of `{}` to `{}`",
                queue.name, spec.dlq
            )));
        }
    }
    if let (Some(kept), asked) = (has.retention, wanted.retention)
        && asked.is_none_or(|asked| kept < asked)
    {
        changes.push(TopologyChange::mend(format!("keep messages of `{}` as long as asked", queue.name)));
    }
    changes
}

/// The options a queue has, raised to what is wanted; nothing becomes weaker than it was.
fn strengthened(has: QueueOptions, wanted: QueueOptions) -> QueueOptions {
    let retention = has.retention.zip(wanted.retention).map(|(has, wanted)| has.max(wanted));
    let limit_of = |dead: &Option<DeadLetters>| dead.as_ref().map(|dead| dead.delivery_limit);
    let delivery_limit = match (limit_of(&has.dead_letters), limit_of(&wanted.dead_letters)) {
        (Some(has), Some(wanted)) => has.zip(wanted).map(|(has, wanted)| has.max(wanted)),
        (only, None) | (None, only) => only.flatten(),
    };
    let dead_letters = wanted.dead_letters.map(|dead| DeadLetters { delivery_limit, ..dead });
    QueueOptions { retention, dead_letters, ..has }
}
