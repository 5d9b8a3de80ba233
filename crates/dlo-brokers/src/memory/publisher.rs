//! Publishing: a batch under one lock, in the order given.
//!
//! A confirmed message is in its partition. Where a queue is full and makes publishers wait, everything behind the
//! message that waits, waits with it, so that equal keys keep their order. [`Once`] adds a send that it knows no more.

use std::collections::VecDeque;
use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{Broker, Capabilities, Confirmed, Outgoing, PublishError, Publisher};
use dlo_core::time::Timestamp;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::log::size_of;
use super::{LONGEST_DELAY, MemoryBroker, Overflow, Queues, sent};

#[async_trait]
impl Publisher for MemoryBroker {
    fn capabilities(&self) -> &Capabilities {
        Broker::capabilities(self)
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        self.publish_all(messages, false).await
    }
}

/// A publisher that adds each send once.
#[derive(Debug)]
pub(super) struct Once(pub(super) MemoryBroker);

#[async_trait]
impl Publisher for Once {
    fn capabilities(&self) -> &Capabilities {
        Broker::capabilities(&self.0)
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        self.0.publish_all(messages, true).await
    }
}

impl MemoryBroker {
    async fn publish_all(&self, messages: Vec<Outgoing>, once: bool) -> Vec<Result<Confirmed, PublishError>> {
        let mut results = Vec::with_capacity(messages.len());
        let mut left = VecDeque::from(messages);
        while let Some(next) = left.front() {
            let room = self.room_of(&next.to.queue);
            let mut made = std::pin::pin!(room.notified());
            made.as_mut().enable();
            let before = results.len();
            self.send_what_fits(&mut left, &mut results, once);
            // If nothing went, it is this queue that is full. If something did, look again with the right bell.
            if results.len() == before {
                made.await;
            }
        }
        results
    }

    fn room_of(&self, queue: &str) -> Arc<Notify> {
        self.queues().by_name.get(queue).map(|queue| Arc::clone(&queue.room)).unwrap_or_default()
    }

    /// Sends from the front until one has to wait for room.
    fn send_what_fits(
        &self,
        left: &mut VecDeque<Outgoing>,
        results: &mut Vec<Result<Confirmed, PublishError>>,
        once: bool,
    ) {
        let (at, now) = (self.shared.clock.now(), Instant::now());
        let mut queues = self.queues();
        let mut touched: Vec<Arc<str>> = Vec::new();
        while let Some(next) = left.front() {
            let id = if once { sent::id_of(&next.message) } else { None };
            let known = id.as_deref().and_then(|id| queues.by_name.get(&next.to.queue)?.sent.place(id));
            if known.is_none() && queues.must_wait(next) {
                break;
            }
            let Some(next) = left.pop_front() else { break };
            if let Some(place) = known {
                results.push(Ok(place));
                continue;
            }
            let name = next.to.queue.clone();
            let result = queues.send(next, self.shared.capabilities.max_message, at, now, &mut touched);
            if let (Some(id), Ok(place), Some(queue)) = (id, &result, queues.by_name.get_mut(&name)) {
                queue.sent.remember(id, *place, now);
            }
            results.push(result);
        }
        for name in touched {
            if let Some(queue) = queues.by_name.get(&*name) {
                queue.ring();
            }
        }
    }
}

impl Queues {
    /// Whether the queue of a message is full and wants its publishers to wait.
    fn must_wait(&self, outgoing: &Outgoing) -> bool {
        self.by_name.get(&outgoing.to.queue).is_some_and(|queue| {
            queue.options.overflow == Overflow::Wait && !queue.has_room(size_of(&outgoing.message))
        })
    }

    fn send(
        &mut self,
        outgoing: Outgoing,
        limit: usize,
        at: Timestamp,
        now: Instant,
        touched: &mut Vec<Arc<str>>,
    ) -> Result<Confirmed, PublishError> {
        let Outgoing { to, message, delay } = outgoing;
        let size = size_of(&message);
        if size > limit {
            return Err(PublishError::TooLarge { size, limit });
        }
        let queue = self.by_name.get_mut(&to.queue).ok_or_else(|| {
            refused(format!("there is no queue `{}`; create it with `dlo topology apply`", to.queue))
        })?;
        if delay.is_some_and(|delay| delay > LONGEST_DELAY) {
            return Err(refused(format!("a delay is at most {} seconds", LONGEST_DELAY.as_secs())));
        }
        if !queue.has_room(size) {
            return Err(refused(format!("queue `{}` is full", queue.name)));
        }
        let partition = queue.partition_for(&message, to.partition).map_err(refused)?;
        let offset = queue.append(partition, message, at, now, delay.filter(|delay| !delay.is_zero()));
        if !touched.contains(&queue.name) {
            touched.push(Arc::clone(&queue.name));
        }
        Ok(Confirmed { partition: i32::try_from(partition).ok(), offset: i64::try_from(offset).ok() })
    }
}

fn refused(why: String) -> PublishError {
    PublishError::Refused(why)
}
