//! What should stand for a queue: its stream, the stream of its dead letters, a consumer whose delivery limit lies
//! above the runtime's attempts, and a stream that keeps the server's advisories.
//!
//! JetStream has no dead-letter queue: past its limit a message is simply not delivered any more, and the server says
//! so once, in an advisory that nobody keeps unless a stream does. Nothing is ever removed or made weaker; what a
//! change could lose is left to a person, with the command.

use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Topology, TopologyChange, TopologySpec};
use serde_json::{Value, json};

use super::api::{Answer, Api, StreamInfo};
use super::consumer::{self, nanos};
use super::names;

/// How far the delivery limit lies above the runtime's attempts: pauses and restarts count as deliveries too.
const SLACK: u32 = 10;
/// The stream of advisories, and what it keeps: deliveries that reached their limit, and messages that were refused.
const ADVISORIES: &str = "dlo-advisories";
const ADVISED: [&str; 2] =
    ["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>", "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.>"];
/// Advisories are small and found within moments; this is for an office that was away.
const ADVISORIES_KEPT: Duration = Duration::from_secs(30 * 24 * 60 * 60);

#[derive(Debug)]
pub(super) struct NatsTopology(pub(super) Api);

/// A stream as it should be.
#[derive(Debug, Clone, Copy)]
struct Wanted<'a> {
    what: &'static str,
    queue: &'a str,
    /// How long at least; unset: for ever.
    kept: Option<Duration>,
    replicas: Option<u32>,
}

impl<'a> Wanted<'a> {
    fn queue(spec: &'a TopologySpec) -> Self {
        Self { what: "", queue: &spec.queue, kept: None, replicas: spec.replication }
    }

    fn dlq(spec: &'a TopologySpec) -> Self {
        Self { what: "dead-letter ", queue: &spec.dlq, kept: spec.retention, replicas: spec.replication }
    }

    fn config(&self) -> Value {
        with_defaults(json!({
            "name": names::stream_name(self.queue),
            "subjects": [self.queue],
            "max_age": self.kept.map_or(0, nanos),
            "num_replicas": self.replicas.unwrap_or(1),
        }))
    }
}

/// A difference and what mends it; nothing where only a person can.
#[derive(Debug)]
struct Step {
    change: TopologyChange,
    call: Option<(String, Value)>,
}

#[async_trait]
impl Topology for NatsTopology {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        Ok(self.steps(spec).await?.into_iter().map(|step| step.change).collect())
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let mut changes = Vec::new();
        for step in self.steps(spec).await? {
            if let Some((call, body)) = step.call {
                let made: Answer<Value> = self.0.call(&call, &body).await?;
                made.map_err(|error| error.into_broker_error())?;
            }
            changes.push(step.change);
        }
        Ok(changes)
    }
}

impl NatsTopology {
    async fn steps(&self, spec: &TopologySpec) -> Result<Vec<Step>, BrokerError> {
        let mut steps = Vec::new();
        let queue = self.stream(&Wanted::queue(spec), &mut steps).await?;
        self.stream(&Wanted::dlq(spec), &mut steps).await?;
        if let Some(group) = &spec.group {
            self.consumer(spec, group, queue, &mut steps).await?;
        }
        self.advisories(&mut steps).await?;
        Ok(steps)
    }

    /// One queue's stream: created if there is none, and looked over if there is.
    async fn stream(
        &self,
        wanted: &Wanted<'_>,
        steps: &mut Vec<Step>,
    ) -> Result<Option<(String, StreamInfo)>, BrokerError> {
        let Wanted { what, queue, .. } = wanted;
        match self.0.stream_of(queue).await {
            Ok((name, info)) => {
                steps.extend(weaker(&name, &info, wanted));
                Ok(Some((name, info)))
            }
            Err(BrokerError::Missing(_)) => {
                let name = names::stream_name(queue);
                let age =
                    wanted.kept.map_or_else(String::new, |kept| format!(" --max-age {}s", kept.as_secs()));
                let change = TopologyChange::create(format!("create {what}stream `{name}` for `{queue}`")).by(format!(
                    "nats stream add {name} --subjects '{queue}' --storage file --retention limits --discard new \
                     --dupe-window 2m{age} --replicas {} --defaults",
                    wanted.replicas.unwrap_or(1)
                ));
                steps.push(Step { change, call: Some((format!("STREAM.CREATE.{name}"), wanted.config())) });
                Ok(None)
            }
            Err(other) => Err(other),
        }
    }

