//! One partition by position: no group, nothing taken, as fast as the cluster sends.
//!
//! Each reader is a client of its own. A call to `read` hands the work to a thread that may block and leaves what was
//! read in the reader, so a call that is given up loses nothing. Markers of transactions and compacted gaps have
//! offsets but no records: the position moves past them. Records that retention removed before they were read
//! are counted as skipped, told from gaps by the cluster's own word that the offset is out of range.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Look, OFFICE, Position, Reader, Seen};
use rdkafka::consumer::{BaseConsumer, CommitMode, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::RDKafkaErrorCode;
use tokio::task::JoinHandle;

use super::connection::{Cluster, Ears, PATIENCE, broker_error};
use super::inspect;
use super::record;

/// How often it is asked whether the topic is still the same one.
const LIFE: Duration = Duration::from_secs(1);
/// One wait inside a read.
const POLL: Duration = Duration::from_millis(100);
/// Bytes that librdkafka fetches ahead for all readers of a topic, and that a look of each of them brings. A topic has a
/// reader for each partition: each has its share, within these bounds. One record that is larger still comes.
const AHEAD: usize = 6 * 1024 * 1024;
const LEAST_AHEAD: usize = 128 * 1024;
const MOST_AHEAD: usize = 2 * 1024 * 1024;

/// What is behind the calls.
struct Desk {
    cluster: Arc<Cluster>,
    client: BaseConsumer<Ears>,
    queue: String,
    partition: i32,
    incarnation: Option<String>,
    /// Read and not handed out.
    read: VecDeque<Seen>,
    read_bytes: usize,
    /// Bytes of one look.
    ahead: usize,
    /// Behind everything that was read.
    next: i64,
    skipped: u64,
    asked: Instant,
}

/// A reader of one partition.
pub(super) struct KafkaReader {
    desk: Arc<Mutex<Desk>>,
    /// The position that was handed out last.
    position: Position,
    reading: Option<JoinHandle<Result<(), BrokerError>>>,
}

impl fmt::Debug for KafkaReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaReader").field("position", &self.position).finish_non_exhaustive()
    }
}

/// Bytes that the reader of one of so many partitions has ahead.
fn share(partitions: usize) -> usize {
    (AHEAD / partitions.max(1)).clamp(LEAST_AHEAD, MOST_AHEAD)
}

