//! A durable pull consumer as a [`Source`]: one for each group on a queue, shared by the members of the group.
//!
//! What the server delivered and we have not settled is known by its sequence, with the subject that takes the answer.
//! A message that is delivered again replaces its former delivery here, whose settlement then does nothing: the
//! table is never larger than what the consumer may have unsettled. Answers go by that subject and not by connection,
//! so they work after a reconnect. Who leaves hands back in the order of the stream.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::{Message, Subject};
use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Capabilities, Delivery, DeliveryTag, Settler, Source};
use tokio::time::Instant;

use super::api::{Api, REACH};
use super::consumer::{self, Removal};
use super::delivery::Arrived;
use super::leftovers::Leftovers;
use super::records::Home;
use super::settler::{self, NatsSettler};
use super::wire::{Arrival, Wire};

/// Bits of a tag that hold the number of the delivery; the rest hold the sequence.
const COUNT_BITS: u32 = 16;

/// One member of a group.
#[derive(Debug)]
pub(super) struct NatsSource {
    seat: Arc<Seat>,
    wire: Option<Wire>,
    /// Came and was not handed out yet.
    waiting: VecDeque<Message>,
}

/// What the source shares with its settlers.
#[derive(Debug)]
pub(super) struct Seat {
    pub(super) api: Api,
    pub(super) capabilities: Arc<Capabilities>,
    pub(super) group: String,
    pub(super) home: Home,
    pub(super) consumer: String,
    pub(super) removal: Removal,
    pub(super) leftovers: Leftovers,
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    left: bool,
    by_sequence: BTreeMap<u64, (u64, Subject)>,
}

impl Seat {
    fn open(&self) -> MutexGuard<'_, Open> {
        // A panic while the lock was held is ours; entries are whole, one by one.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where the answer to a delivery goes, once; `None` when it is no longer ours.
    pub(super) fn take(&self, tags: impl Iterator<Item = DeliveryTag>) -> Vec<Option<(u64, Subject)>> {
        let mut open = self.open();
        let one = |tag: DeliveryTag| {
            let (sequence, count) = (tag.0 >> COUNT_BITS, tag.0 & ((1 << COUNT_BITS) - 1));
            let ours = open.by_sequence.get(&sequence).is_some_and(|(held, _)| *held == count);
            let held = if ours { open.by_sequence.remove(&sequence) } else { None };
            held.map(|(_, reply)| (sequence, reply))
        };
        tags.map(one).collect()
    }

    /// Leaves: everything that is open, in its order, and nothing of it is ours any more.
    fn leave(&self) -> BTreeMap<u64, Subject> {
        let mut open = self.open();
        open.left = true;
        std::mem::take(&mut open.by_sequence)
            .into_iter()
            .map(|(sequence, (_, reply))| (sequence, reply))
            .collect()
    }
}

impl NatsSource {
    /// Joins `group` on `queue`; `drains`: what is done is removed from the stream.
    pub(super) async fn join(
        api: &Api,
        capabilities: &Arc<Capabilities>,
        queue: &str,
        group: &str,
        drains: bool,
    ) -> Result<Self, BrokerError> {
        let (stream, info) = api.stream_of(queue).await?;
        let removal = consumer::removal(&stream, &info, drains)?;
        let home = Home { queue: queue.to_owned(), stream, created: info.created.clone() };
        let consumer = consumer::ensure(api, &home, &info, group).await?;
        let seat = Seat {
            api: api.clone(),
            capabilities: Arc::clone(capabilities),
            group: group.to_owned(),
            home,
            consumer,
            removal,
            leftovers: Leftovers::default(),
            open: Mutex::default(),
        };
        Ok(Self { seat: Arc::new(seat), wire: None, waiting: VecDeque::new() })
    }

    /// The wire, connected, within `wait`.
    async fn wire(&mut self, wait: Duration) -> Result<&mut Wire, BrokerError> {
        let client = self.seat.api.connection.client(wait).await?;
        match &mut self.wire {
            Some(wire) => Ok(wire),
            empty @ None => {
                let wire =
                    Wire::open(&self.seat.api, client, &self.seat.home.stream, &self.seat.consumer).await?;
                Ok(empty.insert(wire))
            }
        }
    }

    /// The consumer is gone: makes it anew, if its stream is still the one it was.
    async fn rejoin(&mut self) -> Result<(), BrokerError> {
        let seat = &self.seat;
        let (stream, info) = seat.api.stream_of(&seat.home.queue).await?;
        if stream != seat.home.stream || info.created != seat.home.created {
            return Err(BrokerError::Closed);
        }
        consumer::ensure(&seat.api, &seat.home, &info, &seat.group).await.map(|_| ())
    }

