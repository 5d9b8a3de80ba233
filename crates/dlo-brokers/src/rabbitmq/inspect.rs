//! A look at a queue from outside: a passive declaration, which is exact, changes nothing and takes nothing.
//!
//! It counts what waits in the queue. What this process holds as a consumer of it has left the queue and may come back,
//! so it is counted as waiting too. What others hold only the management plugin knows, as of its last
//! statistics (5 s by default); where it is configured it says so, with the age of the oldest message.

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Inspect, QueueState};
use lapin::Queue;
use lapin::options::QueueDeclareOptions;
use lapin::types::FieldTable;

use super::connection::answered;
use super::seat::short;
use super::{RabbitmqBroker, Shared};

const PASSIVE: QueueDeclareOptions =
    QueueDeclareOptions { passive: true, durable: true, exclusive: false, auto_delete: false, nowait: false };

#[async_trait]
impl Inspect for RabbitmqBroker {
    async fn inspect(&self, queue: &str, _group: Option<&str>) -> Result<QueueState, BrokerError> {
        let shared = &self.shared;
        let declared = shared.look(queue).await?;
        let ready = u64::from(declared.message_count());
        let mut state = QueueState {
            depth: Some(ready),
            consumers: Some(declared.consumer_count()),
            partitions: Some(1),
            ..QueueState::default()
        };
        match &shared.management {
            Some(management) => {
                let seen = management.queue(queue).await?;
                state.in_flight = seen.messages_unacknowledged;
                state.oldest = seen.oldest();
            }
            None => {
                let mut held = 0;
                for seat in shared.seats(queue) {
                    // A consumer whose connection just went holds nothing any more.
                    held += seat.unsettled().await.unwrap_or(0);
                }
                state.depth = Some(ready + held);
            }
        }
        Ok(state)
    }
}

impl Shared {
    /// The queue as it is. A missing one closes the channel, so the channel is of the moment.
    pub(super) async fn look(&self, queue: &str) -> Result<Queue, BrokerError> {
        let channel = self.consuming.channel().await?;
        answered(channel.queue_declare(short(queue)?, PASSIVE, FieldTable::default())).await
    }
}
