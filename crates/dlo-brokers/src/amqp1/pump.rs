//! The task that owns one receiving link: it shelves what comes, tells the broker what was settled, and gives credit.
//!
//! AMQP settles without an answer (receiver settle mode first). To know that a settlement arrived, a link is
//! attached on the same session behind it: frames of a session keep their order, so its answer, even a refusal, says that
//! the broker has read everything before. One such round trip serves every batch that waits. What the broker has read
//! outlives it only if it had the time to write it.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::BrokerError;
use fe2o3_amqp::link::delivery::DeliveryInfo;
use fe2o3_amqp::link::receiver::CreditMode;
use fe2o3_amqp::link::{IllegalLinkStateError, RecvError, SenderAttachError};
use fe2o3_amqp::types::definitions::{Error, ErrorCondition, Fields};
use fe2o3_amqp::types::messaging::{Body, Modified, Target};
use fe2o3_amqp::types::primitives::{Symbol, Value};
use fe2o3_amqp::{Delivery, Receiver, Sender};
use futures::FutureExt as _;
use tokio::sync::{mpsc, oneshot};

use super::config::Flavour;
use super::connection::{Connector, Line};
use super::decode::{Decoded, decode};
use super::errors;
use super::shelf::Shelf;

/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many deliveries are shelved at once at most.
const GULP: usize = 256;
/// How many batches of settlements may wait for the task.
const COMMANDS: usize = 64;

/// What the broker is to be told.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    pub(super) accepted: Vec<DeliveryInfo>,
    /// Delivered, not handled: count it and deliver it again.
    pub(super) failed: Vec<DeliveryInfo>,
    pub(super) rejected: Vec<DeliveryInfo>,
}

#[derive(Debug)]
pub(super) enum Command {
    Settle { outcomes: Outcomes, told: oneshot::Sender<Result<(), BrokerError>> },
    Close { done: oneshot::Sender<()> },
}

/// One receiving link and the connection under it.
#[derive(Debug)]
pub(super) struct Pump {
    connector: Arc<Connector>,
    shelf: Arc<Shelf>,
    line: Line,
    receiver: Receiver,
    commands: mpsc::Receiver<Command>,
}

impl Pump {
    /// Attaches to `queue` and starts the task.
    pub(super) async fn start(
        connector: &Arc<Connector>,
        shelf: &Arc<Shelf>,
        queue: &str,
    ) -> Result<(), BrokerError> {
        let mut line = connector.open().await?;
        let attaching = Receiver::builder()
            .name(format!("dlo-{:016x}", rand::random::<u64>()))
            .source(queue)
            .credit_mode(CreditMode::Manual)
            .attach(&mut line.session);
        let receiver = match tokio::time::timeout(PATIENCE, attaching).await {
            Ok(Ok(receiver)) => receiver,
            Ok(Err(cause)) => return Err(errors::receiving(&cause, &connector.to_string(), queue)),
            Err(_) => return Err(connector.unavailable("no answer to attaching")),
        };
        let (sender, commands) = mpsc::channel(COMMANDS);
        let pump =
            Self { connector: Arc::clone(connector), shelf: Arc::clone(shelf), line, receiver, commands };
        shelf.begin(sender);
        tokio::spawn(pump.run());
        Ok(())
    }

    async fn run(mut self) {
        let lost = loop {
            if let Err(cause) = self.top_up().await {
                break self.connector.unavailable(&cause.to_string());
            }
            tokio::select! {
                came = self.receiver.recv::<Body<Value>>() => match self.shelve(came) {
                    Ok(()) => {}
                    Err(why) => break why,
                },
                command = self.commands.recv() => match command {
                    Some(Command::Settle { outcomes, told }) => match self.settle(outcomes, told).await {
                        Ok(None) => {}
                        Ok(Some(done)) => return self.close(Some(done)).await,
                        Err(why) => break why,
                    },
                    Some(Command::Close { done }) => return self.close(Some(done)).await,
                    None => return self.close(None).await,
                },
            }
        };
        self.shelf.lose(lost);
    }

    /// Credit for what may still come, asked for in halves so that the wire stays busy and the frames few.
    async fn top_up(&mut self) -> Result<(), IllegalLinkStateError> {
        let prefetch = self.connector.config.prefetch;
        let unsettled = u32::try_from(self.shelf.unsettled()).unwrap_or(u32::MAX);
        let wanted = prefetch.saturating_sub(unsettled);
        let has = self.receiver.credit();
        if wanted > has && (has == 0 || wanted - has >= prefetch.div_ceil(2)) {
            self.receiver.set_credit(wanted).await?;
        }
        Ok(())
    }

    /// Puts one delivery on the shelf, and whatever else is here already.
    fn shelve(&mut self, first: Result<Delivery<Body<Value>>, RecvError>) -> Result<(), BrokerError> {
        let mut gulp: Vec<(DeliveryInfo, Decoded)> = Vec::new();
        let mut next = Some(first);
        let mut end = Ok(());
        while let Some(came) = next {
            match came {
                Ok(delivery) => {
                    let (info, message) = delivery.into_parts();
                    gulp.push((info, decode(message)));
                }
                Err(RecvError::MessageDecode(cause)) => {
                    tracing::warn!(%cause, "a message is no AMQP message; it stays with the broker");
                }
                Err(cause) => {
                    end = Err(self.connector.unavailable(&cause.to_string()));
                    break;
                }
            }
            next = match gulp.len() < GULP {
                true => self.receiver.recv::<Body<Value>>().now_or_never(),
                false => None,
            };
        }
        self.shelf.put(gulp);
        end
    }

