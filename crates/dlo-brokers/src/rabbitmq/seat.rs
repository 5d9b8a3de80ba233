//! One consumer's place at a queue: its channel, what arrived on it, and what is in the caller's hands.
//!
//! Shared by the source, its settlers and the inspector. A seat outlives its channels: every channel is another
//! generation, and a delivery's tag names its generation beside its number, because the server takes back
//! what was unsettled when a channel goes. The lock is held for a batch at a time and never over an await.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use dlo_core::broker::{BrokerError, Delivery, DeliveryTag};
use dlo_core::origin::{BrokerKind, Origin};
use futures::Stream;
use lapin::options::{BasicConsumeOptions, BasicGetOptions, BasicQosOptions};
use lapin::types::{FieldTable, ShortString};
use lapin::{BasicProperties, Channel, Consumer};

use super::Shared;
use super::config::QueueType;
use super::connection::{answered, failure};
use super::ledger::Ledger;
use super::message::received;

/// Bits of a tag that hold the number; the rest hold the generation.
const NUMBER_BITS: u32 = 48;

#[derive(Debug)]
pub(super) struct Seat {
    pub(super) shared: Arc<Shared>,
    pub(super) queue: String,
    hand: Mutex<Hand>,
    /// Whoever tells answers holds it; what it holds is how many were told since the queue was last heard of.
    pub(super) telling: tokio::sync::Mutex<usize>,
}

#[derive(Debug, Default)]
pub(super) struct Hand {
    generation: u16,
    line: Option<Line>,
    /// The source was closed: what was in hand was handed back on purpose.
    left: bool,
    /// Arrived and not handed out; not more than the prefetch.
    arrived: VecDeque<lapin::message::Delivery>,
    pub(super) ledger: Ledger<Held>,
    /// Why nothing more arrives.
    ended: Option<BrokerError>,
    /// Who waits for something to arrive.
    waiting: Option<Waker>,
}

/// The way messages come.
#[derive(Debug, Clone)]
struct Line {
    channel: Channel,
    consumer: Consumer,
}

/// What is needed to send a delivery round once more.
#[derive(Debug)]
pub(super) struct Held {
    pub(super) properties: BasicProperties,
    pub(super) payload: Bytes,
    pub(super) exchange: ShortString,
    pub(super) routing_key: ShortString,
    pub(super) deliveries: Option<u32>,
}

impl Seat {
    pub(super) fn new(shared: Arc<Shared>, queue: &str) -> Self {
        Self {
            shared,
            queue: queue.to_owned(),
            hand: Mutex::default(),
            telling: tokio::sync::Mutex::default(),
        }
    }

    pub(super) fn hand(&self) -> MutexGuard<'_, Hand> {
        // A panic while the lock was held is ours; the hand is changed delivery by delivery and stays whole.
        self.hand.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins to consume on a fresh channel. What was open on the one before is the server's again.
    pub(super) async fn open(&self) -> Result<(), BrokerError> {
        let queue = short(&self.queue)?;
        let channel = self.shared.consuming.channel().await?;
        answered(channel.basic_qos(self.shared.prefetch, BasicQosOptions::default())).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer =
            answered(channel.basic_consume(queue, ShortString::default(), options, arguments)).await?;
        let mut hand = self.hand();
        let generation = hand.generation.wrapping_add(1);
        *hand = Hand { generation, line: Some(Line { channel, consumer }), ..Hand::default() };
        Ok(())
    }

    pub(super) fn is_open(&self) -> bool {
        self.hand().line.is_some()
    }

    pub(super) fn has_left(&self) -> bool {
        self.hand().left
    }

    /// Leaves. The channel is returned so that it can be closed in good order; dropping it closes it as well.
    pub(super) fn leave(&self) -> Option<Channel> {
        let mut hand = self.hand();
        let generation = hand.generation.wrapping_add(1);
        let left = std::mem::replace(&mut *hand, Hand { generation, left: true, ..Hand::default() });
        left.line.map(|line| line.channel)
    }

    /// Ends a channel that can no longer be trusted; the next call for messages opens another.
    pub(super) fn give_up(&self, generation: u16, why: &BrokerError) {
        let mut hand = self.hand();
        if hand.is_of(generation) {
            hand.ended = Some(BrokerError::Unavailable(why.to_string()));
            hand.waiting.take().into_iter().for_each(Waker::wake);
        }
    }

    /// Up to `max` deliveries, or why none will come any more on this channel.
    pub(super) fn poll_arrival(
        &self,
        cx: &mut Context<'_>,
        max: usize,
    ) -> Poll<Result<Vec<Delivery>, BrokerError>> {
        let mut guard = self.hand();
        let hand = &mut *guard;
        let Some(line) = &mut hand.line else {
            return Poll::Ready(Err(BrokerError::Closed));
        };
        absorb(&mut line.consumer, &mut hand.arrived, &mut hand.ended, cx);
        // What arrived on a channel that is gone was taken back: it comes again.
        if hand.ended.is_some() || !line.channel.status().connected() {
            let why = hand.ended.take();
            hand.line = None;
            hand.arrived.clear();
            return Poll::Ready(Err(
                why.unwrap_or_else(|| BrokerError::Unavailable("the channel was closed".into()))
            ));
        }
        if hand.arrived.is_empty() {
            hand.waiting = Some(cx.waker().clone());
            return Poll::Pending;
        }
        let count = max.min(hand.arrived.len());
        Poll::Ready(Ok((0..count)
            .filter_map(|_| hand.hand_out(&self.queue, self.shared.queue_type))
            .collect()))
    }

