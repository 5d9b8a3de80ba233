//! What a source asks the server for: pull requests, kept open so that the wire is never idle.
//!
//! Every pull asks for a number of messages and waits at the server until it has them or its time is over; the server
//! tells when it ends one early. What was asked for and has not come is counted, so that no more is on the way than was
//! wanted. A connection that broke takes its pulls with it.

use std::collections::VecDeque;
use std::sync::atomic::Ordering;
use std::time::Duration;

use async_nats::{Client, Message, StatusCode, Subscriber};
use bytes::Bytes;
use dlo_core::broker::BrokerError;
use futures::{FutureExt, StreamExt};
use serde_json::json;
use tokio::time::Instant;

use super::api::Api;

/// How long a pull waits at the server.
const EXPIRES: Duration = Duration::from_secs(30);
/// How often the server says that a pull still waits. Silence of two and a half of these is a pull that got lost.
const HEARTBEAT: Duration = Duration::from_secs(4);
const LOST: Duration = Duration::from_secs(10);

/// One inbox and the pulls that fill it.
#[derive(Debug)]
pub(super) struct Wire {
    client: Client,
    /// Which connection the pulls were sent on.
    connects: u64,
    inbox: String,
    pull_subject: String,
    arrivals: Subscriber,
    pulls: VecDeque<Pull>,
    pulled: u64,
    heard: Instant,
}

#[derive(Debug)]
struct Pull {
    number: u64,
    left: usize,
}

/// What came over the wire.
#[derive(Debug)]
pub(super) enum Arrival {
    Message(Message),
    /// The server said something of a pull; look again.
    Word,
    /// Nothing takes pulls for this consumer any more: it was deleted, or its stream was.
    NoConsumer,
    /// The client has ended; a new one is needed.
    Ended,
}

impl Wire {
    pub(super) async fn open(
        api: &Api,
        client: Client,
        stream: &str,
        consumer: &str,
    ) -> Result<Self, BrokerError> {
        let inbox = client.new_inbox();
        let arrivals = client.subscribe(format!("{inbox}.*")).await;
        let arrivals = arrivals.map_err(|cause| api.connection.away(&cause.to_string()))?;
        Ok(Self {
            connects: client.statistics().connects.load(Ordering::Relaxed),
            client,
            inbox,
            pull_subject: api.subject(&format!("CONSUMER.MSG.NEXT.{stream}.{consumer}")),
            arrivals,
            pulls: VecDeque::new(),
            pulled: 0,
            heard: Instant::now(),
        })
    }

    /// Messages that were asked for and have not come.
    fn on_the_way(&self) -> usize {
        self.pulls.iter().map(|pull| pull.left).sum()
    }

    /// Sees to it that `wanted` messages are on the way. Asks when half of them have come, so that a pull is worth it.
    pub(super) async fn keep_asking(&mut self, wanted: usize) -> Result<(), String> {
        let connects = self.client.statistics().connects.load(Ordering::Relaxed);
        if connects != self.connects || self.heard.elapsed() > LOST {
            self.connects = connects;
            self.heard = Instant::now();
            self.pulls.clear();
        }
        let on_the_way = self.on_the_way();
        if wanted == 0 || on_the_way > wanted / 2 {
            return Ok(());
        }
        let batch = wanted - on_the_way;
        self.pulled += 1;
        let body = json!({
            "batch": batch,
            "expires": EXPIRES.as_nanos() as u64,
            "idle_heartbeat": HEARTBEAT.as_nanos() as u64,
        });
        let reply = format!("{}.{}", self.inbox, self.pulled);
        let sent =
            self.client.publish_with_reply(self.pull_subject.clone(), reply, Bytes::from(body.to_string()));
        sent.await.map_err(|cause| cause.to_string())?;
        if self.pulls.is_empty() {
            self.heard = Instant::now();
        }
        self.pulls.push_back(Pull { number: self.pulled, left: batch });
        Ok(())
    }

    /// The next thing that came; waits for it. Cancel-safe.
    pub(super) async fn next(&mut self) -> Arrival {
        match self.arrivals.next().await {
            Some(message) => self.sort(message),
            None => Arrival::Ended,
        }
    }

    /// The next thing, if it is here already.
    pub(super) fn ready(&mut self) -> Option<Arrival> {
        let message = self.arrivals.next().now_or_never()?;
        Some(message.map_or(Arrival::Ended, |message| self.sort(message)))
    }

    fn sort(&mut self, message: Message) -> Arrival {
        self.heard = Instant::now();
        let Some(status) = message.status else {
            if let Some(pull) = self.pulls.front_mut() {
                pull.left = pull.left.saturating_sub(1);
            }
            while self.pulls.front().is_some_and(|pull| pull.left == 0) {
                self.pulls.pop_front();
            }
            return Arrival::Message(message);
        };
        if status == StatusCode::IDLE_HEARTBEAT {
            return Arrival::Word;
        }
        // Any other word ends the pull that it answers.
        let number = message.subject.rsplit('.').next().and_then(|number| number.parse::<u64>().ok());
        self.pulls.retain(|pull| Some(pull.number) != number);
        let deleted = message.description.as_deref().is_some_and(|text| text.contains("Consumer Deleted"));
        if status == StatusCode::NO_RESPONDERS || deleted { Arrival::NoConsumer } else { Arrival::Word }
    }

    /// Takes the inbox down and returns what was still on its way, so that it can be handed back.
    pub(super) async fn close(mut self) -> Vec<Message> {
        let mut left = Vec::new();
        if self.arrivals.drain().await.is_err() {
            return left;
        }
        while let Some(message) = self.arrivals.next().await {
            if message.status.is_none() {
                left.push(message);
            }
        }
        left
    }
}
