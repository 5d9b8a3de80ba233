//! Publishing with confirms: many messages on the wire at once, one result each.
//!
//! A message goes to a queue by its name, through the default exchange, or by its route; mandatory: one that no queue takes
//! is returned, not lost. lapin gives a returned message to whichever confirm comes next, which need not be its own, so a
//! channel serves one batch at a time and returned messages are matched by what they hold. A channel that failed is thrown
//! away with its batch; idle ones are kept.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use dlo_core::broker::{BrokerError, Capabilities, Confirmed, Outgoing, PublishError, Publisher, Written};
use futures::{StreamExt, stream};
use lapin::message::BasicReturnMessage;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation};
use tokio::time::Instant;

use super::connection::answered;
use super::hops::{self, LONGEST, Tier};
use super::message::{properties, size};
use super::seat::short;
use super::{RabbitmqBroker, Shared};
use crate::backoff::Backoff;

/// Messages on the wire without a confirm, at most; fewer where they are large.
const WINDOW: usize = 500;
const WINDOW_BYTES: usize = 32 * 1024 * 1024;
/// The longest that a server may be silent while confirms are awaited.
const CONFIRM: Duration = Duration::from_secs(30);
/// How long a publish tries to reach a server that is away.
const REACH: Duration = Duration::from_secs(3);
/// Idle channels that are kept; batches beyond these open their own. A replay has so many batches under way at once.
const IDLE: usize = 32;
const MANDATORY: BasicPublishOptions = BasicPublishOptions { mandatory: true, immediate: false };

/// A message ready to go.
#[derive(Debug)]
pub(super) struct Letter {
    /// Empty is the default exchange.
    pub(super) exchange: ShortString,
    /// The routing key; with the default exchange the name of the queue.
    pub(super) queue: ShortString,
    pub(super) properties: BasicProperties,
    pub(super) payload: Bytes,
}

impl Letter {
    pub(super) fn to_queue(queue: ShortString, properties: BasicProperties, payload: Bytes) -> Self {
        Self { exchange: ShortString::default(), queue, properties, payload }
    }
}

/// Channels in confirm mode that nobody uses.
#[derive(Debug, Default)]
pub(super) struct Idle(Mutex<Vec<Channel>>);

impl Idle {
    fn take(&self) -> Option<Channel> {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some(channel) = idle.pop() {
            if channel.status().connected() {
                return Some(channel);
            }
        }
        None
    }

    fn put(&self, channel: Channel) {
        let mut idle = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < IDLE && channel.status().connected() {
            idle.push(channel);
        }
    }
}

#[async_trait]
impl Publisher for RabbitmqBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.shared.capabilities
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        self.publish_noting(messages, Box::new(|| {})).await
    }

    async fn publish_noting(
        &self,
        messages: Vec<Outgoing>,
        written: Written,
    ) -> Vec<Result<Confirmed, PublishError>> {
        let mut results = Vec::with_capacity(messages.len());
        let mut letters = Vec::with_capacity(messages.len());
        for outgoing in messages {
            match self.shared.letter(outgoing).await {
                Ok(letter) => {
                    letters.push(letter);
                    results.push(None);
                }
                Err(why) => results.push(Some(Err(why))),
            }
        }
        let mut sent = self.shared.send(letters, written).await.into_iter();
        let mut next = || sent.next().unwrap_or_else(|| Err(unconfirmed("it was not sent")));
        results.into_iter().map(|known| known.unwrap_or_else(&mut next)).collect()
    }
}

impl Shared {
    /// A message as it will be sent, or why it will not be.
    async fn letter(&self, outgoing: Outgoing) -> Result<Letter, PublishError> {
        let Outgoing { to, message, delay } = outgoing;
        let (size, limit) = (size(&message), self.capabilities.max_message);
        if size > limit {
            return Err(PublishError::TooLarge { size, limit });
        }
        let properties = properties(&message, &self.user)?;
        let payload = message.payload.0;
        match delay.filter(|delay| !delay.is_zero()) {
            None => match to.route {
                Some(route) => self.routed(*route, properties, payload).await,
                None => Ok(Letter::to_queue(short(&to.queue).map_err(not_sent)?, properties, payload)),
            },
            Some(delay) if delay > LONGEST => {
                Err(PublishError::Refused(format!("a delay is at most {} seconds", LONGEST.as_secs())))
            }
            Some(delay) => {
                let queue = self.retry_queue(&to.queue, Tier::for_delay(delay)).await.map_err(not_sent)?;
                Ok(Letter::to_queue(queue, hops::waiting(&properties, 0, None), payload))
            }
        }
    }

    /// Sends all and waits for the confirms; one result each, in order. Calls `written` when the last is on the wire.
    pub(super) async fn send(
        &self,
        letters: Vec<Letter>,
        written: Written,
    ) -> Vec<Result<Confirmed, PublishError>> {
        if letters.is_empty() {
            return Vec::new();
        }
        match self.confirming().await {
            Ok(channel) => {
                let mut results = send_on(&channel, &letters, written).await;
                if results.len() < letters.len() {
                    let why = self.publishing.distrust().await;
                    results.resize_with(letters.len(), || {
                        Err(unconfirmed(format!("no confirm within {CONFIRM:?}{why}")))
                    });
                }
                if results.iter().all(|result| !matches!(result, Err(PublishError::Unconfirmed(_)))) {
                    self.idle.put(channel);
                }
                for (letter, _) in letters.iter().zip(&results).filter(|(_, result)| result.is_err()) {
                    self.forget_retry_queue(letter.queue.as_str());
                    self.forget_exchange(letter.exchange.as_str());
                }
                results
            }
            Err(why) => {
                let text = why.to_string();
                let same = |transient: bool| match transient {
                    // Without a channel nothing was written.
                    true => PublishError::NotSent(text.clone()),
                    false => PublishError::Refused(text.clone()),
                };
                letters.iter().map(|_| Err(same(why.is_transient()))).collect()
            }
        }
    }