fn lock(desk: &Mutex<Desk>) -> MutexGuard<'_, Desk> {
    desk.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KafkaReader {
    pub(super) async fn open(
        cluster: &Arc<Cluster>,
        queue: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Self, BrokerError> {
        let (queue, from) = (queue.to_owned(), from.cloned());
        let desk = cluster.ask(move |cluster, _| Desk::open(cluster, queue, partition, from)).await?;
        let position = Position {
            incarnation: desk.incarnation.clone().unwrap_or_default(),
            partition,
            next: desk.next,
            mark: None,
        };
        Ok(Self { desk: Arc::new(Mutex::new(desk)), position, reading: None })
    }

    /// What is there to hand out, if there is anything.
    fn hand_out(&mut self, max: usize) -> Option<Look> {
        let mut desk = lock(&self.desk);
        let count = max.min(desk.read.len());
        let seen: Vec<Seen> = desk.read.drain(..count).collect();
        desk.read_bytes = desk.read_bytes.saturating_sub(seen.iter().map(weight).sum());
        let next = match (desk.read.front(), seen.last()) {
            (None, _) => desk.next,
            (Some(_), Some(last)) => last.origin.offset.map_or(desk.next, |offset| offset + 1),
            (Some(_), None) => self.position.next,
        };
        let skipped = std::mem::take(&mut desk.skipped);
        let moved = next != self.position.next;
        self.position.next = next;
        (!seen.is_empty() || moved || skipped > 0).then(|| Look {
            seen,
            position: self.position.clone(),
            skipped,
        })
    }
}

fn weight(seen: &Seen) -> usize {
    record::size(&seen.message)
}

#[async_trait]
impl Reader for KafkaReader {
    async fn read(&mut self, max: usize, wait: Duration) -> Result<Look, BrokerError> {
        let deadline = tokio::time::Instant::now() + wait;
        if max > 0
            && self.reading.is_none()
            && !lock(&self.desk).read.is_empty()
            && let Some(look) = self.hand_out(max)
        {
            return Ok(look);
        }
        let reading = self.reading.get_or_insert_with(|| {
            let desk = Arc::clone(&self.desk);
            tokio::task::spawn_blocking(move || lock(&desk).read(max, wait))
        });
        // Patience beyond the wait itself, for the thread to end: it looks at its own clock.
        let grace = Duration::from_secs(1);
        let outcome = match tokio::time::timeout_at(deadline + grace, &mut *reading).await {
            Ok(done) => done.unwrap_or(Err(BrokerError::Closed)),
            // A call that was given up had more time than this one; what it reads is handed out next.
            Err(_) => return Ok(Look { seen: Vec::new(), position: self.position.clone(), skipped: 0 }),
        };
        self.reading = None;
        outcome?;
        let nothing = Look { seen: Vec::new(), position: self.position.clone(), skipped: 0 };
        Ok(self.hand_out(max).unwrap_or(nothing))
    }

    async fn tell(&mut self, position: &Position) -> Result<(), BrokerError> {
        let (desk, next) = (Arc::clone(&self.desk), position.next);
        let told = tokio::task::spawn_blocking(move || lock(&desk).tell(next));
        told.await.unwrap_or(Err(BrokerError::Closed))
    }
}

impl Desk {
    pub(super) fn open(
        cluster: &Arc<Cluster>,
        queue: String,
        partition: i32,
        from: Option<Position>,
    ) -> Result<Self, BrokerError> {
        let topic = cluster.describe(&queue)?;
        if !topic.partitions.contains(&partition) {
            return Err(BrokerError::Refused(format!("the topic `{queue}` has no partition {partition}")));
        }
        let mut settings = cluster.reading(OFFICE);
        let ahead = share(topic.partitions.len()).min(cluster.config.half_buffer());
        settings.set("queued.max.messages.kbytes", (ahead / 1024).max(1).to_string());
        settings.set("fetch.max.bytes", ahead.max(1_048_576).to_string());
        // It goes on fetching until so much waits: one answer comes on top.
        settings.set("fetch.message.max.bytes", (ahead / 2).max(1024).to_string());
        let client = cluster.client(&settings, Ears::default())?;
        let mut desk = Self {
            cluster: Arc::clone(cluster),
            client,
            queue,
            partition,
            incarnation: topic.id,
            read: VecDeque::new(),
            read_bytes: 0,
            ahead,
            next: 0,
            skipped: 0,
            asked: Instant::now(),
        };
        let life = desk.incarnation.clone().unwrap_or_default();
        match from.filter(|from| from.incarnation == life) {
            Some(from) => {
                desk.next = from.next;
                desk.seek()?;
            }
            None => {
                desk.next = desk.range()?.0;
                desk.seek()?;
            }
        }
        Ok(desk)
    }

    fn error(&self, error: &KafkaError) -> BrokerError {
        broker_error(error, &self.queue, &self.client.context().complaints)
    }

    /// The first and the last offset plus one that are there now.
    fn range(&self) -> Result<(i64, i64), BrokerError> {
        inspect::range(&self.client, &self.queue, self.partition).map_err(|error| self.error(&error))
    }

    fn seek(&self) -> Result<(), BrokerError> {
        let mut place = TopicPartitionList::with_capacity(1);
        let set = place.add_partition_offset(&self.queue, self.partition, Offset::Offset(self.next));
        set.and_then(|()| self.client.assign(&place)).map_err(|error| self.error(&error))
    }

    /// Reads until there is something, `max` at most, for `wait` at most.
    fn read(&mut self, max: usize, wait: Duration) -> Result<(), BrokerError> {
        let deadline = Instant::now() + wait;
        let began = (self.next, self.skipped);
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let some = !self.read.is_empty();
            let pause = if some { Duration::ZERO } else { left.min(POLL) };
            let polled = self.client.poll(pause).map(|polled| {
                polled.map(|record| {
                    (record.offset(), record::seen(&record, &self.queue, self.incarnation.as_deref()))
                })
            });
            match polled {
                Some(Ok((offset, seen))) => {
                    self.read_bytes += weight(&seen);
                    self.read.push_back(seen);
                    self.next = offset + 1;
                    if self.read.len() >= max || self.read_bytes >= self.ahead {
                        break;
                    }
                }
                Some(Err(error)) => self.heed(&error)?,
                None => {
                    self.pass_markers();
                    if some || left.is_zero() || began != (self.next, self.skipped) {
                        break;
                    }
                    self.check_life()?;
                }
            }
        }
        self.check_life()
    }

    /// Past offsets that belong to no record: librdkafka has passed them when it has nothing more to give.
    fn pass_markers(&mut self) {
        let at = self
            .client
            .position()
            .ok()
            .and_then(|all| all.find_partition(&self.queue, self.partition)?.offset().to_raw());
        self.next = self.next.max(at.unwrap_or(self.next));
    }

    fn heed(&mut self, error: &KafkaError) -> Result<(), BrokerError> {
        use RDKafkaErrorCode as Code;
        match error.rdkafka_error_code() {
            Some(Code::AutoOffsetReset | Code::OffsetOutOfRange) => {
                self.ask_life()?;
                let (low, high) = self.range()?;
                if self.next < low {
                    self.skipped += u64::try_from(low - self.next).unwrap_or(0);
                    self.next = low;
                } else if self.next > high {
                    // The log lost its end. What is written there now comes from there on.
                    self.next = high;
                }
                self.seek()
            }
            Some(Code::BrokerTransportFailure | Code::OperationTimedOut | Code::AllBrokersDown) => Ok(()),
            None if matches!(error, KafkaError::PartitionEOF(_)) => Ok(()),
            _ => {
                self.ask_life()?;
                Err(self.error(error))
            }
        }
    }

    fn check_life(&mut self) -> Result<(), BrokerError> {
        if self.asked.elapsed() < LIFE { Ok(()) } else { self.ask_life() }
    }

    /// A topic that is gone, or is another one now, ends the reader. A cluster that is away does not.
    fn ask_life(&mut self) -> Result<(), BrokerError> {
        match self.cluster.describe(&self.queue) {
            Ok(topic) if topic.id == self.incarnation => {
                self.asked = Instant::now();
                Ok(())
            }
            Ok(_) => Err(self.end(BrokerError::Closed)),
            Err(BrokerError::Missing(queue)) => Err(self.end(BrokerError::Missing(queue))),
            Err(error) => Err(error),
        }
    }

    /// What was read since nobody knows when may be of the next life: it is not handed out.
    fn end(&mut self, why: BrokerError) -> BrokerError {
        self.read.clear();
        self.read_bytes = 0;
        why
    }

    /// Without waiting for the answer: it is for those who watch, the next one says it as well, and a cluster that is gone
    /// would hold up whoever wants to stop. Somebody who reads as a member of the office's group is not contradicted.
    fn tell(&self, next: i64) -> Result<(), BrokerError> {
        let mut place = TopicPartitionList::with_capacity(1);
        let set = place.add_partition_offset(&self.queue, self.partition, Offset::Offset(next));
        let told = set.and_then(|()| self.client.commit(&place, CommitMode::Async));
        told.map_err(|error| self.error(&error))
    }

    /// The record at exactly `offset`, if it is there.
    fn fetch(&mut self, offset: i64) -> Result<Option<Seen>, BrokerError> {
        let (low, high) = self.range()?;
        if offset < low || offset >= high {
            return Ok(None);
        }
        self.next = offset;
        self.seek()?;
        self.read(1, PATIENCE)?;
        let first = self.read.pop_front();
        Ok(first.filter(|seen| seen.origin.offset == Some(offset)))
    }
}

/// One record by its coordinates. Blocks.
pub(super) fn fetch(
    cluster: &Arc<Cluster>,
    queue: String,
    incarnation: Option<&str>,
    partition: i32,
    offset: i64,
) -> Result<Option<Seen>, BrokerError> {
    let from = Position { incarnation: String::new(), partition, next: offset, mark: None };
    let mut desk = match Desk::open(cluster, queue, partition, Some(from)) {
        Ok(desk) => desk,
        Err(BrokerError::Missing(_)) => return Ok(None),
        Err(error) => return Err(error),
    };
    if incarnation.is_some() && incarnation != desk.incarnation.as_deref() {
        return Ok(None);
    }
    desk.fetch(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_of_a_topic_share_what_is_fetched_ahead() {
        assert_eq!(share(1), MOST_AHEAD);
        assert_eq!(share(6) * 6, AHEAD);
        assert!(share(7) * 7 <= AHEAD);
        assert_eq!(share(5_000), LEAST_AHEAD);
        assert_eq!(share(0), MOST_AHEAD);
    }
}
