//! A consumer of one queue as a [`Source`]: messages are pushed by the server as far as the prefetch goes, and handed out
//! in batches of what arrived.
//!
//! All consumers of a queue share it; a group's name means nothing here. When the connection goes, the same source
//! finds its queue again. What it had not settled is delivered again, to it or to another consumer.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Capabilities, Delivery, Settler, Source};
use tokio::time::Instant;

use super::Shared;
use super::connection::answered;
use super::seat::Seat;
use super::settler::RabbitmqSettler;
use crate::backoff::Backoff;

#[derive(Debug)]
pub(super) struct RabbitmqSource {
    seat: Arc<Seat>,
    backoff: Backoff,
}

impl RabbitmqSource {
    /// Joins, or says why not: a queue that is missing, a server that is away.
    pub(super) async fn join(shared: Arc<Shared>, queue: &str) -> Result<Self, BrokerError> {
        let seat = Arc::new(Seat::new(Arc::clone(&shared), queue));
        seat.open().await?;
        shared.remember(&seat);
        Ok(Self { seat, backoff: Backoff::default() })
    }

    /// A pause before the next attempt; the error where the time is over before.
    async fn pause(&mut self, deadline: Instant, why: BrokerError) -> Result<(), BrokerError> {
        let until = Instant::now() + self.backoff.next();
        tokio::time::sleep_until(until.min(deadline)).await;
        if until < deadline { Ok(()) } else { Err(why) }
    }
}

#[async_trait]
impl Source for RabbitmqSource {
    fn capabilities(&self) -> &Capabilities {
        &self.seat.shared.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = Instant::now() + wait;
        loop {
            if !self.seat.is_open() {
                match self.seat.open().await {
                    Ok(()) => {}
                    Err(why) if why.is_transient() => {
                        self.pause(deadline, why).await?;
                        continue;
                    }
                    Err(why) => return Err(why),
                }
            }
            let seat = &self.seat;
            // Nothing is awaited between taking from the channel and handing out: a dropped call has taken nothing.
            let arrival = std::future::poll_fn(|cx| seat.poll_arrival(cx, max));
            match tokio::time::timeout_at(deadline, arrival).await {
                Err(_) => return Ok(Vec::new()),
                Ok(Ok(deliveries)) => {
                    self.backoff.reset();
                    return Ok(deliveries);
                }
                Ok(Err(why)) => self.pause(deadline, why).await?,
            }
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::new(RabbitmqSettler(Arc::clone(&self.seat)))
    }

    async fn close(self: Box<Self>) -> Result<(), BrokerError> {
        let Some(channel) = self.seat.leave() else { return Ok(()) };
        match answered(channel.close(200, "done".into())).await {
            // A channel that is gone was closed by somebody else, with the same outcome.
            Ok(()) | Err(BrokerError::Unavailable(_) | BrokerError::Closed) => Ok(()),
            Err(other) => Err(other),
        }
    }
}

impl Drop for RabbitmqSource {
    fn drop(&mut self) {
        self.seat.leave();
    }
}
