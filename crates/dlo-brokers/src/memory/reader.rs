//! Looking without taking: one partition, by position.
//!
//! A record can be looked at until every group has been handed it. A reader is no group: it holds nothing back.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Look, Position, Reader, Seen};
use dlo_core::origin::Origin;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::MemoryBroker;
use super::dead::origin;
use super::queue::Queue;

#[derive(Debug)]
pub(super) struct MemoryReader {
    broker: MemoryBroker,
    queue: String,
    position: Position,
    news: Arc<Notify>,
}

impl MemoryReader {
    pub(super) fn open(
        broker: MemoryBroker,
        queue: &str,
        partition: i32,
        from: Option<&Position>,
    ) -> Result<Self, BrokerError> {
        let (position, news) = {
            let mut queues = broker.queues();
            let there = queues.queue(queue)?;
            if usize::try_from(partition).map_or(true, |partition| partition >= there.logs.len()) {
                return Err(BrokerError::Refused(format!("queue `{queue}` has no partition {partition}")));
            }
            let same = from.filter(|from| *from.incarnation == *there.incarnation);
            let next = same.map_or(0, |from| from.next);
            let incarnation = there.incarnation.to_string();
            (Position { incarnation, partition, next, mark: None }, Arc::clone(&there.news))
        };
        Ok(Self { broker, queue: queue.to_owned(), position, news })
    }

    fn look(&mut self, max: usize) -> Result<Look, BrokerError> {
        let now = Instant::now();
        let mut queues = self.broker.queues();
        let queue = queues.queue(&self.queue)?;
        if *queue.incarnation != *self.position.incarnation {
            return Err(BrokerError::Closed);
        }
        let partition = u16::try_from(self.position.partition).unwrap_or(0);
        let log = &queue.logs[usize::from(partition)];
        let wanted = u64::try_from(self.position.next).unwrap_or(0);
        let mut next = wanted.max(log.base());
        let skipped = next - wanted;
        let mut seen = Vec::new();
        while seen.len() < max
            && let Some(record) = log.get(next).filter(|record| record.due.is_none_or(|due| due <= now))
        {
            seen.push(look_at(queue, partition, record));
            next += 1;
        }
        self.position.next = i64::try_from(next).unwrap_or(i64::MAX);
        Ok(Look { seen, position: self.position.clone(), skipped })
    }
}

fn look_at(queue: &Queue, partition: u16, record: &super::log::Record) -> Seen {
    Seen {
        message: record.message.clone(),
        origin: origin(queue, partition, record.offset),
        published_at: Some(record.published_at),
    }
}

/// The record at a place, if some group has not been handed it yet.
pub(super) fn fetch(broker: &MemoryBroker, wanted: &Origin) -> Result<Option<Seen>, BrokerError> {
    let mut queues = broker.queues();
    let queue = queues.queue(&wanted.queue)?;
    if wanted.incarnation.as_deref().is_some_and(|incarnation| *incarnation != *queue.incarnation) {
        return Ok(None);
    }
    let place = wanted.partition.zip(wanted.offset);
    let place = place
        .and_then(|(partition, offset)| Some((u16::try_from(partition).ok()?, u64::try_from(offset).ok()?)));
    let Some((partition, offset)) = place else { return Ok(None) };
    let record = queue.logs.get(usize::from(partition)).and_then(|log| log.get(offset));
    Ok(record.map(|record| look_at(queue, partition, record)))
}

#[async_trait]
impl Reader for MemoryReader {
    async fn read(&mut self, max: usize, wait: Duration) -> Result<Look, BrokerError> {
        let deadline = Instant::now() + wait;
        let bell = Arc::clone(&self.news);
        loop {
            // Listening begins before looking: what arrives in between rings.
            let mut rung = std::pin::pin!(bell.notified());
            rung.as_mut().enable();
            let look = self.look(max)?;
            if !look.seen.is_empty() || look.skipped > 0 || Instant::now() >= deadline {
                return Ok(look);
            }
            tokio::select! {
                () = rung => {}
                () = tokio::time::sleep_until(deadline) => {}
            }
        }
    }

    async fn tell(&mut self, _: &Position) -> Result<(), BrokerError> {
        Ok(())
    }
}
