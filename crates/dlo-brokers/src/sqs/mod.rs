//! Amazon SQS, `kind = "sqs"`: long polls and batch calls of ten over HTTPS, signed.
//!
//! A received message is hidden for `visibility` and comes again unless it was deleted; that is the lease. Delays are
//! the service's own: visibility for a redelivery (up to 12 hours), `DelaySeconds` for a publish (up to 15 minutes).
//! There are no groups: all consumers of a queue share it. Looking hides messages and counts as a delivery, so there is
//! no reader. The broker's capabilities are those of standard queues; a source on a `.fifo` queue declares its order and
//! its deduplication window, and sends to one can be repeated within it. The service's own move task is not used: it moves a whole queue without choosing, filtering
//! or marking, only back to where the service dead-lettered from, and says nothing of single messages.

mod attributes;
mod batches;
mod config;
mod connection;
mod errors;
mod pack;
mod publisher;
mod settler;
mod source;
mod text;
mod topology;
mod wire;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::types::QueueAttributeName;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, DelayLimits, HeaderRules, Inspect, LostConfirm, Order, Position,
    Publisher, Reader, Seen, Source, Topology,
};
use dlo_core::origin::{BrokerKind, Origin};

use crate::leases::Held;
use attributes::Attributes;
pub use config::SqsConfig;
use connection::{Connection, Queue};
use settler::Refusal;
use source::{Seat, SqsSource};

/// Messages of one queue that may be in hand, or wait for a redelivery, at once.
const IN_FLIGHT: u64 = 120_000;
const IN_FLIGHT_FIFO: u64 = 20_000;
const DEDUPE_WINDOW: Duration = Duration::from_secs(5 * 60);

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &SqsConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    let connection = Arc::new(Connection::new(config)?);
    Ok(Arc::new(SqsBroker { connection, capabilities: capabilities(config) }))
}

#[derive(Debug, Clone)]
struct SqsBroker {
    connection: Arc<Connection>,
    capabilities: Capabilities,
}

impl SqsBroker {
    /// What refusing means on this queue, by its redrive policy.
    async fn refusal(&self, queue: &Queue) -> Result<Refusal, BrokerError> {
        let said = Attributes::read(&self.connection, queue, &[QueueAttributeName::RedrivePolicy]).await?;
        match said.redrive() {
            Some(policy) => Ok(Refusal::MoveTo(self.connection.queue(&policy.dead_letter_target_arn).await?)),
            None => Ok(Refusal::Delete),
        }
    }
}

#[async_trait]
impl Broker for SqsBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        let asked = self.connection.client().await?.list_queues().max_results(1).send().await;
        match asked.map_err(|error| errors::meaning(&error, "*")) {
            Ok(_) => Ok(None),
            // Known, and not allowed to list: the service is there, and that right is not needed.
            Err(BrokerError::Refused(why)) if why.contains("AccessDenied") => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn source(&self, queue: &str, _group: &str) -> Result<Box<dyn Source>, BrokerError> {
        let queue = self.connection.queue(queue).await?;
        let refusal = self.refusal(&queue).await?;
        let capabilities = if queue.fifo { fifo(&self.capabilities) } else { self.capabilities.clone() };
        let connection = Arc::clone(&self.connection);
        let seat = Seat { connection, queue, refusal, held: Held::default() };
        Ok(Box::new(SqsSource::new(seat, capabilities)))
    }

    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError> {
        self.connection.queue(queue).await.map(|_| vec![0])
    }

    async fn reader(
        &self,
        queue: &str,
        _partition: i32,
        _from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        Err(unlookable(queue))
    }

    async fn fetch(&self, origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        Err(unlookable(&origin.queue))
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(self.clone())
    }

    fn lost_confirm(&self, queue: &str) -> LostConfirm {
        if connection::is_fifo(queue) { LostConfirm::SendAgainInWindow } else { LostConfirm::Unknown }
    }

    async fn remembers_sends(&self, queue: &str) -> Result<Duration, BrokerError> {
        Ok(if connection::is_fifo(queue) { DEDUPE_WINDOW } else { Duration::ZERO })
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(self.clone())
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::new(self.clone())
    }
}

fn unlookable(queue: &str) -> BrokerError {
    BrokerError::Refused(format!(
        "looking at `{queue}` would hide its messages from others and count as a delivery of each, as SQS has no other \
         way; drain it instead"
    ))
}

/// Of standard queues: what holds for every queue.
fn capabilities(config: &SqsConfig) -> Capabilities {
    let delay = |longest, outstanding| Some(DelayLimits { longest, outstanding });
    Capabilities {
        kind: BrokerKind::Sqs,
        order: Order::None,
        groups: false,
        delivery_count: true,
        delay: delay(config::LONGEST_VISIBILITY, Some(IN_FLIGHT)),
        delayed_publish: delay(publisher::LONGEST_DELAY, None),
        again_carries: false,
        waiting_keeps_order: false,
        looking_is_free: false,
        drain_removes: true,
        offsets: false,
        cumulative_ack: false,
        dedupe_window: None,
        lost_confirm: LostConfirm::Unknown,
        headers: HeaderRules {
            binary_values: true,
            repeated_names: true,
            absent_values: true,
            keeps_order: true,
        },
        max_message: config.max_message(),
    }
}

/// Of a FIFO queue: equal keys are one message group, and a group is one order.
fn fifo(standard: &Capabilities) -> Capabilities {
    Capabilities {
        order: Order::PerPartition,
        delay: standard.delay.map(|limits| DelayLimits { outstanding: Some(IN_FLIGHT_FIFO), ..limits }),
        delayed_publish: None,
        waiting_keeps_order: true,
        dedupe_window: Some(DEDUPE_WINDOW),
        lost_confirm: LostConfirm::SendAgainInWindow,
        ..standard.clone()
    }
}
