//! Answers: deleted, shown again, or refused.
//!
//! SQS has no word for *refuse*. Where the queue has a redrive policy its dead-letter queue gets a copy, confirmed before
//! the original is deleted; between the two a crash leaves both, never neither. The copy carries body and attributes as
//! they came, but not `DeadLetterQueueSourceArn`, which only the service can write. Without a policy the message is gone.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::types;
use dlo_core::broker::{BrokerError, PublishError, Settled, Settlement, Settler};
use tokio::time::Instant;

use super::batches::{What, Word, tell};
use super::config::{LONGEST_VISIBILITY, seconds};
use super::connection::Queue;
use super::publisher::send;
use super::source::Seat;
use super::wire::Encoded;
use crate::leases::Lease;

/// What refusing a message of this queue means.
#[derive(Debug)]
pub(super) enum Refusal {
    Delete,
    MoveTo(Arc<Queue>),
}

impl Refusal {
    pub(super) fn keeps_the_message(&self) -> bool {
        match self {
            Self::Delete => false,
            Self::MoveTo(_) => true,
        }
    }
}

#[derive(Debug)]
pub(super) struct SqsSettler(pub(super) Arc<Seat>);

#[async_trait]
impl Settler for SqsSettler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        let now = Instant::now();
        let mut words = Vec::with_capacity(settled.len());
        let mut refused = Vec::new();
        for one in settled {
            let Some(lease) = self.0.held.settle(&one.tag) else { continue };
            match one.how {
                // Tried even after the lease: it is handled, and the service may still know the receipt.
                Settlement::Done => words.push(Word { receipt: lease.receipt, what: What::Forget }),
                // The broker has shown it again already.
                Settlement::Again { .. } | Settlement::Refuse if lease.is_over(now) => {}
                Settlement::Again { after } => {
                    let what = What::ShowAfter(show_after(after, now - lease.taken));
                    words.push(Word { receipt: lease.receipt, what });
                }
                Settlement::Refuse => refused.push(lease),
            }
        }
        let moved = self.0.refuse(refused, &mut words).await;
        tell(&self.0.connection, &self.0.queue, words, false).await?;
        moved
    }
}

/// Hidden no longer than the service allows, which counts from the delivery.
fn show_after(after: Duration, held: Duration) -> i32 {
    let left = LONGEST_VISIBILITY.saturating_sub(held).saturating_sub(Duration::from_secs(1));
    seconds(after.min(left))
}

impl Seat {
    /// Adds to `words` the deletion of every refused message that is safe, or that has no place to be safe in.
    async fn refuse(
        &self,
        refused: Vec<Lease<types::Message>>,
        words: &mut Vec<Word>,
    ) -> Result<(), BrokerError> {
        if refused.is_empty() {
            return Ok(());
        }
        let forget = |receipt| Word { receipt, what: What::Forget };
        let Refusal::MoveTo(dead) = &self.refusal else {
            words.extend(refused.into_iter().map(|lease| forget(lease.receipt)));
            return Ok(());
        };
        let mut receipts = Vec::with_capacity(refused.len());
        let mut copies = Vec::with_capacity(refused.len());
        for lease in refused {
            let Some(whole) = lease.whole else { continue };
            copies.push((copies.len(), Encoded::copy_of(*whole, dead.fifo)));
            receipts.push(lease.receipt);
        }
        let mut moved = Ok(());
        for (at, sent) in send(&self.connection, dead, copies).await {
            match sent {
                Ok(_) => words.extend(receipts.get_mut(at).map(|receipt| forget(std::mem::take(receipt)))),
                Err(error) => moved = Err(unmoved(&dead.name, &error)),
            }
        }
        moved
    }
}

fn unmoved(dead: &str, error: &PublishError) -> BrokerError {
    let why = format!("the dead-letter queue `{dead}` did not take a refused message: {error}");
    match error {
        PublishError::Unconfirmed(_) => BrokerError::Unavailable(why),
        _ => BrokerError::Refused(why),
    }
}

/// Shows leases again at once, in the order they were taken where the queue has an order.
pub(super) async fn hand_back(seat: &Seat, leases: Vec<Lease<types::Message>>) -> Result<(), BrokerError> {
    let now = Instant::now();
    let words = leases
        .into_iter()
        .filter(|lease| !lease.is_over(now))
        .map(|lease| Word { receipt: lease.receipt, what: What::ShowAfter(0) })
        .collect();
    tell(&seat.connection, &seat.queue, words, seat.queue.fifo).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_hidden_longer_than_the_service_allows() {
        let hour = Duration::from_secs(3_600);
        assert_eq!(show_after(Duration::ZERO, hour), 0);
        assert_eq!(show_after(Duration::from_millis(1_500), hour), 2);
        assert_eq!(show_after(24 * hour, hour), 11 * 3_600 - 1);
        assert_eq!(show_after(hour, 13 * hour), 0);
    }
}
