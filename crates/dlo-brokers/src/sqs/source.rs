//! A [`Source`] over long polls.
//!
//! Polls ask for full batches of ten, and only for what the caller has room for: one waits at an empty queue, and as long
//! as batches come full their number doubles up to `parallel`. They run beside the caller and are never cut off, since
//! a message on the way to a request that nobody waits for would stay hidden for its whole lease: a cancelled
//! `receive` leaves them to the next one, and closing waits for them. What is left in hand then is shown again at once.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::types::{self, MessageSystemAttributeName as System};
use dlo_core::broker::{BrokerError, Capabilities, Delivery, Settler, Source};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::time::Timestamp;
use tokio::task::{JoinError, JoinSet};
use tokio::time::Instant;

use super::config::{BATCH, seconds};
use super::connection::{Connection, Queue};
use super::settler::{Refusal, SqsSettler, hand_back};
use super::wire::decode;
use crate::backoff::Backoff;
use crate::leases::{Held, Lease};

/// How long a receive that has something waits for polls that are on their way.
const LINGER: Duration = Duration::from_millis(30);
/// How long a receive gathers full batches before it returns with fewer than it may.
const GATHER: Duration = Duration::from_secs(1);

/// What source and settlers share.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) connection: Arc<Connection>,
    pub(super) queue: Arc<Queue>,
    pub(super) refusal: Refusal,
    pub(super) held: Held<types::Message>,
}

/// What one poll brought.
#[derive(Debug)]
struct Polled {
    asked: usize,
    at: Instant,
    came: Result<Vec<types::Message>, BrokerError>,
}

#[derive(Debug)]
pub(super) struct SqsSource {
    seat: Arc<Seat>,
    capabilities: Capabilities,
    polls: JoinSet<Polled>,
    /// Messages that running polls may bring.
    asked: usize,
    /// Polls at once; grows while batches are full.
    eager: usize,
    /// The last batch that came was full: there is more.
    more: bool,
    ready: VecDeque<(Instant, Delivery)>,
    backoff: Backoff,
    left: bool,
}

impl SqsSource {
    pub(super) fn new(seat: Seat, capabilities: Capabilities) -> Self {
        Self {
            seat: Arc::new(seat),
            capabilities,
            polls: JoinSet::new(),
            asked: 0,
            eager: 1,
            more: false,
            ready: VecDeque::new(),
            backoff: Backoff::default(),
            left: false,
        }
    }

    /// Starts polls for `room` messages beyond those that are asked for.
    fn poll(&mut self, room: usize, wait: Duration) {
        let mut room = room.saturating_sub(self.asked);
        while room > 0 && self.polls.len() < self.eager {
            let asked = room.min(BATCH);
            self.polls.spawn(poll(Arc::clone(&self.seat), asked, wait));
            self.asked += asked;
            room -= asked;
        }
    }

    /// Takes in what a poll brought.
    fn collect(&mut self, polled: Result<Polled, JoinError>) -> Result<(), BrokerError> {
        let polled = polled.map_err(|cause| BrokerError::Unavailable(format!("a poll ended: {cause}")))?;
        self.asked -= polled.asked;
        let came = polled.came.inspect_err(|_| self.eager = 1)?;
        self.backoff.reset();
        self.more = came.len() == polled.asked;
        match (came.len(), self.more) {
            (0, _) => self.eager = 1,
            (_, true) => self.eager = (self.eager * 2).min(self.seat.connection.config.parallel),
            (_, false) => {}
        }
        let until = polled.at + self.seat.connection.config.visibility.0;
        for message in came {
            let delivery = self.seat.delivery(message, polled.at, until);
            self.ready.extend(delivery.map(|delivery| (until, delivery)));
        }
        Ok(())
    }

    /// Hands out what is ready. What waited here for longer than its lease goes to somebody else, or comes again.
    fn hand_out(&mut self, max: usize) -> Vec<Delivery> {
        let now = Instant::now();
        self.ready.retain(|(until, _)| now < *until);
        let count = max.min(self.ready.len());
        self.ready.drain(..count).map(|(_, delivery)| delivery).collect()
    }
}

async fn poll(seat: Arc<Seat>, asked: usize, wait: Duration) -> Polled {
    let came = seat.ask(asked, wait).await;
    Polled { asked, at: Instant::now(), came }
}

