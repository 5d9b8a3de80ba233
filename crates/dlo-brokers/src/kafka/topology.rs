//! The topics of one source: what should stand, what stands, and what Kafka's own tools would be told.
//!
//! A dead-letter topic has as many partitions as its queue, so that a letter keeps its partition; it deletes by time,
//! never compacts, and keeps longer than the queue does. Missing topics and partitions are created. Settings of
//! topics that stand are never changed from here: other people's tools own them, so the command is shown instead.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Topology, TopologyChange, TopologySpec};
use rdkafka::admin::{
    AdminClient, AdminOptions, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode;

use super::connection::{Cluster, Ears, PATIENCE, broker_error};
use super::native::TopicDescription;
use super::retry;

/// Partitions of a topic where nobody said how many.
const PARTITIONS: u32 = 6;

pub(super) struct KafkaTopology {
    cluster: Arc<Cluster>,
    admin: OnceLock<AdminClient<Ears>>,
}

impl fmt::Debug for KafkaTopology {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaTopology").field("cluster", &self.cluster).finish_non_exhaustive()
    }
}

/// A topic as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Wanted {
    name: String,
    partitions: u32,
    /// `None`: as the cluster makes them.
    replication: Option<u32>,
    settings: Vec<(&'static str, String)>,
}

/// One step towards it.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Create(Wanted),
    Widen { name: String, to: u32 },
    Tell,
}

impl KafkaTopology {
    pub(super) fn new(cluster: Arc<Cluster>) -> Self {
        Self { cluster, admin: OnceLock::new() }
    }

    fn admin(&self) -> Result<&AdminClient<Ears>, BrokerError> {
        if let Some(admin) = self.admin.get() {
            return Ok(admin);
        }
        let made = self.cluster.client(&self.cluster.settings(), Ears::default())?;
        Ok(self.admin.get_or_init(|| made))
    }

    fn error(&self, error: &KafkaError, topic: &str) -> BrokerError {
        match self.admin.get() {
            Some(admin) => broker_error(error, topic, &admin.inner().context().complaints),
            None => self.cluster.explain(error, topic),
        }
    }

