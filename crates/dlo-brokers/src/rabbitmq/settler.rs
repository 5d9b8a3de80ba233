//! The answers to deliveries, told in few frames and then made sure of.
//!
//! AMQP has no answer to an acknowledgement. But a channel does one thing after the other, so behind the answers goes one
//! question that changes nothing (the prefetch, once more): when its reply is there, the server has had them all. That is
//! one round trip a batch. What is to come again later is copied to a retry queue, and what carries something at once to
//! its own queue; it is answered as done only when the server has confirmed the copy: a crash between the two leaves a
//! duplicate, never a hole.

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Settled, Settlement, Settler};
use dlo_core::message::Headers;
use futures::future::try_join_all;
use lapin::Channel;
use lapin::options::{BasicAckOptions, BasicNackOptions, BasicQosOptions, BasicRejectOptions};

use super::config::QueueType;
use super::connection::answered;
use super::hops::{self, Tier};
use super::message::carrying;
use super::publisher::Letter;
use super::seat::{Held, Seat, Tag, short};

/// Answers that may be on their way to a quorum queue at once.
const UNHEARD: usize = 24;

#[derive(Debug)]
pub(super) struct RabbitmqSettler(pub(super) Arc<Seat>);

#[async_trait]
impl Settler for RabbitmqSettler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        let seat = Arc::clone(&self.0);
        // In a task of its own: a caller that gives up must not leave an answer half told.
        let telling = tokio::spawn(async move { settle(&seat, settled).await });
        telling.await.unwrap_or_else(|cause| Err(BrokerError::Unavailable(cause.to_string())))
    }
}

/// A delivery that comes again as a copy.
#[derive(Debug)]
struct Repeat {
    number: u64,
    /// Where it waits; `None`: nowhere, it goes to the end of its queue.
    tier: Option<&'static Tier>,
    held: Held,
    carry: Option<Box<Headers>>,
}

/// The deliveries of one batch, by answer.
#[derive(Debug, Default)]
struct Answers {
    done: Vec<u64>,
    requeue: Vec<u64>,
    refuse: Vec<u64>,
    repeat: Vec<Repeat>,
    /// Came on a channel that is gone: the server has taken them back and delivers them again.
    gone: usize,
}

async fn settle(seat: &Seat, settled: Vec<Settled>) -> Result<(), BrokerError> {
    if settled.is_empty() || seat.has_left() {
        return Ok(());
    }
    let Some((generation, channel)) = seat.line() else { return Err(taken_back()) };
    let mut answers = take(seat, generation, settled);
    let gone = answers.gone;
    let put_off = put_off(seat, &mut answers).await;
    let told = tell(seat, generation, &channel, answers).await;
    if let Err(why) = &told {
        // What was half told is nobody's to tell again: the server takes it all back with the channel.
        seat.give_up(generation, why);
    }
    told.and(put_off)?;
    if gone > 0 { Err(taken_back()) } else { Ok(()) }
}

/// Whoever stored these must know that they come again: nothing else tells them from new ones.
fn taken_back() -> BrokerError {
    BrokerError::Unavailable("the channel by which these came is gone; they are delivered again".into())
}

/// Takes what is ours to answer out of the ledger.
fn take(seat: &Seat, generation: u16, settled: Vec<Settled>) -> Answers {
    let mut answers = Answers::default();
    let mut hand = seat.hand();
    if !hand.is_of(generation) {
        answers.gone = settled.len();
        return answers;
    }
    for one in settled {
        let tag = Tag::of(&one.tag);
        if tag.generation != generation {
            answers.gone += 1;
            continue;
        }
        let Some(held) = hand.ledger.answer(tag.number) else { continue };
        match one.how {
            Settlement::Done => answers.done.push(tag.number),
            Settlement::Refuse => answers.refuse.push(tag.number),
            Settlement::Again { after } if after.is_zero() && one.carry.is_none() => {
                answers.requeue.push(tag.number);
            }
            Settlement::Again { after } => {
                let tier = (!after.is_zero()).then(|| Tier::for_delay(after));
                answers.repeat.push(Repeat { number: tag.number, tier, held, carry: one.carry });
            }
        }
    }
    answers
}