    /// The channel that answers go through now, and which generation it is.
    pub(super) fn line(&self) -> Option<(u16, Channel)> {
        let hand = self.hand();
        hand.line.as_ref().map(|line| (hand.generation, line.channel.clone()))
    }

    /// Waits until the queue itself has had every answer told so far.
    ///
    /// To ask it for one message is the only question that a quorum queue answers in turn. A message that comes with the
    /// answer has arrived like any other.
    pub(super) async fn hear_from_the_queue(
        &self,
        generation: u16,
        channel: &Channel,
    ) -> Result<(), BrokerError> {
        let asked = answered(channel.basic_get(short(&self.queue)?, BasicGetOptions::default())).await?;
        let mut guard = self.hand();
        let hand = &mut *guard;
        let Some(message) = asked.filter(|_| hand.is_of(generation)) else { return Ok(()) };
        if let Some(line) = &hand.line {
            let mut consumer = line.consumer.clone();
            absorb(
                &mut consumer,
                &mut hand.arrived,
                &mut hand.ended,
                &mut Context::from_waker(Waker::noop()),
            );
        }
        // In its place by number: what was pushed meanwhile stands behind it.
        let place = hand.arrived.partition_point(|other| other.delivery_tag < message.delivery_tag);
        hand.arrived.insert(place, message.delivery);
        hand.waiting.take().into_iter().for_each(Waker::wake);
        Ok(())
    }

    /// How many messages of the queue are here and unsettled. Waits until everything that the server had sent to this
    /// consumer has arrived: an answer on its channel comes behind it.
    pub(super) async fn unsettled(&self) -> Result<u64, BrokerError> {
        let line = self.hand().line.clone();
        let Some(mut line) = line else { return Ok(0) };
        answered(line.channel.basic_qos(self.shared.prefetch, BasicQosOptions::default())).await?;
        let mut guard = self.hand();
        let hand = &mut *guard;
        if hand.line.as_ref().is_some_and(|now| now.channel.id() == line.channel.id()) {
            // The clone has a waker of its own, so the source's is left alone; it rang already for what is taken here.
            absorb(
                &mut line.consumer,
                &mut hand.arrived,
                &mut hand.ended,
                &mut Context::from_waker(Waker::noop()),
            );
        }
        Ok((hand.arrived.len() + hand.ledger.open()) as u64)
    }
}

/// Takes everything that arrived.
fn absorb(
    consumer: &mut Consumer,
    arrived: &mut VecDeque<lapin::message::Delivery>,
    ended: &mut Option<BrokerError>,
    cx: &mut Context<'_>,
) {
    loop {
        match Pin::new(&mut *consumer).poll_next(cx) {
            Poll::Pending => return,
            Poll::Ready(Some(Ok(delivery))) => arrived.push_back(delivery),
            Poll::Ready(Some(Err(error))) => return *ended = Some(failure(&error)),
            Poll::Ready(None) => {
                return *ended =
                    Some(BrokerError::Unavailable("the server cancelled the consumer".to_owned()));
            }
        }
    }
}

impl Hand {
    fn hand_out(&mut self, queue: &str, queue_type: QueueType) -> Option<Delivery> {
        let lapin::message::Delivery {
            delivery_tag,
            exchange,
            routing_key,
            redelivered,
            properties,
            data,
            ..
        } = self.arrived.pop_front()?;
        let payload = Bytes::from(data);
        let read = received(exchange.as_str(), routing_key.as_str(), &properties, payload.clone());
        let (deliveries, returned) = (read.count(redelivered, queue_type), read.before.unwrap_or(0));
        let held = Held { properties, payload, exchange, routing_key, deliveries };
        self.ledger.hold(delivery_tag, held);
        let tag = Tag { generation: self.generation, number: delivery_tag };
        let origin = Origin::queue(BrokerKind::Rabbitmq, queue);
        let mut delivery = Delivery::new(read.message, origin, tag.pack());
        delivery.delivery_count = deliveries;
        delivery.returned = returned;
        delivery.redelivered = redelivered;
        delivery.published_at = read.published_at;
        Some(delivery)
    }

    /// Whether deliveries of this generation are still ours to answer.
    pub(super) fn is_of(&self, generation: u16) -> bool {
        self.line.is_some() && self.generation == generation
    }
}

/// What a delivery's tag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag {
    pub(super) generation: u16,
    pub(super) number: u64,
}

impl Tag {
    pub(super) fn of(tag: &DeliveryTag) -> Self {
        Self { generation: (tag.0 >> NUMBER_BITS) as u16, number: tag.0 & ((1 << NUMBER_BITS) - 1) }
    }

    fn pack(self) -> DeliveryTag {
        DeliveryTag((u64::from(self.generation) << NUMBER_BITS) | self.number)
    }
}

/// A queue's name, if AMQP can say it.
pub(super) fn short(queue: &str) -> Result<ShortString, BrokerError> {
    ShortString::try_new(queue).map_err(|_| {
        BrokerError::Refused(format!("the name of a queue has at most 255 bytes, this one {}", queue.len()))
    })
}