    /// Takes what has come, up to `max`.
    async fn collect(&mut self, max: usize) -> Result<(), BrokerError> {
        while self.waiting.len() < max
            && let Some(arrival) = self.wire.as_mut().and_then(Wire::ready)
        {
            self.take_in(arrival).await?;
        }
        Ok(())
    }

    async fn take_in(&mut self, arrival: Arrival) -> Result<(), BrokerError> {
        match arrival {
            Arrival::Message(message) => self.waiting.push_back(message),
            Arrival::Word => {}
            Arrival::NoConsumer => self.rejoin().await?,
            Arrival::Ended => {
                self.wire = None;
                self.seat.api.connection.forget().await;
            }
        }
        Ok(())
    }

    fn hand_out(&mut self, max: usize) -> Vec<Delivery> {
        let count = self.waiting.len().min(max);
        let mut deliveries = Vec::with_capacity(count);
        let mut open = self.seat.open();
        for message in self.waiting.drain(..count) {
            let Some(arrived) = Arrived::read(message, &self.seat.home) else { continue };
            let count = u64::from(arrived.count) & ((1 << COUNT_BITS) - 1);
            let tag = DeliveryTag((arrived.sequence << COUNT_BITS) | count);
            open.by_sequence.insert(arrived.sequence, (count, arrived.reply.clone()));
            deliveries.push(arrived.delivery(&self.seat.home, tag));
        }
        deliveries
    }

    /// Keeps the wire busy. A client that has ended is given up for a new one.
    async fn ask_ahead(&mut self, max: usize, wait: Duration) -> Result<(), BrokerError> {
        let ahead = self.ahead(max);
        let Err(why) = self.wire(wait).await?.keep_asking(ahead).await else { return Ok(()) };
        self.take_in(Arrival::Ended).await?;
        Err(self.seat.api.connection.away(&why))
    }

    /// Never more on the way than twice what the caller takes at a time, nor than is configured.
    fn ahead(&self, max: usize) -> usize {
        let prefetch = self.seat.api.connection.config.prefetch as usize;
        max.saturating_mul(2).min(prefetch).saturating_sub(self.waiting.len())
    }
}

#[async_trait]
impl Source for NatsSource {
    fn capabilities(&self) -> &Capabilities {
        &self.seat.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = Instant::now() + wait;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            self.collect(max).await?;
            if self.waiting.is_empty() || self.wire.is_some() {
                match self.ask_ahead(max, left).await {
                    Ok(()) => {}
                    // What came before the connection went is still worth handing out.
                    Err(_) if !self.waiting.is_empty() => {}
                    Err(error) => return Err(error),
                }
            }
            if !self.waiting.is_empty() {
                let deliveries = self.hand_out(max);
                if !deliveries.is_empty() {
                    return Ok(deliveries);
                }
                continue;
            }
            if Instant::now() >= deadline {
                return Ok(Vec::new());
            }
            let Some(wire) = &mut self.wire else { continue };
            // Short of the deadline, because a connection that broke must be noticed and its pulls sent again.
            let look_again = deadline.min(Instant::now() + Duration::from_millis(500));
            if let Ok(arrival) = tokio::time::timeout_at(look_again, wire.next()).await {
                self.take_in(arrival).await?;
            }
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::new(NatsSettler(Arc::clone(&self.seat)))
    }

    async fn close(mut self: Box<Self>) -> Result<(), BrokerError> {
        hand_back(Arc::clone(&self.seat), self.wire.take(), std::mem::take(&mut self.waiting).into()).await
    }
}

impl Drop for NatsSource {
    fn drop(&mut self) {
        // Without a runtime nobody can tell the server: it delivers again when its time is over.
        if !self.seat.open().left
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (seat, wire) = (Arc::clone(&self.seat), self.wire.take());
            let waiting = std::mem::take(&mut self.waiting).into();
            runtime.spawn(async move { hand_back(seat, wire, waiting).await });
        }
    }
}

/// Tells the server to deliver again what is unsettled, in the order of the stream.
async fn hand_back(seat: Arc<Seat>, wire: Option<Wire>, waiting: Vec<Message>) -> Result<(), BrokerError> {
    let mut open = seat.leave();
    let on_the_way = match wire {
        Some(wire) => tokio::time::timeout(REACH, wire.close()).await.unwrap_or_default(),
        None => Vec::new(),
    };
    for message in waiting.into_iter().chain(on_the_way) {
        if let Some(arrived) = Arrived::read(message, &seat.home) {
            open.insert(arrived.sequence, arrived.reply);
        }
    }
    if open.is_empty() {
        return Ok(());
    }
    settler::tell(
        &seat.api,
        open.into_values().map(|reply| (reply, settler::again(Duration::ZERO))).collect(),
    )
    .await
}
