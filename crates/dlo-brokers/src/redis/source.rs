//! A consumer of a group as a [`Source`].
//!
//! Every read is a task of its own, one at a time. A caller that gives up leaves the read running, and the next call gets
//! what it brought, so nothing is lost by cancelling. Who takes full batches of [`AHEAD_FROM`] or more gets the next
//! one read ahead while it works on this one; that one counts as in flight.
//!
//! Bounded: one batch read ahead beside what is left of the one before, each of at most `prefetch` entries (twice that, when
//! as many are delivered again).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{Broker as _, BrokerError, Capabilities, Delivery, Settler, Source};
use dlo_core::origin::{BrokerKind, Origin};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::keeper::{Leave, keep};
use super::reading::{Taken, read};
use super::seat::Seat;
use super::settler::RedisSettler;
use super::{Names, RedisBroker, Shared, entry};
use crate::backoff::Backoff;

/// Batches of this size and more are worth reading the next one ahead.
const AHEAD_FROM: usize = 64;
/// What a read may take beyond the caller's time: its last answer is on the way.
const GRACE: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct RedisSource {
    broker: RedisBroker,
    seat: Arc<Seat>,
    ready: VecDeque<Taken>,
    reading: Option<JoinHandle<Result<Vec<Taken>, BrokerError>>>,
    backoff: Backoff,
    /// Tells the keeper to hand back what is held.
    leave: Option<oneshot::Sender<Leave>>,
}

impl RedisSource {
    pub(super) async fn join(shared: Arc<Shared>, names: Names, drain: bool) -> Result<Self, BrokerError> {
        let broker = RedisBroker { shared: Arc::clone(&shared) };
        let seat = Arc::new(Seat::new(shared, names, drain));
        seat.take_place().await?;
        let (leave, told) = oneshot::channel();
        tokio::spawn(keep(Arc::clone(&seat), told));
        let (ready, backoff) = (VecDeque::new(), Backoff::default());
        Ok(Self { broker, seat, ready, reading: None, backoff, leave: Some(leave) })
    }

    fn start(&mut self, max: usize, block: Duration) {
        self.reading = Some(tokio::spawn(read(Arc::clone(&self.seat), max, block)));
    }

    /// Hands out what is ready, and sees to it that the wire is busy meanwhile.
    fn hand_out(&mut self, max: usize) -> Vec<Delivery> {
        let batch: Vec<Taken> = self.ready.drain(..self.ready.len().min(max)).collect();
        if batch.len() == max && max >= AHEAD_FROM && self.ready.len() < max && self.reading.is_none() {
            self.start(max, Duration::ZERO);
        }
        let tags = self.seat.hand_out(batch.iter().map(|taken| taken.entry.id));
        let payload_field = self.seat.shared.config.payload_field.as_deref();
        let deliver = |(taken, tag): (Taken, _)| {
            let id = taken.entry.id;
            let origin = Origin::message(BrokerKind::Redis, &self.seat.names.stream, id.to_string());
            let message = entry::read(taken.entry.fields, payload_field);
            let mut delivery = Delivery::new(message, origin, tag);
            delivery.delivery_count = Some(taken.deliveries);
            delivery.redelivered = taken.deliveries > 1;
            delivery.published_at = id.time();
            delivery
        };
        batch.into_iter().zip(tags).map(deliver).collect()
    }

    fn leaving(&mut self, done: Option<oneshot::Sender<Result<(), BrokerError>>>) {
        self.seat.leave();
        if let Some(leave) = self.leave.take() {
            // A keeper that is gone went with its runtime, and nobody can hand back anything.
            let _ = leave.send(Leave { reading: self.reading.take(), done });
        }
    }
}

impl Drop for RedisSource {
    fn drop(&mut self) {
        self.leaving(None);
    }
}

#[async_trait]
impl Source for RedisSource {
    fn capabilities(&self) -> &Capabilities {
        self.broker.capabilities()
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = Instant::now() + wait;
        let max = max.clamp(1, self.seat.shared.config.prefetch.get() as usize);
        let mut trouble = None;
        loop {
            if !self.ready.is_empty() {
                return Ok(self.hand_out(max));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.reading.is_none() {
                self.start(max, left);
            }
            let Some(reading) = &mut self.reading else { continue };
            let Ok(joined) = tokio::time::timeout_at(deadline + GRACE, reading).await else {
                // It goes on; the next call gets what it brings.
                return trouble.map_or(Ok(Vec::new()), Err);
            };
            self.reading = None;
            match joined {
                Ok(Ok(taken)) => {
                    self.backoff.reset();
                    trouble = None;
                    self.ready.extend(taken);
                }
                Ok(Err(error)) if !error.is_transient() => return Err(error),
                Ok(Err(error)) => trouble = Some(error),
                Err(_) => trouble = Some(BrokerError::Unavailable("a read was broken off".to_owned())),
            }
            if trouble.is_some() {
                tokio::time::sleep_until((Instant::now() + self.backoff.next()).min(deadline)).await;
            }
            if self.ready.is_empty() && Instant::now() >= deadline {
                return trouble.map_or(Ok(Vec::new()), Err);
            }
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::new(RedisSettler(Arc::clone(&self.seat)))
    }

    async fn close(mut self: Box<Self>) -> Result<(), BrokerError> {
        let (done, answer) = oneshot::channel();
        self.leaving(Some(done));
        answer.await.unwrap_or(Err(BrokerError::Closed))
    }
}
