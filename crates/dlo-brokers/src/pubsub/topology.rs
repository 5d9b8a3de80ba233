//! A topic, its dead-letter topic, the subscription that keeps dead letters for the office, and the policy between them.
//!
//! A topic without subscription keeps nothing, so the office's stands before the first letter dies. The policy belongs to
//! the subscription of a group and is written only where the group is named. Its count lies above the runtime's attempts:
//! pauses and restarts are deliveries too. Nothing is deleted, and no count is made lower.

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Gravity, OFFICE, Topology, TopologyChange, TopologySpec};
use serde_json::{Value, json};

use super::PubsubBroker;
use super::config::seconds;
use super::names;
use super::subscription::asked;
use super::wire::{DeadLetterPolicy, Subscription};

const SLACK: u32 = 10;
/// The service's own bounds.
const FEWEST_ATTEMPTS: u32 = 5;
const MOST_ATTEMPTS: u32 = 100;
const SHORTEST_RETENTION: u64 = 10 * 60;
const LONGEST_RETENTION: u64 = 31 * 24 * 60 * 60;

/// What one change asks of the service: a resource, and what it is to be.
#[derive(Debug)]
enum Step {
    Create { path: String, body: Value },
    Patch { path: String, body: Value },
}

#[async_trait]
impl Topology for PubsubBroker {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        Ok(self.steps(spec).await?.into_iter().map(|(change, _)| change).collect())
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let mut applied = Vec::new();
        for (change, step) in self.steps(spec).await? {
            match step {
                Step::Create { path, body } => match self.connection.put::<Value>(&path, &body).await {
                    Ok(_) => {}
                    Err(failure) if failure.is_there_already() => {}
                    Err(failure) => return Err(failure.of(&path)),
                },
                Step::Patch { path, body } => {
                    self.connection
                        .patch::<Value>(&path, &body)
                        .await
                        .map_err(|failure| failure.of(&path))?;
                }
            }
            applied.push(change);
        }
        Ok(applied)
    }
}

impl PubsubBroker {
    /// In the order in which they can be made: topics, then what reads them.
    async fn steps(&self, spec: &TopologySpec) -> Result<Vec<(TopologyChange, Step)>, BrokerError> {
        let project = &self.connection.config.project;
        let (queue, dlq) = (self.connection.topic(&spec.queue)?, self.connection.topic(&spec.dlq)?);
        let mut steps = Vec::new();
        let retention =
            spec.retention.map(|asked| seconds(asked).clamp(SHORTEST_RETENTION, LONGEST_RETENTION));
        for (path, what, retention) in [(&dlq, "dead-letter topic", retention), (&queue, "topic", None)] {
            if self.look::<Value>(path).await?.is_none() {
                steps.push(create_topic(path, what, retention));
            }
        }
        let office = names::subscription(project, &dlq, OFFICE)?;
        let body = asked(&self.connection.config, &dlq, None);
        let there = self.look::<Subscription>(&office).await?;
        steps.extend(office_subscription(office, &dlq, body, retention, there));
        if let Some(group) = &spec.group {
            let path = names::subscription(project, &queue, group)?;
            let there = self.look::<Subscription>(&path).await?;
            steps.extend(self.policy(spec, (&queue, &dlq), path, there));
        }
        Ok(steps)
    }

