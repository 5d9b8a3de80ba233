//! A [`Source`] over pulls.
//!
//! A pull asks only for what the caller has room for and never waits at the service: at an empty subscription pulls follow
//! each other with pauses that grow up to `poll`, and as long as messages come their number doubles up to `parallel`.
//! They run beside the caller and are never cut off, since a message on the way to a request that nobody waits for would
//! stay hidden for its whole lease: a cancelled `receive` leaves them to the next one, and closing waits for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Capabilities, Delivery, Settler, Source};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::time::Timestamp;
use serde_json::json;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::config::BATCH;
use super::connection::Connection;
use super::settler::PubsubSettler;
use super::subscription::Joined;
use super::wire::{Pulled, Received, WireMessage};
use crate::backoff::Backoff;
use crate::leases::{Held, Lease};

/// The first pause after a pull that brought nothing.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
/// How long a receive that has something waits for pulls that are on their way.
const LINGER: Duration = Duration::from_millis(30);
/// How long a receive gathers before it returns with fewer than it may.
const GATHER: Duration = Duration::from_secs(1);

/// What source and settlers share.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) connection: Arc<Connection>,
    /// As it was named.
    pub(super) queue: String,
    pub(super) joined: Joined,
    pub(super) held: Held<WireMessage>,
}

/// What one pull brought.
#[derive(Debug)]
struct Came {
    asked: usize,
    /// When it was asked: no lease began earlier.
    at: Instant,
    what: Result<Vec<Received>, BrokerError>,
}

#[derive(Debug)]
pub(super) struct PubsubSource {
    seat: Arc<Seat>,
    capabilities: Capabilities,
    pulls: JoinSet<Came>,
    /// Messages that running pulls may bring.
    asked: usize,
    /// Pulls at once; grows while messages come.
    eager: usize,
    /// The last pull brought something: there may be more.
    more: bool,
    pause: Duration,
    ready: VecDeque<(Instant, Delivery)>,
    backoff: Backoff,
    left: bool,
}

impl PubsubSource {
    pub(super) fn new(seat: Seat, capabilities: Capabilities) -> Self {
        Self {
            seat: Arc::new(seat),
            capabilities,
            pulls: JoinSet::new(),
            asked: 0,
            eager: 1,
            more: false,
            pause: FIRST_PAUSE,
            ready: VecDeque::new(),
            backoff: Backoff::default(),
            left: false,
        }
    }

    /// Starts pulls for `room` messages beyond those that are asked for.
    fn pull(&mut self, room: usize) {
        let mut room = room.saturating_sub(self.asked);
        while room > 0 && self.pulls.len() < self.eager {
            let asked = room.min(BATCH);
            self.pulls.spawn(pull(Arc::clone(&self.seat), asked));
            self.asked += asked;
            room -= asked;
        }
    }

    /// Takes in what a pull brought.
    fn collect(&mut self, came: Result<Came, JoinError>) -> Result<(), BrokerError> {
        let came = came.map_err(|cause| BrokerError::Unavailable(format!("a pull ended: {cause}")))?;
        self.asked -= came.asked;
        let received = came.what.inspect_err(|_| self.eager = 1)?;
        self.backoff.reset();
        self.more = !received.is_empty();
        self.eager = if self.more { (self.eager * 2).min(self.seat.connection.config.parallel) } else { 1 };
        let until = came.at + self.seat.joined.lease;
        for one in received {
            let delivery = self.seat.delivery(one, came.at);
            self.ready.extend(delivery.map(|delivery| (until, delivery)));
        }
        Ok(())
    }

    /// The pause before the next pull of an empty subscription.
    fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (2 * pause).min(self.seat.connection.config.poll.0);
        pause
    }

    /// Hands out what is ready. What waited here for longer than its lease goes to somebody else, or comes again.
    fn hand_out(&mut self, max: usize) -> Vec<Delivery> {
        let now = Instant::now();
        self.ready.retain(|(until, _)| now < *until);
        let count = max.min(self.ready.len());
        if count > 0 {
            self.pause = FIRST_PAUSE;
        }
        self.ready.drain(..count).map(|(_, delivery)| delivery).collect()
    }
}