impl Seat {
    async fn ask(&self, asked: usize, wait: Duration) -> Result<Vec<types::Message>, BrokerError> {
        let client = self.connection.client().await?;
        let answer = client
            .receive_message()
            .queue_url(&self.queue.url)
            .max_number_of_messages(i32::try_from(asked).unwrap_or(1))
            .visibility_timeout(seconds(self.connection.config.visibility.0))
            .wait_time_seconds(seconds(wait))
            .message_system_attribute_names(System::All)
            .message_attribute_names("All")
            .send()
            .await
            .map_err(|error| self.connection.failed(&error, &self.queue))?;
        Ok(answer.messages.unwrap_or_default())
    }

    /// A message without receipt cannot be settled; the service never sends one.
    fn delivery(&self, message: types::Message, taken: Instant, until: Instant) -> Option<Delivery> {
        let receipt = message.receipt_handle.clone()?;
        let whole = self.refusal.keeps_the_message().then(|| Box::new(message.clone()));
        let tag = self.held.take(Lease { receipt, taken, until, whole });
        let number = |name| message.attributes()?.get(&name)?.parse::<i64>().ok();
        let count = number(System::ApproximateReceiveCount).and_then(|count| u32::try_from(count).ok());
        let published_at = number(System::SentTimestamp).map(Timestamp::from_millis);
        let id = message.message_id.clone();
        let origin = Origin { message_id: id, ..Origin::queue(BrokerKind::Sqs, &self.queue.name) };
        let mut delivery = Delivery::new(decode(message, self.queue.fifo), origin, tag);
        delivery.delivery_count = count;
        delivery.redelivered = count.is_some_and(|count| count > 1);
        delivery.published_at = published_at;
        Some(delivery)
    }
}

#[async_trait]
impl Source for SqsSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let began = Instant::now();
        let deadline = began + wait;
        self.seat.held.sweep(self.seat.connection.config.visibility.0);
        let mut trouble = None;
        loop {
            let room = max.saturating_sub(self.ready.len());
            let has = !self.ready.is_empty();
            // A last partial batch would cost a request for less than it can carry.
            let enough = has && (room < BATCH.min(max) || began.elapsed() >= GATHER);
            if room == 0 || enough || (has && !self.more && self.polls.is_empty()) {
                break;
            }
            if !has || self.more {
                self.poll(room, if wait.is_zero() { wait } else { self.seat.connection.config.wait.0 });
            }
            let until = if has { Instant::now() + LINGER } else { deadline };
            // A poll that does not wait at the server is waited for here, even by a caller without patience.
            let joined = match wait.is_zero() && !has {
                true => self.polls.join_next().await,
                false => match tokio::time::timeout_at(until, self.polls.join_next()).await {
                    Ok(joined) => joined,
                    Err(_) => break,
                },
            };
            match joined.map(|joined| self.collect(joined)) {
                None | Some(Ok(())) => trouble = None,
                Some(Err(error)) if !error.is_transient() => return Err(error),
                Some(Err(error)) => {
                    trouble = Some(error);
                    let pause = self.backoff.next();
                    tokio::time::sleep_until(deadline.min(Instant::now() + pause)).await;
                }
            }
            if Instant::now() >= deadline && self.ready.is_empty() {
                break;
            }
        }
        let deliveries = self.hand_out(max);
        match trouble {
            Some(error) if deliveries.is_empty() => Err(error),
            _ => Ok(deliveries),
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::new(SqsSettler(Arc::clone(&self.seat)))
    }

    async fn close(mut self: Box<Self>) -> Result<(), BrokerError> {
        self.left = true;
        let polls = std::mem::take(&mut self.polls);
        leave(Arc::clone(&self.seat), polls).await
    }
}

/// Waits for the polls that are on their way, each bounded by its timeout, and shows again what is in hand.
async fn leave(seat: Arc<Seat>, mut polls: JoinSet<Polled>) -> Result<(), BrokerError> {
    let until = |at: Instant| at + seat.connection.config.visibility.0;
    let mut leases = seat.held.leave();
    while let Some(polled) = polls.join_next().await {
        let Ok(Polled { came: Ok(came), at, .. }) = polled else { continue };
        leases.extend(came.into_iter().filter_map(|message| {
            let receipt = message.receipt_handle?;
            Some(Lease { receipt, taken: at, until: until(at), whole: None })
        }));
    }
    hand_back(&seat, leases).await
}

impl Drop for SqsSource {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        // Without a runtime there is nobody to tell the broker; then it takes everything back when the leases run out.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            let polls = std::mem::take(&mut self.polls);
            runtime.spawn(leave(Arc::clone(&self.seat), polls));
        }
    }
}