    async fn describe(&self, topic: &str) -> Result<Option<TopicDescription>, BrokerError> {
        let topic = topic.to_owned();
        match self.cluster.ask(move |cluster, _| cluster.describe(&topic)).await {
            Ok(found) => Ok(Some(found)),
            Err(BrokerError::Missing(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn setting(&self, topic: &str, name: &str) -> Result<Option<String>, BrokerError> {
        let options = AdminOptions::new().request_timeout(Some(PATIENCE));
        let asked = self.admin()?.describe_configs(&[ResourceSpecifier::Topic(topic)], &options).await;
        let answers = asked.map_err(|error| self.error(&error, topic))?;
        let Some(answer) = answers.into_iter().next() else { return Ok(None) };
        let found = answer.map_err(|code| self.error(&KafkaError::AdminOp(code), topic))?;
        Ok(found.get(name).and_then(|entry| entry.value.clone()))
    }

    async fn steps(&self, spec: &TopologySpec) -> Result<Vec<(TopologyChange, Step)>, BrokerError> {
        let mut steps = Vec::new();
        let queue = self.describe(&spec.queue).await?;
        let partitions = match (&queue, spec.partitions) {
            (Some(queue), asked) => {
                let there = u32::try_from(queue.partitions.len()).unwrap_or(u32::MAX);
                if asked.is_some_and(|asked| asked != there) {
                    let asked = asked.unwrap_or(there);
                    let what = format!(
                        "topic `{}` has {there} partitions, {asked} are asked for: a change moves keys to other partitions",
                        spec.queue
                    );
                    steps
                        .push((TopologyChange::warn(what).by(widen_command(&spec.queue, asked)), Step::Tell));
                }
                there
            }
            (None, asked) => {
                let partitions = asked.unwrap_or(PARTITIONS).max(1);
                let settings = spec.min_in_sync.map(|n| ("min.insync.replicas", n.to_string()));
                let wanted = Wanted {
                    name: spec.queue.clone(),
                    partitions,
                    replication: spec.replication,
                    settings: settings.into_iter().collect(),
                };
                steps.push(creation(wanted));
                partitions
            }
        };
        let replication = spec.replication.or(queue.as_ref().map(|queue| queue.replication));
        let wanted = Wanted {
            name: spec.dlq.clone(),
            partitions,
            replication,
            settings: self.dlq_settings(spec, queue.is_some()).await?,
        };
        match self.describe(&spec.dlq).await? {
            None => steps.push(creation(wanted)),
            Some(there) => self.compare(&wanted, &there, &mut steps).await?,
        }
        if let Some(group) = &spec.group {
            for name in retry::topics_for(&spec.queue, group, &spec.retry_delays) {
                if self.describe(&name).await?.is_none() {
                    steps.push(creation(retry_topic(name, partitions, replication)));
                }
            }
        }
        Ok(steps)
    }

    /// A topic for retries of `queue`, made if it is not there.
    pub(super) async fn ensure_retry(&self, name: &str, queue: &str) -> Result<(), BrokerError> {
        if self.describe(name).await?.is_some() {
            return Ok(());
        }
        let queue = self.describe(queue).await?.ok_or_else(|| BrokerError::Missing(queue.to_owned()))?;
        let partitions = u32::try_from(queue.partitions.len()).unwrap_or(1);
        let wanted = retry_topic(name.to_owned(), partitions, Some(queue.replication));
        self.take(&Step::Create(wanted)).await
    }

    /// A dead-letter topic forgets by time only, and is confirmed by as many copies as its queue.
    async fn dlq_settings(
        &self,
        spec: &TopologySpec,
        stands: bool,
    ) -> Result<Vec<(&'static str, String)>, BrokerError> {
        let mut settings = vec![("cleanup.policy", "delete".to_owned())];
        if let Some(retention) = spec.retention {
            settings.push(("retention.ms", millis(retention)));
        }
        let as_queue = match (spec.min_in_sync, stands) {
            (None, true) => self.setting(&spec.queue, "min.insync.replicas").await?,
            (asked, _) => asked.map(|count| count.to_string()),
        };
        settings.extend(as_queue.map(|count| ("min.insync.replicas", count)));
        // What the queue took must fit when it dies, with the story of its death beside it.
        if stands && let Some(largest) = self.setting(&spec.queue, "max.message.bytes").await? {
            settings.push(("max.message.bytes", largest));
        }
        Ok(settings)
    }

    async fn compare(
        &self,
        wanted: &Wanted,
        there: &TopicDescription,
        steps: &mut Vec<(TopologyChange, Step)>,
    ) -> Result<(), BrokerError> {
        let name = &wanted.name;
        let count = u32::try_from(there.partitions.len()).unwrap_or(u32::MAX);
        if count < wanted.partitions {
            let what = format!("topic `{name}` has {count} partitions, {} are needed", wanted.partitions);
            let change = TopologyChange::mend(what).by(widen_command(name, wanted.partitions));
            steps.push((change, Step::Widen { name: name.clone(), to: wanted.partitions }));
        }
        if let Some(copies) = wanted.replication.filter(|copies| *copies > there.replication) {
            let what = format!(
                "topic `{name}` has {} copies of each partition, {copies} are needed",
                there.replication
            );
            let command = "kafka-reassign-partitions.sh --bootstrap-server HOST:PORT --reassignment-json-file PLAN --execute";
            steps.push((TopologyChange::warn(what).by(command), Step::Tell));
        }
        for (setting, value) in &wanted.settings {
            let found = self.setting(name, setting).await?.unwrap_or_default();
            if weaker(setting, &found, value) {
                let what = format!("topic `{name}` has {setting}={found}, {value} is needed");
                let command = format!(
                    "kafka-configs.sh --bootstrap-server HOST:PORT --alter --entity-type topics --entity-name {name} --add-config {setting}={value}"
                );
                steps.push((TopologyChange::warn(what).by(command), Step::Tell));
            }
        }
        Ok(())
    }

    async fn take(&self, step: &Step) -> Result<(), BrokerError> {
        let options = AdminOptions::new().request_timeout(Some(PATIENCE)).operation_timeout(Some(PATIENCE));
        let (name, results) = match step {
            Step::Tell => return Ok(()),
            Step::Create(wanted) => {
                let copies = wanted.replication.and_then(|copies| i32::try_from(copies).ok()).unwrap_or(-1);
                let partitions = i32::try_from(wanted.partitions).unwrap_or(i32::MAX);
                let mut topic = NewTopic::new(&wanted.name, partitions, TopicReplication::Fixed(copies));
                for (name, value) in &wanted.settings {
                    topic = topic.set(name, value);
                }
                (&wanted.name, self.admin()?.create_topics([&topic], &options).await)
            }
            Step::Widen { name, to } => {
                let widened = NewPartitions::new(name, *to as usize);
                (name, self.admin()?.create_partitions([&widened], &options).await)
            }
        };
        for result in results.map_err(|error| self.error(&error, name))? {
            match result {
                // Somebody else was faster: it is there.
                Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists)) => {}
                Err((_, code)) => return Err(self.refused(code, name)),
            }
        }
        self.until_known(step).await
    }

    fn refused(&self, code: RDKafkaErrorCode, topic: &str) -> BrokerError {
        match code {
            RDKafkaErrorCode::InvalidReplicationFactor => BrokerError::Refused(format!(
                "topic `{topic}`: the cluster has not as many brokers as copies are asked for; lower `replication`"
            )),
            code => self.error(&KafkaError::AdminOp(code), topic),
        }
    }

    /// A topic that was created is known to every broker a little later.
    async fn until_known(&self, step: &Step) -> Result<(), BrokerError> {
        let (name, count) = match step {
            Step::Tell => return Ok(()),
            Step::Create(wanted) => (&wanted.name, wanted.partitions),
            Step::Widen { name, to } => (name, *to),
        };
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let there = self.describe(name).await?;
            if there.is_some_and(|there| there.partitions.len() >= count as usize) {
                return Ok(());
            }
            if tokio::time::Instant::now() > deadline {
                return Err(BrokerError::Unavailable(format!(
                    "topic `{name}` was created and is not seen yet"
                )));
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn retry_topic(name: String, partitions: u32, replication: Option<u32>) -> Wanted {
    Wanted { name, partitions, replication, settings: vec![("cleanup.policy", "delete".to_owned())] }
}

fn creation(wanted: Wanted) -> (TopologyChange, Step) {
    let settings: String =
        wanted.settings.iter().map(|(name, value)| format!(" --config {name}={value}")).collect();
    let copies =
        wanted.replication.map(|copies| format!(" --replication-factor {copies}")).unwrap_or_default();
    let command = format!(
        "kafka-topics.sh --bootstrap-server HOST:PORT --create --topic {} --partitions {}{copies}{settings}",
        wanted.name, wanted.partitions
    );
    let what = format!("topic `{}` with {} partitions", wanted.name, wanted.partitions);
    (TopologyChange::create(what).by(command), Step::Create(wanted))
}

fn widen_command(topic: &str, to: u32) -> String {
    format!("kafka-topics.sh --bootstrap-server HOST:PORT --alter --topic {topic} --partitions {to}")
}

fn millis(duration: Duration) -> String {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX).to_string()
}

/// Whether what was found keeps less, takes less or forgets otherwise than what is wanted.
fn weaker(setting: &str, found: &str, wanted: &str) -> bool {
    let number = |text: &str| text.parse::<i64>().ok();
    match (setting, number(found), number(wanted)) {
        // -1 is for ever.
        ("retention.ms", Some(found), Some(wanted)) => found >= 0 && (wanted < 0 || found < wanted),
        ("cleanup.policy", ..) => found.split(',').any(|policy| policy.trim() == "compact"),
        (_, Some(found), Some(wanted)) => found < wanted,
        _ => found != wanted,
    }
}

#[async_trait]
impl Topology for KafkaTopology {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        Ok(self.steps(spec).await?.into_iter().map(|(change, _)| change).collect())
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let mut applied = Vec::new();
        for (change, step) in self.steps(spec).await? {
            self.take(&step).await?;
            applied.push(change);
        }
        Ok(applied)
    }
}

#[cfg(test)]
mod tests {
    use super::weaker;

    #[test]
    fn what_keeps_longer_or_takes_more_is_not_weaker() {
        assert!(weaker("retention.ms", "1000", "2000") && weaker("retention.ms", "1000", "-1"));
        assert!(!weaker("retention.ms", "-1", "2000") && !weaker("retention.ms", "3000", "2000"));
        assert!(
            weaker("cleanup.policy", "compact,delete", "delete")
                && !weaker("cleanup.policy", "delete", "delete")
        );
        assert!(weaker("min.insync.replicas", "1", "2") && !weaker("min.insync.replicas", "2", "2"));
    }
}
