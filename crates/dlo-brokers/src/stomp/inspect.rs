//! A look at a queue from outside, by the statistics plugin; without it nothing can be told.
//!
//! The plugin counts what is prefetched as in flight, so the depth is everything that is not settled, and nothing is said
//! of what is in flight.

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Inspect, QueueState};
use dlo_core::time::Timestamp;

use super::statistics::Statistics;

#[derive(Debug)]
pub(super) struct StompInspector {
    pub(super) statistics: Option<Arc<Statistics>>,
}

#[async_trait]
impl Inspect for StompInspector {
    async fn inspect(&self, queue: &str, _group: Option<&str>) -> Result<QueueState, BrokerError> {
        let Some(statistics) = &self.statistics else { return Ok(QueueState::default()) };
        let numbers = statistics.of(queue).await?.ok_or_else(|| BrokerError::Missing(queue.to_owned()))?;
        let oldest = numbers.number("firstMessageTimestamp").and_then(|millis| i64::try_from(millis).ok());
        Ok(QueueState {
            depth: numbers.number("size"),
            oldest: oldest.filter(|millis| *millis > 0).map(Timestamp::from_millis),
            consumers: numbers.number("consumerCount").and_then(|count| u32::try_from(count).ok()),
            ..QueueState::default()
        })
    }
}
