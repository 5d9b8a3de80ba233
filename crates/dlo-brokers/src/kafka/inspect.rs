//! A topic as a group sees it, without joining: what is behind its commits, how old it is, who reads.
//!
//! Depth is counted in offsets. Markers of transactions and compacted records are offsets too, so it may be higher
//! than the number of records, as in every tool for Kafka.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Inspect, QueueState};
use dlo_core::time::Timestamp;
use rdkafka::consumer::{BaseConsumer, Consumer};
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
    let topic = cluster.describe(queue)?;
    let client: BaseConsumer<Ears> =
        cluster.client(&cluster.reading(group.unwrap_or(NOBODY)), Ears::default())?;
    let committed = match group {
        Some(_) => {
            let mut places = TopicPartitionList::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                places.add_partition(queue, *partition);
            }
            let committed = client.committed_offsets(places, PATIENCE);
            Some(committed.map_err(|error| cluster.explain(&error, queue))?)
        }
        None => None,
    };
    let mut waiting = Vec::new();
    for partition in &topic.partitions {
        let range = lookout.fetch_watermarks(queue, *partition, PATIENCE);
        let (low, high) = range.map_err(|error| cluster.explain(&error, queue))?;
        let told = committed.as_ref().and_then(|all| native::place(all, queue, *partition));
        let offsets = told
            .filter(|(offset, _)| *offset >= 0)
            .and_then(|(offset, metadata)| Offsets::resume(offset, &metadata, topic.id.as_deref()))
            .filter(|offsets| (low..=high).contains(&offsets.watermark()))
            .unwrap_or_else(|| Offsets::from(low));
        let (open, unseen) = offsets.open();
        let count = open + u64::try_from(high - unseen).unwrap_or(0);
        waiting.push(Waiting { partition: *partition, first: offsets.watermark(), count });
    }
    let consumers = group.and_then(|group| {
        let groups = lookout.fetch_group_list(Some(group), PATIENCE).ok()?;
        let members = groups.groups().iter().find(|found| found.name() == group)?.members().len();
        u32::try_from(members).ok()
    });
    Ok(QueueState {
        depth: Some(waiting.iter().map(|one| one.count).sum()),
        in_flight: None,
        oldest: oldest(&client, queue, &waiting),
        partitions: u32::try_from(topic.partitions.len()).ok(),
        consumers,
        deliveries: None,
    })
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