    /// A channel in confirm mode that is ours alone.
    async fn confirming(&self) -> Result<Channel, BrokerError> {
        if let Some(channel) = self.idle.take() {
            return Ok(channel);
        }
        let (deadline, mut backoff) = (Instant::now() + REACH, Backoff::default());
        loop {
            let opened = async {
                let channel = self.publishing.channel().await?;
                answered(channel.confirm_select(ConfirmSelectOptions::default())).await?;
                Ok(channel)
            };
            let pause = backoff.next();
            match opened.await {
                Err(why @ BrokerError::Unavailable(_)) if Instant::now() + pause > deadline => {
                    return Err(why);
                }
                Err(BrokerError::Unavailable(_)) => tokio::time::sleep(pause).await,
                other => return other,
            }
        }
    }
}

/// The results in order, up to the first for which the server stayed silent.
async fn send_on(
    channel: &Channel,
    letters: &[Letter],
    written: Written,
) -> Vec<Result<Confirmed, PublishError>> {
    let largest = letters.iter().map(|letter| letter.payload.len()).max().unwrap_or(0);
    let window = (WINDOW_BYTES / largest.max(1)).clamp(1, WINDOW);
    let wire = Wire { left: AtomicUsize::new(letters.len()), written: Mutex::new(Some(written)) };
    let sending = (0..letters.len()).map(|at| send_one(channel, &letters[at], &wire));
    let mut confirms = stream::iter(sending).buffered(window);
    let mut results = Vec::with_capacity(letters.len());
    let mut returned = Vec::new();
    while results.len() < letters.len() {
        match tokio::time::timeout(CONFIRM, confirms.next()).await {
            Ok(Some(Ok(Confirmation::Ack(back)))) => {
                returned.extend(back);
                results.push(Ok(Confirmed::default()));
            }
            Ok(Some(Ok(Confirmation::Nack(back)))) => {
                returned.extend(back);
                results.push(Err(PublishError::Refused(
                    "the queue took no more (it is full and rejects, or lost its leader); drain it or raise its limit".into(),
                )));
            }
            Ok(Some(Ok(Confirmation::NotRequested))) => {
                results.push(Err(unconfirmed("the channel does not confirm")))
            }
            Ok(Some(Err(error))) => results.push(Err(unconfirmed(error.to_string()))),
            Ok(None) | Err(_) => break,
        }
    }
    for back in &returned {
        refuse_returned(back, letters, &mut results);
    }
    results
}

/// How many of a batch are not on the wire, and who wants to know when all are.
struct Wire {
    left: AtomicUsize,
    written: Mutex<Option<Written>>,
}

impl Wire {
    fn note_one(&self) {
        if self.left.fetch_sub(1, Ordering::AcqRel) == 1
            && let Some(written) = self.written.lock().unwrap_or_else(PoisonError::into_inner).take()
        {
            written();
        }
    }
}

async fn send_one(channel: &Channel, letter: &Letter, wire: &Wire) -> lapin::Result<Confirmation> {
    let Letter { exchange, queue, properties, payload } = letter;
    let (exchange, queue) = (exchange.clone(), queue.clone());
    // The client answers when it has written the frames, and after that with the confirm.
    let confirm = channel.basic_publish(exchange, queue, MANDATORY, payload, properties.clone()).await?;
    wire.note_one();
    confirm.await
}

/// A returned message is confirmed as well: what it means is that nobody has it.
fn refuse_returned(
    back: &BasicReturnMessage,
    letters: &[Letter],
    results: &mut [Result<Confirmed, PublishError>],
) {
    let refusal = || {
        let (exchange, key, told) = (&back.exchange, &back.routing_key, &back.reply_text);
        Err(PublishError::Refused(if exchange.as_str().is_empty() {
            format!("there is no queue `{key}` ({told}); create it with `dlo topology apply`")
        } else {
            format!("the exchange `{exchange}` has no queue for the routing key `{key}` ({told})")
        }))
    };
    let same_place = |letter: &Letter| {
        letter.exchange == back.exchange && letter.queue == back.routing_key && *letter.payload == *back.data
    };
    let open: Vec<usize> = (0..results.len()).filter(|at| results[*at].is_ok()).collect();
    let exact =
        open.iter().find(|at| same_place(&letters[**at]) && letters[**at].properties == back.properties);
    match exact.or_else(|| open.iter().find(|at| same_place(&letters[**at]))) {
        Some(at) => results[*at] = refusal(),
        // Whose it is cannot be told: then none of them is safe.
        None => open.iter().for_each(|at| results[*at] = Err(unconfirmed("one of the batch was returned"))),
    }
}

fn unconfirmed(why: impl Into<String>) -> PublishError {
    PublishError::Unconfirmed(why.into())
}

/// What could not even be prepared is certainly not there.
pub(super) fn not_sent(error: BrokerError) -> PublishError {
    match error.is_transient() {
        true => unconfirmed(error.to_string()),
        false => PublishError::Refused(error.to_string()),
    }
}
