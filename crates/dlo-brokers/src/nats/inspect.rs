//! A look at a queue from outside.
//!
//! The server counts what was delivered and not settled together with what waits for its redelivery, so the depth of a
//! group is everything that it has not settled, and nothing is said of what is in flight.

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Inspect, Passed, QueueState};
use dlo_core::time::Timestamp;

use super::api::Api;
use super::names;
use super::records::{At, Home, look};

#[derive(Debug)]
pub(super) struct NatsInspector(pub(super) Api);

#[async_trait]
impl Inspect for NatsInspector {
    async fn inspect(&self, queue: &str, group: Option<&str>) -> Result<QueueState, BrokerError> {
        let api = &self.0;
        let (stream, info) = api.stream_of(queue).await?;
        let home = Home { queue: queue.to_owned(), stream, created: info.created };
        let consumer = match group {
            Some(group) => api.consumer(&home.stream, &names::consumer_name(group, queue)).await?,
            None => None,
        };
        let (depth, first) = match consumer {
            Some(consumer) => {
                (consumer.num_pending + consumer.num_ack_pending, consumer.ack_floor.stream_seq + 1)
            }
            // Whoever joins as a new group begins with the oldest, so this is what waits for it.
            None => (self.count(&home).await?, 1),
        };
        let oldest = if depth == 0 { None } else { self.time_of(&home, first).await? };
        Ok(QueueState { depth: Some(depth), oldest, partitions: Some(1), ..QueueState::default() })
    }
}

/// How far a group is: the server keeps it as the floor of its acknowledgements. The group may be
/// one of ours or a durable consumer of that name; one that is not there begins with the oldest.
pub(super) async fn passed(api: &Api, queue: &str, group: &str) -> Result<Vec<Passed>, BrokerError> {
    let (stream, info) = api.stream_of(queue).await?;
    let mut consumer = api.consumer(&stream, &names::consumer_name(group, queue)).await?;
    if let (None, Some(name)) = (&consumer, names::foreign_name(group)) {
        consumer = api.consumer(&stream, name).await?;
    }
    let next = consumer.map_or(info.state.first_seq, |consumer| consumer.ack_floor.stream_seq + 1);
    Ok(vec![Passed { partition: 0, next: i64::try_from(next).unwrap_or(i64::MAX) }])
}

impl NatsInspector {
    async fn count(&self, home: &Home) -> Result<u64, BrokerError> {
        match self.0.stream(&home.stream, Some(&home.queue)).await? {
            Some(info) => Ok(info.state.subjects.values().sum()),
            None => Err(BrokerError::Missing(home.queue.clone())),
        }
    }

    async fn time_of(&self, home: &Home, sequence: u64) -> Result<Option<Timestamp>, BrokerError> {
        let found = look(&self.0, home, &[At::From(sequence, &home.queue)]).await?;
        Ok(found.into_iter().flatten().next().and_then(|stored| Timestamp::parse(&stored.time).ok()))
    }
}
