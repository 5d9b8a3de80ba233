//! One queue, received by a subscription whose messages are acknowledged one by one, a batch in one transaction.
//!
//! STOMP cannot hand a message back while its subscription lives, so a redelivery is a copy. At once: copy and
//! acknowledgement are one transaction. Later: the copy is sent with its delay and confirmed, then the original is
//! acknowledged; in between both are there, never none. A refusal (NACK) goes to the broker's dead-letter queue.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    BrokerError, Capabilities, Delivery, DeliveryTag, Settled, Settlement, Settler, Source,
};
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::connection::{Connector, Failure, Line};
use super::frame::Frame;
use super::message::{KIND, decode, encode, queue};
use crate::backoff::Backoff;
use crate::recent::Recent;

const SUBSCRIPTION: &str = "dlo";

pub(super) struct StompSource {
    capabilities: Arc<Capabilities>,
    hands: Arc<Hands>,
    /// What came and was not handed out; the broker sends no more than `prefetch`.
    messages: mpsc::UnboundedReceiver<Frame>,
    backoff: Backoff,
}

impl std::fmt::Debug for StompSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "StompSource({} at {})", self.hands.queue, self.hands.connector)
    }
}

/// What was handed out and how to answer: shared with the settlers.
#[derive(Debug)]
struct Hands {
    connector: Arc<Connector>,
    queue: String,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    line: Option<Arc<Line>>,
    held: HashMap<u64, Held>,
    next_tag: u64,
    closed: bool,
    /// ActiveMQ forgets over a restart that it had delivered a message, and says it comes for the first time.
    recent: Recent,
}

#[derive(Debug)]
struct Held {
    ack: String,
    copy: Message,
}

impl Hands {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_out(&self, frames: Vec<Frame>) -> Vec<Delivery> {
        let mut inner = self.inner();
        let mut deliveries = Vec::with_capacity(frames.len());
        for frame in frames {
            let said = |name: &str| frame.header(name).map(str::to_owned);
            let (ack, id) = (said("ack").unwrap_or_default(), said("message-id"));
            let had = id.as_deref().is_some_and(|id| inner.recent.had(id));
            let redelivered = had || frame.header("redelivered") == Some("true");
            let (message, published_at) = decode(frame);
            let origin = match id {
                Some(id) => Origin::message(KIND, &self.queue, id),
                None => Origin::queue(KIND, &self.queue),
            };
            let tag = inner.next_tag;
            inner.next_tag += 1;
            inner.held.insert(tag, Held { ack, copy: message.clone() });
            let mut delivery = Delivery::new(message, origin, DeliveryTag(tag));
            (delivery.redelivered, delivery.published_at) = (redelivered, published_at);
            deliveries.push(delivery);
        }
        deliveries
    }

    /// The connection is gone, and with it everything that came by it.
    fn lose(&self) {
        let mut inner = self.inner();
        inner.line = None;
        inner.held.clear();
    }
}

impl StompSource {
    pub(super) async fn join(
        connector: &Arc<Connector>,
        capabilities: &Arc<Capabilities>,
        queue: &str,
    ) -> Result<Self, BrokerError> {
        let hands = Arc::new(Hands {
            connector: Arc::clone(connector),
            queue: queue.to_owned(),
            inner: Mutex::default(),
        });
        let messages = subscribe(&hands).await?;
        Ok(Self { capabilities: Arc::clone(capabilities), hands, messages, backoff: Backoff::default() })
    }

    /// Subscribes again, or says why not when the time is over.
    async fn rejoin(&mut self, deadline: Instant) -> Result<(), BrokerError> {
        loop {
            let last = match tokio::time::timeout_at(deadline, subscribe(&self.hands)).await {
                Ok(Ok(messages)) => {
                    self.messages = messages;
                    self.backoff.reset();
                    return Ok(());
                }
                Ok(Err(why)) if !why.is_transient() => return Err(why),
                Ok(Err(why)) => why,
                Err(_) => self.hands.connector.unavailable("no answer in the time given"),
            };
            let pause = self.backoff.next();
            if Instant::now() + pause >= deadline {
                tokio::time::sleep_until(deadline).await;
                return Err(last);
            }
            tokio::time::sleep(pause).await;
        }
    }
}

async fn subscribe(hands: &Hands) -> Result<mpsc::UnboundedReceiver<Frame>, BrokerError> {
    let connector = &hands.connector;
    let (sender, messages) = mpsc::unbounded_channel();
    let line = connector.open(sender).await?;
    let subscribe = Frame::new("SUBSCRIBE")
        .with("id", SUBSCRIPTION)
        .with("destination", queue(&hands.queue))
        .with("ack", "client-individual")
        .with("activemq.prefetchSize", connector.config.prefetch.to_string());
    line.tell(vec![subscribe]).await.map_err(|failure| failure.into_error(connector))?;
    hands.inner().line = Some(Arc::new(line));
    Ok(messages)
}

