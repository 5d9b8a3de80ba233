//! What should be there for one source: the stream, its group, its stream of dead letters; and a server that keeps them.
//!
//! A stream without entries is made by creating a group with it. Redis has no retention, no partitions and no replication
//! of single streams; what of the server's settings would lose dead letters is said with the command that mends it.

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, OFFICE, Topology, TopologyChange, TopologySpec};
use redis::{Cmd, Value};

use super::inspect::setting;
use super::reply;
use super::{RedisBroker, Shared};

/// What is there of a stream.
#[derive(Debug)]
struct There {
    exists: bool,
    groups: Vec<String>,
}

#[async_trait]
impl Topology for RedisBroker {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let mut changes = Vec::new();
        for wanted in wanted(spec) {
            changes.extend(wanted.missing(&self.shared).await?.map(|missing| missing.change()));
        }
        changes.extend(self.shared.weak_settings(spec).await?);
        changes.extend(self.shared.weak_server().await?);
        Ok(changes)
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let plan = self.plan(spec).await?;
        for wanted in wanted(spec) {
            if let Some(missing) = wanted.missing(&self.shared).await? {
                missing.create(&self.shared).await?;
            }
        }
        Ok(plan)
    }
}

/// A stream with the group that should read it.
#[derive(Debug)]
struct Wanted<'a> {
    what: &'static str,
    stream: &'a str,
    group: Option<&'a str>,
}

fn wanted(spec: &TopologySpec) -> [Wanted<'_>; 2] {
    [
        Wanted { what: "stream", stream: &spec.queue, group: spec.group.as_deref() },
        Wanted { what: "stream of dead letters", stream: &spec.dlq, group: Some(OFFICE) },
    ]
}

impl<'a> Wanted<'a> {
    async fn missing(self, shared: &Shared) -> Result<Option<Missing<'a>>, BrokerError> {
        let there = shared.stream(self.stream).await?;
        let has_group = self.group.is_none_or(|group| there.groups.iter().any(|one| one == group));
        Ok(match (there.exists, has_group) {
            (true, true) => None,
            (exists, _) => Some(Missing { wanted: self, exists }),
        })
    }
}

#[derive(Debug)]
struct Missing<'a> {
    wanted: Wanted<'a>,
    exists: bool,
}

impl Missing<'_> {
    fn change(&self) -> TopologyChange {
        let Wanted { what, stream, group } = self.wanted;
        let (made, made_by) = match (group, self.exists) {
            (Some(group), true) => (format!("create group `{group}` of {what} `{stream}`"), group),
            (Some(group), false) => (format!("create {what} `{stream}` with group `{group}`"), group),
            (None, _) => (format!("create {what} `{stream}`"), OFFICE),
        };
        TopologyChange::create(made).by(format!("redis-cli XGROUP CREATE '{stream}' '{made_by}' 0 MKSTREAM"))
    }

    /// Creates what is missing; what came to be meanwhile is as good.
    async fn create(&self, shared: &Shared) -> Result<(), BrokerError> {
        let Wanted { stream, group, .. } = self.wanted;
        let name = group.unwrap_or("dlo:made");
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(stream).arg(name).arg("0").arg("MKSTREAM");
        match shared.link.command::<Value>(&create).await {
            Ok(_) => {}
            Err(failure) if failure.code() == Some("BUSYGROUP") => {}
            Err(failure) => return Err(failure.into()),
        }
        if group.is_none() {
            // Nobody asked for a group: the stream stays without.
            let mut destroy = redis::cmd("XGROUP");
            destroy.arg("DESTROY").arg(stream).arg(name);
            shared.link.command::<Value>(&destroy).await?;
        }
        Ok(())
    }
}