async fn pull(seat: Arc<Seat>, asked: usize) -> Came {
    let at = Instant::now();
    let path = format!("{}:pull", seat.joined.path);
    let body = json!({ "maxMessages": asked, "returnImmediately": true });
    let pulled = seat.connection.post::<Pulled>(&path, &body).await;
    let what = pulled.map(|pulled| pulled.received_messages).map_err(|failure| failure.of(&seat.queue));
    Came { asked, at, what }
}

impl Seat {
    /// A message that cannot be read comes again when its lease is over, and is dead-lettered where there is a policy.
    fn delivery(&self, received: Received, taken: Instant) -> Option<Delivery> {
        let Received { ack_id, message, delivery_attempt } = received;
        let count = delivery_attempt.filter(|count| *count > 0);
        let whole = self.joined.dead.is_some().then(|| Box::new(message.clone()));
        let origin = Origin::message(BrokerKind::Pubsub, &self.queue, message.message_id.as_str());
        let published_at = Timestamp::parse(&message.publish_time).ok();
        let message = message.read(count)?;
        let tag = self.held.take(Lease { receipt: ack_id, taken, until: taken + self.joined.lease, whole });
        let mut delivery = Delivery::new(message, origin, tag);
        delivery.delivery_count = count;
        delivery.redelivered = count.is_some_and(|count| count > 1);
        delivery.published_at = published_at;
        Some(delivery)
    }
}

#[async_trait]
impl Source for PubsubSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let began = Instant::now();
        let deadline = began + wait;
        self.seat.held.sweep(self.seat.joined.lease);
        let mut trouble = None;
        loop {
            let room = max.saturating_sub(self.ready.len());
            let has = !self.ready.is_empty();
            if room == 0 || (has && (began.elapsed() >= GATHER || (!self.more && self.pulls.is_empty()))) {
                break;
            }
            if !has || self.more {
                self.pull(room);
            }
            // A pull does not wait at the service, so even a caller without patience waits for one.
            let until = if has { Instant::now() + LINGER } else { deadline };
            let joined = match wait.is_zero() && !has {
                true => self.pulls.join_next().await,
                false => match tokio::time::timeout_at(until, self.pulls.join_next()).await {
                    Ok(joined) => joined,
                    Err(_) => break,
                },
            };
            let pause = match joined.map(|came| self.collect(came)) {
                None | Some(Ok(())) => {
                    trouble = None;
                    if self.ready.is_empty() { self.pause() } else { Duration::ZERO }
                }
                Some(Err(error)) if !error.is_transient() => return Err(error),
                Some(Err(error)) => {
                    trouble = Some(error);
                    self.backoff.next()
                }
            };
            if self.ready.is_empty() && Instant::now() >= deadline {
                break;
            }
            if !pause.is_zero() {
                tokio::time::sleep_until(deadline.min(Instant::now() + pause)).await;
            }
        }
        let deliveries = self.hand_out(max);
        match trouble {
            Some(error) if deliveries.is_empty() => Err(error),
            _ => Ok(deliveries),
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::new(PubsubSettler(Arc::clone(&self.seat)))
    }

    async fn close(mut self: Box<Self>) -> Result<(), BrokerError> {
        self.left = true;
        let pulls = std::mem::take(&mut self.pulls);
        leave(Arc::clone(&self.seat), pulls).await
    }
}

/// Waits for the pulls that are on their way, each bounded by its timeout, and gives back what is in hand.
async fn leave(seat: Arc<Seat>, mut pulls: JoinSet<Came>) -> Result<(), BrokerError> {
    let mut leases = seat.held.leave();
    while let Some(came) = pulls.join_next().await {
        let Ok(Came { what: Ok(received), at, .. }) = came else { continue };
        let until = at + seat.joined.lease;
        let lease = |one: Received| Lease { receipt: one.ack_id, taken: at, until, whole: None };
        leases.extend(received.into_iter().map(lease));
    }
    seat.hand_back(leases).await
}

impl Drop for PubsubSource {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        // Without a runtime there is nobody to tell the service; then it takes everything back when the leases run out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let pulls = std::mem::take(&mut self.pulls);
            runtime.spawn(leave(Arc::clone(&self.seat), pulls));
        }
    }
}