    /// Tells the broker, for every batch that waits, and waits once until it has read all. A wish to close that came
    /// in between is handed back.
    async fn settle(
        &mut self,
        outcomes: Outcomes,
        told: oneshot::Sender<Result<(), BrokerError>>,
    ) -> Result<Option<oneshot::Sender<()>>, BrokerError> {
        let mut waiting = vec![told];
        let mut close = None;
        let mut sent = self.tell(outcomes).await;
        while let (Ok(()), None, Ok(next)) = (&sent, &close, self.commands.try_recv()) {
            match next {
                Command::Settle { outcomes, told } => {
                    waiting.push(told);
                    sent = self.tell(outcomes).await;
                }
                Command::Close { done } => close = Some(done),
            }
        }
        let result = match sent {
            Ok(()) => self.barrier().await,
            Err(why) => Err(why),
        };
        for told in waiting {
            let _ = told.send(match &result {
                Ok(()) => Ok(()),
                Err(why) => Err(BrokerError::Unavailable(why.to_string())),
            });
        }
        result.map(|()| close)
    }

    async fn tell(&self, outcomes: Outcomes) -> Result<(), BrokerError> {
        let Outcomes { accepted, failed, rejected } = outcomes;
        let lost = |cause: IllegalLinkStateError| self.connector.unavailable(&cause.to_string());
        if !accepted.is_empty() {
            self.receiver.accept_all(accepted).await.map_err(lost)?;
        }
        if !failed.is_empty() {
            self.receiver.modify_all(failed, delivery_failed()).await.map_err(lost)?;
        }
        if !rejected.is_empty() {
            let why = rejection(self.connector.config.flavour);
            self.receiver.reject_all(rejected, why).await.map_err(lost)?;
        }
        Ok(())
    }

    /// Returns when the broker has read everything that was sent on this session.
    async fn barrier(&mut self) -> Result<(), BrokerError> {
        let attaching = Sender::builder()
            .name(format!("dlo-barrier-{:016x}", rand::random::<u64>()))
            .target(Target::builder().build())
            .attach(&mut self.line.session);
        match tokio::time::timeout(PATIENCE, attaching).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(cause)) if is_refusal(&cause) => Ok(()),
            Ok(Err(cause)) => Err(self.connector.unavailable(&cause.to_string())),
            Err(_) => Err(self.connector.unavailable("no answer to what was settled")),
        }
    }

    /// Hands back what is not settled: what nobody saw as if it had never come, the rest counted as delivered.
    async fn close(self, done: Option<oneshot::Sender<()>>) {
        let Self { shelf, line, receiver, .. } = self;
        let (unseen, seen) = shelf.hand_back();
        if !unseen.is_empty() {
            let _ = receiver.release_all(unseen).await;
        }
        if !seen.is_empty() {
            let _ = receiver.modify_all(seen, delivery_failed()).await;
        }
        let _ = tokio::time::timeout(PATIENCE, receiver.close()).await;
        line.close().await;
        if let Some(done) = done {
            let _ = done.send(());
        }
    }
}

/// Whether a server at work said no. One that stops answers too, and then what it read before may not be kept.
fn is_refusal(cause: &SenderAttachError) -> bool {
    use ErrorCondition::{AmqpError, ConnectionError, LinkError, SessionError};
    use fe2o3_amqp::types::definitions::AmqpError::{IllegalState, InternalError};
    use fe2o3_amqp::types::definitions::LinkError::DetachForced;
    match cause {
        SenderAttachError::SessionStopped(_)
        | SenderAttachError::SessionNotMapped
        | SenderAttachError::IllegalState
        | SenderAttachError::NonAttachFrameReceived => false,
        SenderAttachError::RemoteClosedWithError(why) => !matches!(
            why.condition,
            AmqpError(InternalError | IllegalState)
                | LinkError(DetachForced)
                | ConnectionError(_)
                | SessionError(_)
        ),
        _ => true,
    }
}

fn delivery_failed() -> Modified {
    Modified { delivery_failed: Some(true), undeliverable_here: None, message_annotations: None }
}

/// Service Bus writes the reason on the dead letter; others take none.
fn rejection(flavour: Flavour) -> Option<Error> {
    match flavour {
        Flavour::Generic | Flavour::Artemis | Flavour::Activemq => None,
        Flavour::ServiceBus => {
            let mut info = Fields::new();
            info.insert(Symbol::new("DeadLetterReason"), Value::String("rejected".to_owned()));
            let description = "refused by its consumer".to_owned();
            info.insert(Symbol::new("DeadLetterErrorDescription"), Value::String(description));
            let condition = ErrorCondition::Custom(Symbol::new("com.microsoft:dead-letter"));
            Some(Error::new(condition, None, info))
        }
    }
}

#[cfg(test)]
mod tests {
    use fe2o3_amqp::types::definitions::{AmqpError, ConnectionError, LinkError};

    use super::*;

    #[test]
    fn a_refusal_is_an_answer_unless_it_says_that_the_server_is_ending() {
        let refused = |condition: ErrorCondition| {
            is_refusal(&SenderAttachError::RemoteClosedWithError(Error::new(condition, None, None)))
        };
        assert!(refused(AmqpError::NotFound.into()) && refused(AmqpError::NotAllowed.into()));
        assert!(is_refusal(&SenderAttachError::IncomingTargetIsNone));
        assert!(!refused(AmqpError::InternalError.into()) && !refused(LinkError::DetachForced.into()));
        assert!(!refused(ConnectionError::ConnectionForced.into()));
        assert!(!is_refusal(&SenderAttachError::SessionNotMapped));
    }
}
