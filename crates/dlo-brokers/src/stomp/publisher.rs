//! Sending: every message asks for its receipt, all are on the wire at once.
//!
//! ActiveMQ creates a queue for whoever sends to it. Where the statistics plugin can be asked, a queue that is not there
//! is refused instead: a message to a misspelt name would be confirmed and never seen again.

use std::collections::HashSet;
use std::sync::{Arc, Mutex as Lock, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{Capabilities, Confirmed, Outgoing, PublishError, Publisher};
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::Instant;

use super::connection::{Connector, Failure, Line, Receipt};
use super::frame::Frame;
use super::message::encode;
use super::statistics::Statistics;

/// A batch that is not confirmed after this is not confirmed.
const PATIENCE: Duration = Duration::from_secs(30);
/// Names of queues that were seen; begun anew when full.
const KNOWN: usize = 1_024;

#[derive(Debug)]
pub(super) struct StompPublisher {
    connector: Arc<Connector>,
    capabilities: Arc<Capabilities>,
    statistics: Option<Arc<Statistics>>,
    line: Mutex<Option<Arc<Line>>>,
    known: Lock<HashSet<String>>,
}

type Sent = Result<oneshot::Receiver<Receipt>, PublishError>;

impl StompPublisher {
    pub(super) fn new(
        connector: &Arc<Connector>,
        capabilities: &Arc<Capabilities>,
        statistics: Option<Arc<Statistics>>,
    ) -> Self {
        Self {
            connector: Arc::clone(connector),
            capabilities: Arc::clone(capabilities),
            statistics,
            line: Mutex::new(None),
            known: Lock::default(),
        }
    }

    fn prepare(&self, outgoing: &Outgoing) -> Result<Frame, PublishError> {
        let message = &outgoing.message;
        let key = message.key.as_ref().map_or(0, |key| key.0.len());
        let size = message.payload.0.len() + message.headers.size() + key;
        let limit = self.capabilities.max_message;
        if size > limit {
            return Err(PublishError::TooLarge { size, limit });
        }
        if outgoing.delay.is_some() && !self.connector.config.scheduler {
            return Err(PublishError::Refused(
                "no delays: the broker needs schedulerSupport=\"true\", and `scheduler = true` here"
                    .to_owned(),
            ));
        }
        encode(&outgoing.to.queue, message, outgoing.delay)
    }

    /// Whether a queue is there, as far as that can be told.
    async fn is_there(&self, queue: &str) -> Result<(), PublishError> {
        let Some(statistics) = &self.statistics else { return Ok(()) };
        if self.known.lock().unwrap_or_else(PoisonError::into_inner).contains(queue) {
            return Ok(());
        }
        match statistics.of(queue).await {
            Ok(Some(_)) => {
                let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
                if known.len() >= KNOWN {
                    known.clear();
                }
                known.insert(queue.to_owned());
                Ok(())
            }
            Ok(None) => Err(PublishError::Refused(format!("there is no queue `{queue}`"))),
            Err(why) if why.is_transient() => Err(PublishError::Unconfirmed(why.to_string())),
            Err(why) => Err(PublishError::Refused(why.to_string())),
        }
    }

    async fn line(&self) -> Result<Arc<Line>, PublishError> {
        let mut guard = self.line.lock().await;
        if let Some(line) = guard.as_ref().filter(|line| line.is_up()) {
            return Ok(Arc::clone(line));
        }
        // Nobody subscribes here: what would come has no receiver.
        let (messages, _) = mpsc::unbounded_channel();
        let opened = self.connector.open(messages).await;
        let line = Arc::new(opened.map_err(|why| PublishError::Unconfirmed(why.to_string()))?);
        *guard = Some(Arc::clone(&line));
        Ok(line)
    }

    async fn send(&self, messages: Vec<Outgoing>) -> Vec<Sent> {
        let line = self.line().await.map_err(|why| why.to_string());
        let mut results: Vec<Sent> = Vec::with_capacity(messages.len());
        let mut frames = Vec::with_capacity(messages.len());
        for outgoing in messages {
            let line = match &line {
                Ok(line) => line,
                Err(why) => {
                    results.push(Err(PublishError::Unconfirmed(why.clone())));
                    continue;
                }
            };
            let prepared = match self.prepare(&outgoing) {
                Ok(frame) => self.is_there(&outgoing.to.queue).await.map(|()| frame),
                Err(refusal) => Err(refusal),
            };
            results.push(prepared.map(|frame| {
                let (frame, receipt) = line.with_receipt(frame);
                frames.push(frame);
                receipt
            }));
        }
        if let Ok(line) = line {
            // A wire that is gone fails the receipts.
            let _ = line.write(&frames).await;
        }
        results
    }
}

#[async_trait]
impl Publisher for StompPublisher {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        let deadline = Instant::now() + PATIENCE;
        let mut results = Vec::with_capacity(messages.len());
        for sent in self.send(messages).await {
            results.push(match sent {
                Ok(receipt) => match tokio::time::timeout_at(deadline, receipt).await {
                    Ok(Ok(Ok(()))) => Ok(Confirmed::default()),
                    Ok(Ok(Err(Failure::Refused(why)))) => Err(PublishError::Refused(why)),
                    Ok(Ok(Err(Failure::Lost(why)))) => Err(PublishError::Unconfirmed(why)),
                    Ok(Err(_)) => Err(PublishError::Unconfirmed("the connection is gone".to_owned())),
                    Err(_) => Err(PublishError::Unconfirmed(format!("no receipt within {PATIENCE:?}"))),
                },
                Err(refusal) => Err(refusal),
            });
        }
        results
    }
}