/// Copies what is to come later, or with more than it came with. What was copied is done; what could not be is given back
/// to the queue at once.
async fn put_off(seat: &Seat, answers: &mut Answers) -> Result<(), BrokerError> {
    if answers.repeat.is_empty() {
        return Ok(());
    }
    let mut ready = Ok(());
    let mut letters = Vec::with_capacity(answers.repeat.len());
    for Repeat { number, tier, held, carry } in answers.repeat.drain(..) {
        let queue = match tier {
            Some(tier) => seat.shared.retry_queue(&seat.queue, tier).await,
            None => short(&seat.queue),
        };
        match queue {
            Ok(queue) => {
                let mut properties = hops::again(
                    &held.properties,
                    held.deliveries,
                    held.exchange.as_str(),
                    held.routing_key.as_str(),
                );
                if let Some(carry) = carry {
                    properties = carrying(properties, &carry);
                }
                letters.push((number, Letter::to_queue(queue, properties, held.payload)));
            }
            Err(why) => {
                answers.requeue.push(number);
                ready = Err(why);
            }
        }
    }
    let (numbers, letters): (Vec<u64>, Vec<Letter>) = letters.into_iter().unzip();
    for (number, result) in numbers.into_iter().zip(seat.shared.send(letters, Box::new(|| {})).await) {
        match result {
            Ok(_) => answers.done.push(number),
            Err(why) => {
                answers.requeue.push(number);
                ready = Err(BrokerError::Unavailable(format!("a copy for later was not confirmed: {why}")));
            }
        }
    }
    ready
}

async fn tell(seat: &Seat, generation: u16, channel: &Channel, answers: Answers) -> Result<(), BrokerError> {
    let Answers { mut done, requeue, refuse, repeat: _, gone: _ } = answers;
    if done.is_empty() && requeue.is_empty() && refuse.is_empty() {
        return Ok(());
    }
    done.sort_unstable();
    // One after the other: an answer that is on its way stands before all later ones, which could then not be told as one
    // (see `ledger.rs`), and a server that reads a frame a message falls behind and stays there.
    let mut unheard = seat.telling.lock().await;
    let acks = seat.hand().ledger.acks(&done);
    let frames: Vec<Frame> = (acks.up_to.into_iter().map(Frame::AckUpTo))
        .chain(acks.single.into_iter().map(Frame::Ack))
        .chain(requeue.iter().copied().map(Frame::Requeue))
        .chain(refuse.iter().copied().map(Frame::Refuse))
        .collect();
    send(seat, generation, channel, &frames, &mut unheard).await?;
    {
        let mut hand = seat.hand();
        if hand.is_of(generation) {
            done.iter().chain(&requeue).chain(&refuse).for_each(|number| hand.ledger.told(*number));
        }
    }
    drop(unheard);
    // Behind the answers, so that its reply says that they were read.
    answered(channel.basic_qos(seat.shared.prefetch, BasicQosOptions::default())).await
}

/// One answer on the wire.
#[derive(Debug, Clone, Copy)]
enum Frame {
    AckUpTo(u64),
    Ack(u64),
    Requeue(u64),
    Refuse(u64),
}

/// Sends answers no faster than the queue takes them.
///
/// The channel of a quorum queue passes on 32 answers that the queue has not had yet, and keeps the rest to itself. What it
/// keeps is forgotten when the channel ends, and those messages would be delivered again although they were answered.
async fn send(
    seat: &Seat,
    generation: u16,
    channel: &Channel,
    frames: &[Frame],
    unheard: &mut usize,
) -> Result<(), BrokerError> {
    let mut left = frames;
    while !left.is_empty() {
        let room = match seat.shared.queue_type {
            QueueType::Classic => left.len(),
            QueueType::Quorum => UNHEARD.saturating_sub(*unheard),
        };
        if room == 0 {
            seat.hear_from_the_queue(generation, channel).await?;
            *unheard = 0;
            continue;
        }
        let (now, later) = left.split_at(room.min(left.len()));
        answered(try_join_all((0..now.len()).map(|at| send_one(channel, now[at])))).await?;
        *unheard += now.len();
        left = later;
    }
    Ok(())
}

async fn send_one(channel: &Channel, frame: Frame) -> lapin::Result<()> {
    match frame {
        Frame::AckUpTo(number) => channel.basic_ack(number, BasicAckOptions { multiple: true }).await,
        Frame::Ack(number) => channel.basic_ack(number, BasicAckOptions { multiple: false }).await,
        Frame::Requeue(number) => {
            channel.basic_nack(number, BasicNackOptions { multiple: false, requeue: true }).await
        }
        Frame::Refuse(number) => channel.basic_reject(number, BasicRejectOptions { requeue: false }).await,
    }
}