impl Shared {
    async fn stream(&self, stream: &str) -> Result<There, BrokerError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("TYPE").arg(stream).cmd("XINFO").arg("GROUPS").arg(stream);
        let mut answers = self.link.pipeline(&mut pipeline).await?.into_iter();
        let kind = answers.next().map_or(Ok(String::new()), reply::text)?;
        match kind.as_str() {
            "none" => return Ok(There { exists: false, groups: Vec::new() }),
            "stream" => {}
            other => {
                return Err(BrokerError::Refused(format!(
                    "the key `{stream}` is a {other}, not a stream: choose another name"
                )));
            }
        }
        let mut groups = Vec::new();
        for group in reply::list(answers.next().unwrap_or(Value::Nil))? {
            // Pairs of names and values, of which the first is the group's name.
            groups.extend(reply::list(group)?.into_iter().nth(1).map(reply::text).transpose()?);
        }
        Ok(There { exists: true, groups })
    }

    /// What of the asked for this broker cannot be, and what of our own settings is weaker than asked.
    async fn weak_settings(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let mut changes = Vec::new();
        if let Some(partitions) = spec.partitions.filter(|count| *count > 1) {
            changes.push(TopologyChange::warn(format!(
                "a stream has one partition, {partitions} are asked for: use as many streams"
            )));
        }
        if let Some(limit) = self.config.max_deliveries.filter(|limit| limit.get() <= spec.attempts) {
            changes.push(TopologyChange::warn(format!(
                "`max_deliveries` is {limit}, the consumers of `{}` make {} attempts: raise it above",
                spec.queue, spec.attempts
            )));
        }
        let dead = self.config.dead_letters_of(&spec.queue);
        if self.config.max_deliveries.is_some() && dead != spec.dlq {
            changes.push(TopologyChange::warn(format!(
                "what is delivered too often goes to `{dead}`, not to `{}`: see `dead_letters`",
                spec.dlq
            )));
        }
        Ok(changes)
    }

    /// Settings of the server under which confirmed messages can be lost. Who may not ask is told nothing.
    async fn weak_server(&self) -> Result<Vec<TopologyChange>, BrokerError> {
        let ask = |section: &str| {
            let mut command = redis::cmd("INFO");
            command.arg(section);
            command
        };
        let info = self.optional(&ask("persistence")).await? + &self.optional(&ask("memory")).await?;
        let mut changes = Vec::new();
        if setting(&info, "aof_enabled") == Some("0") {
            changes.push(
                TopologyChange::warn(
                    "the server writes no append-only file: what is confirmed is lost when it crashes",
                )
                .by("redis-cli CONFIG SET appendonly yes"),
            );
        } else if self.writes_when_it_pleases().await? {
            changes.push(
                TopologyChange::warn(
                    "the server leaves it to the system when its append-only file reaches the disk (appendfsync no): \
                     the last half minute of what was confirmed may be lost when the machine crashes",
                )
                .by("redis-cli CONFIG SET appendfsync everysec"),
            );
        }
        let policy = setting(&info, "maxmemory_policy").unwrap_or_default();
        if policy.starts_with("allkeys") {
            changes.push(
                TopologyChange::warn(format!(
                    "the server evicts any key when memory is full ({policy}): streams can vanish"
                ))
                .by("redis-cli CONFIG SET maxmemory-policy noeviction"),
            );
        }
        Ok(changes)
    }

    /// Whether the append-only file is never flushed by the server itself. Where settings may not be read, it is not said.
    async fn writes_when_it_pleases(&self) -> Result<bool, BrokerError> {
        let mut ask = redis::cmd("CONFIG");
        ask.arg("GET").arg("appendfsync");
        match self.link.command::<Value>(&ask).await {
            Ok(answer) => Ok(reply::fields(answer)?.iter().any(|(_, value)| value.as_ref() == b"no")),
            // A user without the right, and services that have no such command.
            Err(failure) if failure.code().is_some() => Ok(false),
            Err(failure) => Err(failure.into()),
        }
    }

    /// An answer that this user may not be allowed to have.
    async fn optional(&self, command: &Cmd) -> Result<String, BrokerError> {
        match self.link.command::<Value>(command).await {
            Ok(answer) => reply::text(answer),
            Err(failure) if failure.code() == Some("NOPERM") => Ok(String::new()),
            Err(failure) => Err(failure.into()),
        }
    }
}