    /// The group's consumer: there, and with a delivery limit that the runtime does not reach.
    async fn consumer(
        &self,
        spec: &TopologySpec,
        group: &str,
        stream: Option<(String, StreamInfo)>,
        steps: &mut Vec<Step>,
    ) -> Result<(), BrokerError> {
        let (name, limit) = (names::consumer_name(group, &spec.queue), spec.attempts.saturating_add(SLACK));
        let (stream, info) = stream.unwrap_or_else(|| {
            let stream = names::stream_name(&spec.queue);
            (stream, StreamInfo::planned(Wanted::queue(spec).config()))
        });
        let there = self.0.consumer(&stream, &name).await?;
        let (change, config) = match there {
            None => {
                let config = consumer::wanted(&self.0, &spec.queue, &info, group, Some(limit));
                let change = TopologyChange::create(format!(
                    "create consumer `{name}` of stream `{stream}` with at most {limit} deliveries"
                ));
                (
                    change.by(format!(
                        "nats consumer add {stream} {name} --pull --filter '{}' --ack explicit --deliver all \
                     --max-deliver {limit} --defaults",
                        spec.queue
                    )),
                    config,
                )
            }
            Some(there) => {
                let deliveries = there.config["max_deliver"].as_i64().unwrap_or(-1);
                if deliveries < 1 || deliveries > i64::from(spec.attempts) {
                    return Ok(());
                }
                let mut config = there.config;
                config["max_deliver"] = limit.into();
                let change = TopologyChange::mend(format!(
                    "raise the delivery limit of consumer `{name}` from {deliveries} to {limit}, above the {} attempts \
                     of its members",
                    spec.attempts
                ));
                (change.by(format!("nats consumer edit {stream} {name} --max-deliver {limit}")), config)
            }
        };
        let body = json!({ "stream_name": stream, "config": config });
        steps.push(Step { change, call: Some((format!("CONSUMER.DURABLE.CREATE.{stream}.{name}"), body)) });
        Ok(())
    }

    async fn advisories(&self, steps: &mut Vec<Step>) -> Result<(), BrokerError> {
        let mut missing = Vec::new();
        for subject in ADVISED {
            if self.0.streams_of(subject).await?.is_empty() {
                missing.push(subject);
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let (subjects, seconds) = (missing.join(","), ADVISORIES_KEPT.as_secs());
        let mut config =
            json!({ "name": ADVISORIES, "subjects": missing, "max_age": nanos(ADVISORIES_KEPT) });
        let (word, call, command) = match self.0.stream(ADVISORIES, None).await? {
            None => ("create", "STREAM.CREATE", "add"),
            // Somebody took one of its subjects away: what it has stays.
            Some(there) => {
                let mut all: Vec<Value> = there.subjects().into_iter().map(Value::from).collect();
                all.extend(missing.iter().map(|subject| Value::from(*subject)));
                config = there.config;
                config["subjects"] = all.into();
                ("complete", "STREAM.UPDATE", "edit")
            }
        };
        let change = TopologyChange::create(format!(
            "{word} stream `{ADVISORIES}` for the server's advisories: without it nobody hears of messages that reached \
             their delivery limit or were refused"
        ));
        let change = change.by(format!(
            "nats stream {command} {ADVISORIES} --subjects '{subjects}' --max-age {seconds}s --defaults"
        ));
        steps.push(Step { change, call: Some((format!("{call}.{ADVISORIES}"), with_defaults(config))) });
        Ok(())
    }
}

impl StreamInfo {
    /// A stream as it will be.
    fn planned(config: Value) -> Self {
        let state = super::api::StreamState { first_seq: 0, last_seq: 0, subjects: Default::default() };
        Self { config, created: String::new(), state }
    }
}

/// Everything else of a stream of ours: on disk, bounded by nothing but its age, and a publisher that does not fit is
/// told so instead of losing the oldest.
fn with_defaults(mut config: Value) -> Value {
    let defaults = json!({
        "retention": "limits",
        "storage": "file",
        "discard": "new",
        "num_replicas": 1,
        "max_consumers": -1,
        "max_msgs": -1,
        "max_bytes": -1,
        "max_age": 0,
        "max_msgs_per_subject": -1,
        "max_msg_size": -1,
        "duplicate_window": nanos(super::DEDUPE_WINDOW),
    });
    if let (Some(config), Value::Object(defaults)) = (config.as_object_mut(), defaults) {
        for (field, value) in defaults {
            config.entry(field).or_insert(value);
        }
    }
    config
}

/// What of a stream that is there is weaker than it should be.
fn weaker(name: &str, info: &StreamInfo, wanted: &Wanted<'_>) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut warn = |text: String, options: String| {
        let change = TopologyChange::warn(format!("{}stream `{name}` {text}", wanted.what));
        steps.push(Step { change: change.by(format!("nats stream edit {name} {options}")), call: None });
    };
    let bounded =
        ["max_msgs", "max_bytes", "max_msgs_per_subject"].iter().any(|limit| info.limit(limit).is_some());
    if bounded && info.text("discard") != "new" {
        let text = "drops its oldest messages when it is full, without a word: let it refuse new ones";
        warn(text.to_owned(), "--discard new".to_owned());
    }
    if let (Some(kept), Some(asked)) = (info.limit("max_age"), wanted.kept.map(nanos))
        && kept < asked
    {
        let seconds = asked / 1_000_000_000;
        warn(
            format!("keeps messages for {}s, {seconds}s are asked for", kept / 1_000_000_000),
            format!("--max-age {seconds}s"),
        );
    }
    if info.text("storage") == "memory" {
        let text = "is in memory only and gone with its server: create it anew with file storage";
        warn(text.to_owned(), "--help  # storage cannot be changed".to_owned());
    }
    if let (Some(asked), Some(has)) = (wanted.replicas, info.limit("num_replicas"))
        && has < u64::from(asked)
    {
        warn(format!("has {has} replicas, {asked} are asked for"), format!("--replicas {asked}"));
    }
    if info.limit("duplicate_window").is_some_and(|window| window < nanos(super::DEDUPE_WINDOW)) {
        let text =
            "forgets the ids of messages in less than two minutes: a repeated send may be stored twice";
        warn(text.to_owned(), "--dupe-window 2m".to_owned());
    }
    steps
}