#[async_trait]
impl Source for StompSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = Instant::now() + wait;
        loop {
            let first = match self.messages.try_recv() {
                Ok(frame) => Some(frame),
                Err(mpsc::error::TryRecvError::Disconnected) => None,
                Err(mpsc::error::TryRecvError::Empty) => {
                    match tokio::time::timeout_at(deadline, self.messages.recv()).await {
                        Ok(came) => came,
                        Err(_) => return Ok(Vec::new()),
                    }
                }
            };
            let Some(first) = first else {
                self.hands.lose();
                tracing::info!(queue = self.hands.queue, "the connection was lost; subscribing again");
                self.rejoin(deadline).await?;
                continue;
            };
            let mut frames = vec![first];
            while frames.len() < max {
                let Ok(next) = self.messages.try_recv() else { break };
                frames.push(next);
            }
            return Ok(self.hands.hand_out(frames));
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::new(StompSettler { hands: Arc::clone(&self.hands) })
    }

    async fn close(self: Box<Self>) -> Result<(), BrokerError> {
        let line = {
            let mut inner = self.hands.inner();
            inner.closed = true;
            inner.line.take()
        };
        if let Some(line) = line {
            let unsubscribe = Frame::new("UNSUBSCRIBE").with("id", SUBSCRIPTION);
            // A connection that is gone has handed everything back already.
            let _ = line.tell(vec![unsubscribe, Frame::new("DISCONNECT")]).await;
        }
        Ok(())
    }
}

impl Drop for StompSource {
    fn drop(&mut self) {
        let mut inner = self.hands.inner();
        inner.closed = true;
        inner.line = None;
    }
}

#[derive(Debug)]
struct StompSettler {
    hands: Arc<Hands>,
}

/// What one batch tells the broker, in the order in which it is told.
#[derive(Debug, Default)]
struct Plan {
    /// Copies with a delay: confirmed before anything is acknowledged.
    later: Vec<Frame>,
    copies: Vec<Frame>,
    acks: Vec<String>,
    nacks: Vec<String>,
    gone: usize,
}

#[async_trait]
impl Settler for StompSettler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        let connector = &self.hands.connector;
        let (line, plan) = {
            let mut inner = self.hands.inner();
            if inner.closed {
                return Ok(());
            }
            let line = inner.line.clone().ok_or_else(|| {
                connector.unavailable("the connection by which these came is gone; they are delivered again")
            })?;
            (line, self.plan(&mut inner, settled)?)
        };
        let gone = plan.gone;
        tell(&line, plan).await.map_err(|failure| failure.into_error(connector))?;
        match gone {
            0 => Ok(()),
            _ => Err(connector.unavailable("some came by a lost connection and are delivered again")),
        }
    }
}

impl StompSettler {
    fn plan(&self, inner: &mut Inner, settled: Vec<Settled>) -> Result<Plan, BrokerError> {
        let mut plan = Plan::default();
        for Settled { tag, how, carry } in settled {
            let Some(mut held) = inner.held.remove(&tag.0) else {
                plan.gone += 1;
                continue;
            };
            if let Some(carry) = carry {
                held.copy.headers.supersede(*carry);
            }
            let copy = |delay| {
                encode(&self.hands.queue, &held.copy, delay)
                    .map_err(|why| BrokerError::Refused(why.to_string()))
            };
            match how {
                Settlement::Done => {}
                Settlement::Refuse => {
                    plan.nacks.push(held.ack);
                    continue;
                }
                Settlement::Again { after } if self.hands.connector.config.scheduler && !after.is_zero() => {
                    plan.later.push(copy(Some(after))?);
                }
                Settlement::Again { .. } => plan.copies.push(copy(None)?),
            }
            plan.acks.push(held.ack);
        }
        Ok(plan)
    }
}

async fn tell(line: &Line, plan: Plan) -> Result<(), Failure> {
    if !plan.later.is_empty() {
        line.tell(plan.later).await?;
    }
    let transaction = format!("t{}", line.next());
    let mut frames = Vec::with_capacity(plan.acks.len() + plan.copies.len() + plan.nacks.len() + 2);
    if !plan.acks.is_empty() {
        let within = |frame: Frame| frame.with("transaction", transaction.clone());
        frames.push(within(Frame::new("BEGIN")));
        frames.extend(plan.copies.into_iter().map(within));
        frames.extend(plan.acks.into_iter().map(|id| within(Frame::new("ACK").with("id", id))));
        frames.push(within(Frame::new("COMMIT")));
    }
    frames.extend(plan.nacks.into_iter().map(|id| Frame::new("NACK").with("id", id)));
    line.tell(frames).await
}
