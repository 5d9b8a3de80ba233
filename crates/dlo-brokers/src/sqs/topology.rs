//! A queue, its dead-letter queue, and the redrive policy between them.
//!
//! The dead-letter queue is of the same type as its queue, keeps messages as long as the service can (the age of a message
//! counts from its first send, so a shorter time would throw letters away), and must allow the queue to use it. The
//! policy's count lies above the runtime's attempts: pauses and restarts are deliveries too. Nothing is made weaker.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::types::QueueAttributeName as Name;
use dlo_core::broker::{BrokerError, Gravity, Topology, TopologyChange, TopologySpec};

use super::SqsBroker;
use super::attributes::{Attributes, RedriveAllowPolicy, RedrivePolicy};
use super::config::seconds;
use super::connection::Queue;

const SLACK: u32 = 10;
/// The service's own bounds.
const MOST_RECEIVES: u32 = 1_000;
const LONGEST_RETENTION: u64 = 14 * 24 * 60 * 60;
const SHORTEST_RETENTION: u64 = 60;
const MOST_ALLOWED: usize = 10;

/// A queue that is there, with what it says of itself.
#[derive(Debug)]
struct There {
    queue: Arc<Queue>,
    said: Attributes,
}

/// What one change sets.
#[derive(Debug)]
enum Step {
    Create(String),
    Set {
        queue: Which,
        name: Name,
        value: String,
    },
    /// Only a person may.
    Leave,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Which {
    Queue,
    Dlq,
}

#[async_trait]
impl Topology for SqsBroker {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        Ok(self.steps(spec).await?.into_iter().map(|(change, _)| change).collect())
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let planned = self.steps(spec).await?;
        for (_, step) in &planned {
            if let Step::Create(name) = step {
                self.create(name).await?;
            }
        }
        // Attributes of what was just created are read as any other's: an apply that was cut off is finished by the next.
        for (_, step) in self.steps(spec).await? {
            if let Step::Set { queue, name, value } = step {
                let queue = if queue == Which::Queue { &spec.queue } else { &spec.dlq };
                self.set(queue, name, value).await?;
            }
        }
        Ok(planned.into_iter().map(|(change, _)| change).collect())
    }
}

impl SqsBroker {
    async fn steps(&self, spec: &TopologySpec) -> Result<Vec<(TopologyChange, Step)>, BrokerError> {
        check(spec)?;
        let (queue, dlq) = (self.look(&spec.queue).await?, self.look(&spec.dlq).await?);
        let mut steps = Vec::new();
        for (there, name, what) in [(&dlq, &spec.dlq, "dead-letter queue"), (&queue, &spec.queue, "queue")] {
            if there.is_none() {
                let change =
                    TopologyChange::create(format!("create {what} `{name}`")).by(create_command(name));
                steps.push((change, Step::Create(name.clone())));
            }
        }
        retention(spec, queue.as_ref(), dlq.as_ref(), &mut steps);
        redrive(spec, queue.as_ref(), dlq.as_ref(), &mut steps);
        allowance(spec, queue.as_ref(), dlq.as_ref(), &mut steps);
        Ok(steps)
    }

    async fn look(&self, name: &str) -> Result<Option<There>, BrokerError> {
        let names =
            [Name::QueueArn, Name::MessageRetentionPeriod, Name::RedrivePolicy, Name::RedriveAllowPolicy];
        let queue = match self.connection.queue(name).await {
            Ok(queue) => queue,
            Err(BrokerError::Missing(_)) => return Ok(None),
            Err(error) => return Err(error),
        };
        match Attributes::read(&self.connection, &queue, &names).await {
            Ok(said) => Ok(Some(There { queue, said })),
            Err(BrokerError::Missing(_)) => Ok(None),
            // A server that does not know an attribute refuses to name any; those it must know are enough.
            Err(BrokerError::Refused(why)) if why.contains("InvalidAttributeName") => {
                let said = Attributes::read(&self.connection, &queue, &[Name::QueueArn, Name::RedrivePolicy])
                    .await?;
                Ok(Some(There { queue, said }))
            }
            Err(error) => Err(error),
        }
    }

    async fn create(&self, name: &str) -> Result<(), BrokerError> {
        let mut call = self.connection.client().await?.create_queue().queue_name(name);
        if name.ends_with(".fifo") {
            call = call.attributes(Name::FifoQueue, "true");
        }
        call.send().await.map(|_| ()).map_err(|error| super::errors::meaning(&error, name))
    }

    async fn set(&self, queue: &str, name: Name, value: String) -> Result<(), BrokerError> {
        let queue = self.connection.queue(queue).await?;
        let call = self.connection.client().await?.set_queue_attributes().queue_url(&queue.url);
        let set = call.attributes(name, value).send().await;
        set.map(|_| ()).map_err(|error| self.connection.failed(&error, &queue))
    }
}

fn check(spec: &TopologySpec) -> Result<(), BrokerError> {
    if spec.queue.ends_with(".fifo") != spec.dlq.ends_with(".fifo") {
        return Err(BrokerError::Refused(format!(
            "`{}` and `{}`: a FIFO queue needs a FIFO dead-letter queue, a standard one a standard one; name both \
             with `.fifo`, or none",
            spec.queue, spec.dlq
        )));
    }
    Ok(())
}

