//! Answers: acknowledged, put off, or refused.
//!
//! Pub/Sub has no word for *refuse*. Where the subscription has a dead-letter policy its topic gets a copy, confirmed
//! before the original is acknowledged; between the two a crash leaves both, never neither. The copy carries data and
//! attributes as they came, without the attributes that only the service writes. Without a policy the message is gone.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, PublishError, Settled, Settlement, Settler};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::config::{BATCH, LONGEST_DEADLINE, seconds};
use super::publisher::send;
use super::source::Seat;
use super::wire::WireMessage;
use crate::backoff::Backoff;
use crate::leases::Lease;

/// Tries of one request before its failure is told.
const TRIES: u32 = 4;

#[derive(Debug)]
pub(super) struct PubsubSettler(pub(super) Arc<Seat>);

/// What the service is to be told, by ids.
#[derive(Debug, Default)]
struct Words {
    acknowledge: Vec<String>,
    /// By seconds until the message comes again.
    put_off: BTreeMap<u64, Vec<String>>,
}

#[derive(Debug, Clone, Copy)]
enum Verb {
    Acknowledge,
    PutOff,
}

impl Verb {
    fn as_str(self) -> &'static str {
        match self {
            Self::Acknowledge => "acknowledge",
            Self::PutOff => "modifyAckDeadline",
        }
    }
}

#[async_trait]
impl Settler for PubsubSettler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        let now = Instant::now();
        let mut words = Words::default();
        let mut refused = Vec::new();
        for one in settled {
            let Some(lease) = self.0.held.settle(&one.tag) else { continue };
            match one.how {
                // Tried even after the lease: it is handled, and the service may still know the id.
                Settlement::Done => words.acknowledge.push(lease.receipt),
                // The service has taken it back already.
                Settlement::Again { .. } | Settlement::Refuse if lease.is_over(now) => {}
                Settlement::Again { after } => {
                    let after = seconds(after.min(LONGEST_DEADLINE));
                    words.put_off.entry(after).or_default().push(lease.receipt);
                }
                Settlement::Refuse => refused.push(lease),
            }
        }
        let moved = self.0.refuse(refused, &mut words).await;
        self.0.tell(words).await?;
        moved
    }
}

impl Seat {
    /// Adds to `words` every refused message that is safe, or that has no place to be safe in.
    async fn refuse(&self, refused: Vec<Lease<WireMessage>>, words: &mut Words) -> Result<(), BrokerError> {
        let Some(dead) = &self.joined.dead else {
            words.acknowledge.extend(refused.into_iter().map(|lease| lease.receipt));
            return Ok(());
        };
        let mut ids = Vec::with_capacity(refused.len());
        let mut copies = Vec::with_capacity(refused.len());
        for lease in refused {
            let Some(whole) = lease.whole else { continue };
            copies.push((copies.len(), *whole));
            ids.push(lease.receipt);
        }
        let mut moved = Ok(());
        for (at, sent) in send(&self.connection, dead, copies).await {
            match sent {
                Ok(_) => words.acknowledge.extend(ids.get_mut(at).map(std::mem::take)),
                Err(error) => moved = Err(unmoved(dead, &error)),
            }
        }
        moved
    }

    async fn tell(&self, words: Words) -> Result<(), BrokerError> {
        let acknowledged =
            words.acknowledge.chunks(BATCH).map(|ids| (Verb::Acknowledge, json!({ "ackIds": ids })));
        let put_off = words.put_off.iter().flat_map(|(after, ids)| {
            let body = move |ids: &[String]| json!({ "ackIds": ids, "ackDeadlineSeconds": after });
            ids.chunks(BATCH).map(move |ids| (Verb::PutOff, body(ids)))
        });
        let requests: Vec<(Verb, Value)> = acknowledged.chain(put_off).collect();
        stream::iter(requests)
            .map(|(verb, body)| self.tell_one(verb, body))
            .buffer_unordered(self.connection.config.parallel)
            .try_collect::<()>()
            .await
    }

    async fn tell_one(&self, verb: Verb, body: Value) -> Result<(), BrokerError> {
        let path = format!("{}:{}", self.joined.path, verb.as_str());
        let mut backoff = Backoff::default();
        let mut attempt = 1;
        loop {
            match self.connection.post::<Value>(&path, &body).await.map_err(|failure| failure.of(&self.queue))
            {
                Ok(_) => return Ok(()),
                Err(error) if error.is_transient() && attempt < TRIES => {
                    attempt += 1;
                    tokio::time::sleep(backoff.next()).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives leases back at once.
    pub(super) async fn hand_back(&self, leases: Vec<Lease<WireMessage>>) -> Result<(), BrokerError> {
        let now = Instant::now();
        let ids = leases.into_iter().filter(|lease| !lease.is_over(now)).map(|lease| lease.receipt).collect();
        self.tell(Words { put_off: BTreeMap::from([(0, ids)]), ..Words::default() }).await
    }
}

fn unmoved(dead: &str, error: &PublishError) -> BrokerError {
    let why = format!("the dead-letter topic `{dead}` did not take a refused message: {error}");
    match error {
        PublishError::Unconfirmed(_) => BrokerError::Unavailable(why),
        _ => BrokerError::Refused(why),
    }
}
