//! Sending: one link per address, everything unsettled on the way at once, one outcome each.
//!
//! Accepted is confirmed. Rejected is refused; released and modified mean that the broker did not take it now. Links are
//! kept for the addresses that were used last; a delivery whose outcome does not come in time is unconfirmed.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Capabilities, Confirmed, Outgoing, PublishError, Publisher};
use fe2o3_amqp::link::SendError;
use fe2o3_amqp::link::delivery::DeliveryFut;
use fe2o3_amqp::types::messaging::{MessageId, Outcome};
use fe2o3_amqp::{Sendable, Sender};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::connection::{Connector, Line};
use super::decode::Wire;
use super::encode::encode;
use super::errors;

/// A batch that is not confirmed after this is not confirmed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Addresses whose links stay open between calls.
const LINKS: usize = 64;

type Pending = DeliveryFut<Result<Outcome, SendError>>;

#[derive(Debug)]
pub(super) struct Amqp1Publisher {
    connector: Arc<Connector>,
    capabilities: Arc<Capabilities>,
    open: Mutex<Option<Open>>,
}

/// The connection and its links, by address, with the call that used each last.
#[derive(Debug)]
struct Open {
    senders: HashMap<String, (Sender, u64)>,
    line: Line,
    calls: u64,
}

impl Amqp1Publisher {
    pub(super) fn new(connector: &Arc<Connector>, capabilities: &Arc<Capabilities>) -> Self {
        Self {
            connector: Arc::clone(connector),
            capabilities: Arc::clone(capabilities),
            open: Mutex::new(None),
        }
    }

    fn prepare(&self, outgoing: &Outgoing) -> Result<Wire, PublishError> {
        let message = &outgoing.message;
        let key = message.key.as_ref().map_or(0, |key| key.0.len());
        let size = message.payload.0.len() + message.headers.size() + key;
        let limit = self.capabilities.max_message;
        if size > limit {
            return Err(PublishError::TooLarge { size, limit });
        }
        let mut wire = encode(message, outgoing.delay, self.connector.config.flavour)?;
        // By its id a message is known again after its broker was killed and has forgotten what it had delivered.
        wire.properties.get_or_insert_default().message_id.get_or_insert_with(fresh_id);
        Ok(wire)
    }

    /// Sends everything that can be sent and returns what is on the way.
    async fn send(&self, messages: Vec<Outgoing>, deadline: Instant) -> Vec<Result<Pending, PublishError>> {
        let mut guard = self.open.lock().await;
        let mut results = Vec::with_capacity(messages.len());
        let mut down: Option<String> = match self.ready(&mut guard).await {
            Ok(()) => None,
            Err(why) => Some(why.to_string()),
        };
        for outgoing in messages {
            let result = match (self.prepare(&outgoing), guard.as_mut(), &down) {
                (Err(refusal), _, _) => Err(refusal),
                (Ok(wire), Some(open), None) => {
                    let sending = open.send(&self.connector, outgoing.to.queue, wire);
                    match tokio::time::timeout_at(deadline, sending).await {
                        Ok(result) => result,
                        Err(_) => {
                            Err(PublishError::Unconfirmed("the broker gives no credit to send".to_owned()))
                        }
                    }
                }
                (Ok(_), _, down) => {
                    Err(PublishError::Unconfirmed(down.clone().unwrap_or_else(|| "not connected".to_owned())))
                }
            };
            if let Err(PublishError::Unconfirmed(why)) = &result {
                down.get_or_insert_with(|| why.clone());
            }
            results.push(result);
        }
        // A line that failed is not trusted with the next batch.
        if down.is_some() {
            *guard = None;
        }
        results
    }

    async fn ready(&self, open: &mut Option<Open>) -> Result<(), BrokerError> {
        if let Some(open) = open.as_mut().filter(|open| open.line.is_up()) {
            open.trim();
            return Ok(());
        }
        *open = None;
        let line = self.connector.open().await?;
        *open = Some(Open { senders: HashMap::new(), line, calls: 0 });
        Ok(())
    }
}

impl Open {
    /// Closes the links that were not used for longest.
    fn trim(&mut self) {
        self.calls += 1;
        while self.senders.len() > LINKS {
            let oldest = self.senders.iter().min_by_key(|(_, (_, used))| *used);
            let Some(address) = oldest.map(|(address, _)| address.clone()) else { return };
            self.senders.remove(&address);
        }
    }

    async fn send(
        &mut self,
        connector: &Connector,
        address: String,
        wire: Wire,
    ) -> Result<Pending, PublishError> {
        let calls = self.calls;
        if !self.senders.contains_key(&address) {
            let sender = self.attach(connector, &address).await?;
            self.senders.insert(address.clone(), (sender, calls));
        }
        let Some((sender, used)) = self.senders.get_mut(&address) else {
            return Err(PublishError::Unconfirmed("the link is gone".to_owned()));
        };
        *used = calls;
        let sendable = Sendable::builder().message(wire).settled(false).build();
        match sender.send_batchable(sendable).await {
            Ok(pending) => Ok(pending),
            Err(SendError::MessageSizeExceeded(exceeded)) => Err(PublishError::TooLarge {
                size: usize::try_from(exceeded.size).unwrap_or(usize::MAX),
                limit: usize::try_from(exceeded.max_size).unwrap_or(usize::MAX),
            }),
            Err(cause) => Err(PublishError::Unconfirmed(format!("{connector}: {cause}"))),
        }
    }

    async fn attach(&mut self, connector: &Connector, address: &str) -> Result<Sender, PublishError> {
        let name = format!("dlo-{:016x}", rand::random::<u64>());
        let attaching = Sender::attach(&mut self.line.session, name, address);
        attaching.await.map_err(|cause| match errors::sending(&cause, &connector.to_string(), address) {
            BrokerError::Unavailable(why) => PublishError::Unconfirmed(why),
            other => PublishError::Refused(other.to_string()),
        })
    }
}

#[async_trait]
impl Publisher for Amqp1Publisher {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        let deadline = Instant::now() + PATIENCE;
        let mut results = Vec::with_capacity(messages.len());
        for sent in self.send(messages, deadline).await {
            results.push(match sent {
                Ok(pending) => match tokio::time::timeout_at(deadline, pending).await {
                    Ok(outcome) => judge(outcome),
                    Err(_) => Err(PublishError::Unconfirmed(format!("no outcome within {PATIENCE:?}"))),
                },
                Err(refusal) => Err(refusal),
            });
        }
        results
    }
}

fn judge(outcome: Result<Outcome, SendError>) -> Result<Confirmed, PublishError> {
    match outcome {
        Ok(Outcome::Accepted(_)) => Ok(Confirmed::default()),
        Ok(Outcome::Rejected(rejected)) => {
            let why = rejected.error.and_then(|error| error.description);
            Err(PublishError::Refused(why.unwrap_or_else(|| "rejected without a reason".to_owned())))
        }
        Ok(Outcome::Released(_) | Outcome::Modified(_)) => {
            Err(PublishError::Unconfirmed("the broker did not take it now".to_owned()))
        }
        Err(cause) => Err(PublishError::Unconfirmed(cause.to_string())),
    }
}

fn fresh_id() -> MessageId {
    MessageId::String(format!("dlo-{:032x}", rand::random::<u128>()))
}
