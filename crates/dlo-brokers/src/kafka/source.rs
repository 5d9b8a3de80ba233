//! Messages of one topic for one group.
//!
//! At least once: the group is told of what is settled, and of nothing else. Answers that come together are told
//! together, in one commit that the cluster has confirmed before `settle` returns.

use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dlo_core::broker::{
    BrokerError, Capabilities, Delivery, Destination, Outgoing, Settled, Settler, Source,
};
use rdkafka::consumer::{CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::sync::oneshot;

use super::Office;
use super::lanes::Postponed;
use super::offsets::Commit;
use super::poller::{self, Membership};
use super::publisher::Parcel;
use super::retry::{self, Ticket};

/// How long a commit that is turned away is tried again.
const COMMIT: Duration = Duration::from_secs(10);
const COMMIT_PAUSE: Duration = Duration::from_millis(100);

/// A member of a group.
#[derive(Debug)]
pub(super) struct KafkaSource {
    capabilities: Capabilities,
    of: Arc<Membership>,
    settler: Arc<KafkaSettler>,
    /// Answers when the member has left.
    left: Option<oneshot::Receiver<()>>,
}

impl KafkaSource {
    pub(super) async fn join(
        office: &Office,
        capabilities: &Capabilities,
        queue: &str,
        group: &str,
    ) -> Result<Self, BrokerError> {
        if group.is_empty() {
            return Err(BrokerError::Refused("a group must have a name".to_owned()));
        }
        let topic = queue.to_owned();
        let described = office.cluster.ask(move |cluster, _| cluster.describe(&topic)).await?;
        let of = Arc::new(Membership::new(office, queue, group, described.id));
        let (leaving, left) = oneshot::channel();
        let thread = Arc::clone(&of);
        std::thread::Builder::new()
            .name("dlo-kafka".to_owned())
            .spawn(move || {
                poller::run(&thread);
                let _ = leaving.send(());
            })
            .map_err(|cause| BrokerError::Unavailable(format!("no thread for a consumer: {cause}")))?;
        let settler = Arc::new(KafkaSettler { of: Arc::clone(&of), one_at_a_time: Arc::default() });
        Ok(Self { capabilities: capabilities.clone(), of, settler, left: Some(left) })
    }
}

#[async_trait]
impl Source for KafkaSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = Instant::now() + wait;
        loop {
            let came = self.of.lanes.came.notified();
            let now = Instant::now();
            let (taken, due) = self.of.lanes.take(max, now);
            if !taken.is_empty() || max == 0 {
                return Ok(taken);
            }
            let until = due.map_or(deadline, |due| due.min(deadline));
            if now >= deadline {
                return self.of.lanes.take_trouble().map_or_else(|| Ok(Vec::new()), Err);
            }
            // A wait that is over and a message that came are both only reasons to look again.
            let _ = tokio::time::timeout_at(until.into(), came).await;
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::clone(&self.settler) as Arc<dyn Settler>
    }

    async fn close(mut self: Box<Self>) -> Result<(), BrokerError> {
        // A commit that is under way holds the member; leaving waits for it.
        let settling = self.settler.one_at_a_time.lock().await;
        self.of.lanes.close();
        if let Some(left) = self.left.take() {
            let _ = left.await;
        }
        drop(settling);
        Ok(())
    }
}

impl Drop for KafkaSource {
    fn drop(&mut self) {
        self.of.lanes.close();
    }
}

#[derive(Debug)]
struct KafkaSettler {
    of: Arc<Membership>,
    /// Commits of one member must not overtake each other.
    one_at_a_time: Arc<tokio::sync::Mutex<()>>,
}

#[async_trait]
impl Settler for KafkaSettler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        let postponed = self.of.lanes.settle(settled);
        postpone(&self.of, postponed).await;
        let turn = Arc::clone(&self.one_at_a_time).lock_owned().await;
        let of = Arc::clone(&self.of);
        // On a thread of its own to its end, even if nobody waits for it any more: the turn goes with it.
        let told = tokio::task::spawn_blocking(move || {
            let told = tell(&of);
            drop(turn);
            told
        });
        told.await.unwrap_or(Err(BrokerError::Closed))
    }
}

/// Sends copies of what should come later to the topics where retries wait. What cannot be sent waits here.
async fn postpone(of: &Membership, postponed: Vec<Postponed>) {
    if postponed.is_empty() {
        return;
    }
    let mut parcels = Vec::with_capacity(postponed.len());
    for one in &postponed {
        let topic = retry::topic(&of.queue, &of.group, one.after);
        if !of.knows_retry(&topic) {
            match of.topology.ensure_retry(&topic, &of.queue).await {
                Ok(()) => of.add_retry(topic.clone()),
                Err(error) => {
                    tracing::warn!(target: "kafka", topic, %error, "a retry topic could not be made");
                }
            }
        }
        let outgoing =
            Outgoing { to: Destination::queue(topic), message: one.record.message.clone(), delay: None };
        parcels.push(Parcel { outgoing, ticket: Some(Ticket::new(&one.record, one.after).to_bytes()) });
    }
    let sent = of.publisher.send_all(parcels).await;
    for (one, sent) in postponed.into_iter().zip(sent) {
        if let Err(error) = &sent {
            tracing::warn!(target: "kafka", queue = &*of.queue, %error, "a retry waits in memory");
        }
        of.lanes.postponed(one, sent.is_ok());
    }
}

/// Tells the group everything that is done and was not told. Blocks.
///
/// While the group divides its partitions anew a commit is turned away; it is tried again as long as the partitions
/// are ours and `COMMIT` is not over.
fn tell(of: &Membership) -> Result<(), BrokerError> {
    let deadline = Instant::now() + COMMIT;
    let mut begun: Vec<u32> = Vec::new();
    loop {
        let commits = of.lanes.commits();
        let gone = begun.iter().any(|id| of.lanes.is_gone(*id));
        if gone {
            return Err(untold(of, "its partitions were taken away meanwhile"));
        }
        if commits.is_empty() {
            return Ok(());
        }
        begun = commits.iter().map(|(id, ..)| *id).collect();
        match commit(of, &commits) {
            Ok(()) => {
                for (id, _, _, commit) in &commits {
                    of.lanes.told(*id, commit);
                }
                return Ok(());
            }
            Err(error) if Instant::now() > deadline => return Err(untold(of, &error.to_string())),
            Err(error) => {
                tracing::debug!(target: "kafka", %error, "a commit is tried again");
                std::thread::sleep(COMMIT_PAUSE);
            }
        }
    }
}

fn untold(of: &Membership, why: &str) -> BrokerError {
    BrokerError::Unavailable(format!("the group of `{}` was not told what is done: {why}", of.queue))
}

fn commit(of: &Membership, commits: &[(u32, Arc<str>, i32, Commit)]) -> Result<(), KafkaError> {
    let Some(member) = of.member() else { return Err(KafkaError::Canceled) };
    let mut told = TopicPartitionList::with_capacity(commits.len());
    for (_, topic, partition, commit) in commits {
        let mut place = told.add_partition(topic, *partition);
        place.set_offset(Offset::Offset(commit.offset))?;
        place.set_metadata(&commit.metadata);
    }
    member.commit(&told, CommitMode::Sync)?;
    told.elements().iter().try_for_each(|place| place.error())
}