    fn policy(
        &self,
        spec: &TopologySpec,
        (queue, dlq): (&str, &str),
        path: String,
        there: Option<Subscription>,
    ) -> Option<(TopologyChange, Step)> {
        let name = names::short(&path).to_owned();
        let wanted = spec.attempts.saturating_add(SLACK).clamp(FEWEST_ATTEMPTS, MOST_ATTEMPTS);
        let says = format!("send dead letters of subscription `{name}` to `{}`", spec.dlq);
        let mut policy =
            DeadLetterPolicy { dead_letter_topic: dlq.to_owned(), max_delivery_attempts: wanted };
        let Some(there) = there else {
            let change = TopologyChange::create(format!(
                "create subscription `{name}` and {says} after {wanted} deliveries"
            ));
            let command = format!(
                "gcloud pubsub subscriptions create {path} --topic={queue} --expiration-period=never {}",
                flags(&policy)
            );
            let body = asked(&self.connection.config, queue, Some(&policy));
            return Some((change.by(command), Step::Create { path, body }));
        };
        let (what, gravity) = match &there.dead_letter_policy {
            Some(now) if now.dead_letter_topic == dlq => {
                if now.max_delivery_attempts > spec.attempts.min(MOST_ATTEMPTS - 1) {
                    return None;
                }
                let what = format!(
                    "raise maxDeliveryAttempts of `{name}` from {} above the {} attempts of its consumers",
                    now.max_delivery_attempts, spec.attempts
                );
                (what, Gravity::Weak)
            }
            Some(now) => {
                policy.max_delivery_attempts = wanted.max(now.max_delivery_attempts);
                (format!("{says} instead of `{}`", now.dead_letter_topic), Gravity::Weak)
            }
            None => (format!("{says} after {wanted} deliveries"), Gravity::Missing),
        };
        let command = format!("gcloud pubsub subscriptions update {path} {}", flags(&policy));
        let change = TopologyChange { gravity, ..TopologyChange::mend(what) };
        let body = json!({
            "subscription": { "name": path, "deadLetterPolicy": policy },
            "updateMask": "deadLetterPolicy",
        });
        Some((change.by(command), Step::Patch { path, body }))
    }

    async fn look<T: serde::de::DeserializeOwned>(&self, path: &str) -> Result<Option<T>, BrokerError> {
        match self.connection.get(path).await {
            Ok(there) => Ok(Some(there)),
            Err(failure) if failure.is_missing() => Ok(None),
            Err(failure) => Err(failure.of(path)),
        }
    }
}

/// The subscription that keeps dead letters for the office: made, or given a retention that is not shorter than asked for.
fn office_subscription(
    path: String,
    dlq: &str,
    mut body: Value,
    retention: Option<u64>,
    there: Option<Subscription>,
) -> Option<(TopologyChange, Step)> {
    let name = names::short(&path);
    let flag = retention.map(|seconds| format!(" --message-retention-duration={seconds}s"));
    let Some(there) = there else {
        let what = format!("create subscription `{name}` that keeps dead letters for the office");
        let flag = flag.unwrap_or_default();
        let command = format!(
            "gcloud pubsub subscriptions create {path} --topic={dlq} --expiration-period=never{flag}"
        );
        if let Some(seconds) = retention {
            body["messageRetentionDuration"] = json!(format!("{seconds}s"));
        }
        return Some((TopologyChange::create(what).by(command), Step::Create { path, body }));
    };
    let now = there.retention_seconds();
    let (seconds, flag) = retention.filter(|asked| *asked > now).zip(flag)?;
    let what = format!("keep dead letters in subscription `{name}` for {seconds} s instead of {now} s");
    let command = format!("gcloud pubsub subscriptions update {path}{flag}");
    let change = TopologyChange { gravity: Gravity::Weak, ..TopologyChange::mend(what) };
    let body = json!({
        "subscription": { "name": path, "messageRetentionDuration": format!("{seconds}s") },
        "updateMask": "messageRetentionDuration",
    });
    Some((change.by(command), Step::Patch { path, body }))
}

fn create_topic(path: &str, what: &str, retention: Option<u64>) -> (TopologyChange, Step) {
    let mut body = json!({});
    let mut command = format!("gcloud pubsub topics create {path}");
    if let Some(seconds) = retention {
        body = json!({ "messageRetentionDuration": format!("{seconds}s") });
        command = format!("{command} --message-retention-duration={seconds}s");
    }
    let change = TopologyChange::create(format!("create {what} `{}`", names::short(path)));
    (change.by(command), Step::Create { path: path.to_owned(), body })
}

fn flags(policy: &DeadLetterPolicy) -> String {
    let DeadLetterPolicy { dead_letter_topic, max_delivery_attempts } = policy;
    format!("--dead-letter-topic={dead_letter_topic} --max-delivery-attempts={max_delivery_attempts}")
}
