//! A topic as a group sees it, without joining: what is behind its commits, how old it is, who reads.
//!
//! Depth is counted in offsets. Markers of transactions and compacted records are offsets too, so it may be higher
//! than the number of records, as in every tool for Kafka.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Inspect, Passed, Position, QueueState};
use dlo_core::time::Timestamp;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::connection::{Cluster, Ears, PATIENCE};
use super::native;
use super::offsets::Offsets;
use super::record;

/// How long the oldest records are waited for. A look that is late is worth little.
const OLDEST: Duration = Duration::from_secs(2);
/// A group that nobody is a member of, to read as nobody.
const NOBODY: &str = "dlo-lookout";

#[derive(Debug)]
pub(super) struct KafkaInspect(pub(super) Arc<Cluster>);

/// What waits in one partition.
struct Waiting {
    partition: i32,
    first: i64,
    count: u64,
}

/// One partition as a group left it.
struct Share {
    partition: i32,
    /// Behind the last record that can be read.
    end: i64,
    offsets: Offsets,
}

#[async_trait]
impl Inspect for KafkaInspect {
    async fn inspect(&self, queue: &str, group: Option<&str>) -> Result<QueueState, BrokerError> {
        let (queue, group) = (queue.to_owned(), group.map(ToOwned::to_owned));
        self.0.ask(move |cluster, lookout| look(cluster, lookout, &queue, group.as_deref())).await
    }
}

fn look(
    cluster: &Cluster,
    lookout: &BaseConsumer<Ears>,
    queue: &str,
    group: Option<&str>,
) -> Result<QueueState, BrokerError> {
    let client: BaseConsumer<Ears> =
        cluster.client(&cluster.reading(group.unwrap_or(NOBODY)), Ears::default())?;
    let shares = shares(cluster, lookout, queue, group.map(|_| &client))?;
    let waiting: Vec<Waiting> = shares.iter().map(Share::waiting).collect();
    let consumers = group.and_then(|group| {
        let groups = lookout.fetch_group_list(Some(group), PATIENCE).ok()?;
        let members = groups.groups().iter().find(|found| found.name() == group)?.members().len();
        u32::try_from(members).ok()
    });
    Ok(QueueState {
        depth: Some(waiting.iter().map(|one| one.count).sum()),
        in_flight: None,
        oldest: oldest(&client, queue, &waiting),
        partitions: u32::try_from(waiting.len()).ok(),
        consumers,
        deliveries: None,
    })
}

impl Share {
    fn waiting(&self) -> Waiting {
        let (open, unseen) = self.offsets.open();
        let count = open + u64::try_from(self.end - unseen).unwrap_or(0);
        Waiting { partition: self.partition, first: self.offsets.watermark(), count }
    }
}

/// Every partition of a topic as a group left it, by a client that speaks for the group; untouched without one.
fn shares(
    cluster: &Cluster,
    lookout: &BaseConsumer<Ears>,
    queue: &str,
    group: Option<&BaseConsumer<Ears>>,
) -> Result<Vec<Share>, BrokerError> {
    let topic = cluster.describe(queue)?;
    let committed = match group {
        Some(client) => {
            let mut places = TopicPartitionList::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                places.add_partition(queue, *partition);
            }
            let committed = client.committed_offsets(places, PATIENCE);
            Some(committed.map_err(|error| cluster.explain(&error, queue))?)
        }
        None => None,
    };
    let mut shares = Vec::with_capacity(topic.partitions.len());
    for partition in topic.partitions {
        let (low, end) = range(lookout, queue, partition).map_err(|error| cluster.explain(&error, queue))?;
        let told = committed.as_ref().and_then(|all| native::place(all, queue, partition));
        let offsets = told
            .filter(|(offset, _)| *offset >= 0)
            .and_then(|(offset, metadata)| Offsets::resume(offset, &metadata, topic.id.as_deref()))
            .filter(|offsets| (low..=end).contains(&offsets.watermark()))
            .unwrap_or_else(|| Offsets::from(low));
        shares.push(Share { partition, end, offsets });
    }
    Ok(shares)
}

/// The first offset of a partition and the one behind its last. A topic that was just created, or whose leader just
/// changed, has brokers that do not know of it yet: they are asked again, for as long as any answer is waited for.
pub(super) fn range(client: &BaseConsumer<Ears>, queue: &str, partition: i32) -> KafkaResult<(i64, i64)> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        match client.fetch_watermarks(queue, partition, PATIENCE) {
            Err(error) if leaderless(&error) && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(50));
            }
            told => return told,
        }
    }
}

/// Whether the broker that was asked does not lead the partition, yet or any longer.
fn leaderless(error: &KafkaError) -> bool {
    use RDKafkaErrorCode::{
        FencedLeaderEpoch, LeaderNotAvailable, NotLeaderForPartition, UnknownLeaderEpoch,
    };
    matches!(
        error.rdkafka_error_code(),
        Some(NotLeaderForPartition | LeaderNotAvailable | FencedLeaderEpoch | UnknownLeaderEpoch)
    )
}

/// Where every partition ends for those who read what is committed. What a transaction that is open now adds, or has
/// added, comes behind it.
pub(super) fn ends(
    cluster: &Cluster,
    lookout: &BaseConsumer<Ears>,
    queue: &str,
) -> Result<Vec<Position>, BrokerError> {
    let topic = cluster.describe(queue)?;
    let end = |partition: i32| {
        let (_, next) = range(lookout, queue, partition).map_err(|error| cluster.explain(&error, queue))?;
        Ok(Position { incarnation: topic.id.clone().unwrap_or_default(), partition, next, mark: None })
    };
    topic.partitions.iter().copied().map(end).collect()
}

/// What a group has committed, partition by partition. One that has committed nothing begins with the oldest.
pub(super) fn passed(
    cluster: &Cluster,
    lookout: &BaseConsumer<Ears>,
    queue: &str,
    group: &str,
) -> Result<Vec<Passed>, BrokerError> {
    let client: BaseConsumer<Ears> = cluster.client(&cluster.reading(group), Ears::default())?;
    let shares = shares(cluster, lookout, queue, Some(&client))?;
    let passed = |share: Share| Passed { partition: share.partition, next: share.offsets.watermark() };
    Ok(shares.into_iter().map(passed).collect())
}

/// When the oldest waiting record was published, as far as it can be read in time.
fn oldest(client: &BaseConsumer<Ears>, queue: &str, waiting: &[Waiting]) -> Option<Timestamp> {
    let mut places = TopicPartitionList::new();
    for one in waiting.iter().filter(|one| one.count > 0) {
        places.add_partition_offset(queue, one.partition, Offset::Offset(one.first)).ok()?;
    }
    if places.count() == 0 {
        return None;
    }
    client.assign(&places).ok()?;
    let deadline = Instant::now() + OLDEST;
    let (mut oldest, mut seen) = (None::<Timestamp>, HashSet::new());
    while seen.len() < places.count() && Instant::now() < deadline {
        let Some(Ok(found)) = client.poll(Duration::from_millis(50)) else { continue };
        if !seen.insert(found.partition()) {
            continue;
        }
        oldest = [oldest, record::published_at(&found)].into_iter().flatten().min();
        // One record of each partition is enough.
        let mut enough = TopicPartitionList::with_capacity(1);
        enough.add_partition(queue, found.partition());
        let _ = client.pause(&enough);
    }
    oldest
}