/// As long as asked, and the dead-letter queue as long as it can. A server that names no retention has none.
fn retention(
    spec: &TopologySpec,
    queue: Option<&There>,
    dlq: Option<&There>,
    steps: &mut Vec<(TopologyChange, Step)>,
) {
    let asked = spec
        .retention
        .map(|asked| u64::try_from(seconds(asked)).unwrap_or(0).clamp(SHORTEST_RETENTION, LONGEST_RETENTION));
    let wanted = [(Which::Queue, queue, asked), (Which::Dlq, dlq, Some(LONGEST_RETENTION))];
    for (which, there, wanted) in wanted {
        let Some((there, wanted)) = there.zip(wanted) else { continue };
        let Some(kept) = there.said.number(&Name::MessageRetentionPeriod) else { continue };
        if kept < wanted {
            let what = format!(
                "keep messages of `{}` for {} days instead of {}",
                there.queue.name,
                days(wanted),
                days(kept)
            );
            steps.push(set(
                TopologyChange::mend(what),
                there,
                which,
                Name::MessageRetentionPeriod,
                wanted.to_string(),
            ));
        }
    }
}

fn days(seconds: u64) -> String {
    let days = Duration::from_secs(seconds).as_secs_f64() / 86_400.0;
    format!("{:.1}", days).trim_end_matches(".0").to_owned()
}

fn redrive(
    spec: &TopologySpec,
    queue: Option<&There>,
    dlq: Option<&There>,
    steps: &mut Vec<(TopologyChange, Step)>,
) {
    let wanted = spec.attempts.saturating_add(SLACK).min(MOST_RECEIVES);
    let says = format!("send dead letters of `{}` to `{}`", spec.queue, spec.dlq);
    let Some((queue, target)) = queue.zip(dlq.and_then(|dlq| dlq.said.arn())) else {
        // Before both are there the policy cannot be written; the plan says that it comes.
        let change = TopologyChange::create(format!("{says} after {wanted} receives"));
        steps.push((change.by(policy_command(spec, wanted)), Step::Leave));
        return;
    };
    let now = queue.said.redrive();
    let (what, gravity, count) = match &now {
        Some(policy) if policy.dead_letter_target_arn == target => {
            if policy.max_receive_count > spec.attempts {
                return;
            }
            let what = format!(
                "raise maxReceiveCount of `{}` from {} above the {} attempts of its consumers",
                spec.queue, policy.max_receive_count, spec.attempts
            );
            (what, Gravity::Weak, wanted)
        }
        Some(policy) => {
            let elsewhere = &policy.dead_letter_target_arn;
            let what = format!("{says} instead of `{elsewhere}`");
            (what, Gravity::Weak, wanted.max(policy.max_receive_count))
        }
        None => (format!("{says} after {wanted} receives"), Gravity::Missing, wanted),
    };
    let policy = RedrivePolicy { dead_letter_target_arn: target.to_owned(), max_receive_count: count };
    let value = serde_json::to_string(&policy).unwrap_or_default();
    let change = TopologyChange { gravity, ..TopologyChange::mend(what) };
    steps.push(set(change, queue, Which::Queue, Name::RedrivePolicy, value));
}

/// A dead-letter queue that was closed on purpose is opened by a person.
fn allowance(
    spec: &TopologySpec,
    queue: Option<&There>,
    dlq: Option<&There>,
    steps: &mut Vec<(TopologyChange, Step)>,
) {
    let Some((arn, dlq)) = queue.and_then(|queue| queue.said.arn()).zip(dlq) else { return };
    let Some(allow) = dlq.said.allow() else { return };
    let named = allow.source_queue_arns.iter().any(|named| named == arn);
    if allow.redrive_permission == "allowAll" || (allow.redrive_permission == "byQueue" && named) {
        return;
    }
    let what = format!("let `{}` use `{}` for its dead letters", spec.queue, spec.dlq);
    let mut arns = allow.source_queue_arns;
    arns.push(arn.to_owned());
    let appliable = allow.redrive_permission == "byQueue" && arns.len() <= MOST_ALLOWED;
    let wider = RedriveAllowPolicy { redrive_permission: "byQueue".to_owned(), source_queue_arns: arns };
    let value = serde_json::to_string(&wider).unwrap_or_default();
    let change = TopologyChange { gravity: Gravity::Missing, appliable, ..TopologyChange::mend(what) };
    let (change, step) = set(change, dlq, Which::Dlq, Name::RedriveAllowPolicy, value);
    steps.push((change, if appliable { step } else { Step::Leave }));
}

fn set(
    change: TopologyChange,
    there: &There,
    queue: Which,
    name: Name,
    value: String,
) -> (TopologyChange, Step) {
    let command = set_command(&there.queue.url, &name, &value);
    (change.by(command), Step::Set { queue, name, value })
}

fn create_command(name: &str) -> String {
    let fifo = if name.ends_with(".fifo") { " --attributes FifoQueue=true" } else { "" };
    format!("aws sqs create-queue --queue-name {name}{fifo}")
}

fn set_command(url: &str, name: &Name, value: &str) -> String {
    let attributes = serde_json::json!({ name.as_str(): value });
    format!("aws sqs set-queue-attributes --queue-url {url} --attributes '{attributes}'")
}

fn policy_command(spec: &TopologySpec, count: u32) -> String {
    let policy =
        RedrivePolicy { dead_letter_target_arn: format!("<ARN of {}>", spec.dlq), max_receive_count: count };
    let value = serde_json::to_string(&policy).unwrap_or_default();
    set_command(&format!("<URL of {}>", spec.queue), &Name::RedrivePolicy, &value)
}
