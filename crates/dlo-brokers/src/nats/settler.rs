//! Answers to deliveries: a whole batch goes out, and the server confirms it.
//!
//! Done is an acknowledgement, and for who drains a removal behind it: first the one, then the other, so that a crash
//! between them leaves a message that is settled and still there, which the next removal takes along. Again is a
//! negative acknowledgement with its delay. Refused is a termination, of which the server tells in an advisory.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::{StatusCode, Subject};
use async_trait::async_trait;
use bytes::Bytes;
use dlo_core::broker::{BrokerError, Settled, Settlement, Settler};
use serde_json::{Value, json};

use super::LONGEST_DELAY;
use super::api::{Answer, Api, REACH};
use super::consumer::Removal;
use super::leftovers::Turn;
use super::source::Seat;
use super::volley::{self, Request};

const DONE: &[u8] = b"+ACK";
const REFUSED: &[u8] = b"+TERM";
/// Why, for the advisory. Servers before 2.10.4 do not understand a termination with a reason.
const REFUSED_WITH_REASON: &[u8] = b"+TERM refused by its consumer";

/// The answer that asks for another delivery.
pub(super) fn again(after: Duration) -> Bytes {
    if after.is_zero() {
        return Bytes::from_static(b"-NAK");
    }
    let nanos = u64::try_from(after.min(LONGEST_DELAY).as_nanos()).unwrap_or(u64::MAX);
    Bytes::from(format!("-NAK {{\"delay\": {nanos}}}"))
}

/// Sends answers and waits until the server has confirmed them.
///
/// One consumer takes its answers in the order in which a connection brings them, so the confirmation of the last stands
/// for all before it, if they went over the same connection.
pub(super) async fn tell(api: &Api, mut answers: Vec<(Subject, Bytes)>) -> Result<(), BrokerError> {
    let Some((to, body)) = answers.pop() else { return Ok(()) };
    let client = api.client().await?;
    let connects = client.statistics().connects.load(Ordering::Relaxed);
    let sent = async {
        for (to, body) in answers {
            client.publish(to, body).await?;
        }
        Ok::<_, async_nats::PublishError>(())
    };
    match tokio::time::timeout(REACH, sent).await {
        Ok(Ok(())) => {}
        Ok(Err(cause)) => return Err(api.connection.away(&cause.to_string())),
        Err(_) => return Err(api.connection.away("the answers of deliveries could not be sent")),
    }
    match volley::ask(&client, vec![Request { to, headers: None, body }]).await.pop().flatten() {
        Some(last) if last.status == Some(StatusCode::NO_RESPONDERS) => {
            Err(api.connection.away("nobody takes the answer of a delivery: its consumer is gone"))
        }
        Some(_) if client.statistics().connects.load(Ordering::Relaxed) == connects => Ok(()),
        Some(_) | None => Err(api.connection.away("the answers of deliveries were not confirmed")),
    }
}

#[derive(Debug)]
pub(super) struct NatsSettler(pub(super) Arc<Seat>);

#[async_trait]
impl Settler for NatsSettler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        let seat = &self.0;
        let reasons = match seat.api.client().await {
            Ok(client) => client.is_server_compatible(2, 10, 4),
            Err(error) => return Err(error),
        };
        let (tags, hows): (Vec<_>, Vec<_>) = settled.into_iter().map(|one| (one.tag, one.how)).unzip();
        let mut done = Vec::new();
        let mut answers = Vec::with_capacity(hows.len());
        for (held, how) in seat.take(tags.into_iter()).into_iter().zip(hows) {
            let Some((sequence, reply)) = held else { continue };
            let answer = match how {
                Settlement::Done => {
                    done.push(sequence);
                    Bytes::from_static(DONE)
                }
                Settlement::Again { after } => again(after),
                Settlement::Refuse if reasons => Bytes::from_static(REFUSED_WITH_REASON),
                Settlement::Refuse => Bytes::from_static(REFUSED),
            };
            answers.push((reply, answer));
        }
        match seat.removal {
            Removal::ByAcknowledgement => tell(&seat.api, answers).await,
            Removal::ByPurge => {
                let turn = seat.leftovers.begin();
                tell(&seat.api, answers).await?;
                remove(seat, done, turn).await
            }
        }
    }
}

/// Removes what is done: everything that the whole group is done with in one step. What is done before its predecessors
/// are waits for the settlement under way that brings those; the last one under way removes what is left one by one.
async fn remove(seat: &Seat, done: Vec<u64>, turn: Turn<'_>) -> Result<(), BrokerError> {
    turn.add(done);
    if turn.is_idle() {
        return Ok(());
    }
    let (api, home) = (&seat.api, &seat.home);
    let consumer = api.consumer(&home.stream, &seat.consumer).await?;
    let floor = consumer.map_or(0, |consumer| consumer.ack_floor.stream_seq);
    if turn.has_up_to(floor) {
        let body = json!({ "filter": home.queue, "seq": floor + 1 });
        let purged: Answer<Value> = api.call(&format!("STREAM.PURGE.{}", home.stream), &body).await?;
        purged.map_err(|error| error.into_broker_error())?;
        turn.removed_up_to(floor);
    }
    delete(seat, turn.end()).await
}

async fn delete(seat: &Seat, left: Vec<u64>) -> Result<(), BrokerError> {
    let call = format!("STREAM.MSG.DELETE.{}", seat.home.stream);
    let calls =
        left.iter().map(|sequence| (call.clone(), json!({ "seq": sequence, "no_erase": true }))).collect();
    let answers: Vec<Result<Answer<Value>, BrokerError>> = seat.api.call_all(calls).await?;
    for answer in answers {
        match answer? {
            Ok(_) => {}
            // Removed before: by retention, or by another who drains.
            Err(error) if error.description.contains("no message found") => {}
            Err(error) => return Err(error.into_broker_error()),
        }
    }
    Ok(())
}
