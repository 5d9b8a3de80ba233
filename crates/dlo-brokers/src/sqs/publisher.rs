//! Sends in full batches, several at once; on FIFO queues each message group in one lane, whose batches follow each other.
//!
//! A batch has at most ten messages and as many bytes as one message may have. Every entry has its own result.
//! A delay is the service's own, up to 15 minutes; FIFO queues know none per message.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::time::Duration;

use async_trait::async_trait;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::{
    MessageSystemAttributeNameForSends, MessageSystemAttributeValue, SendMessageBatchRequestEntry,
};
use dlo_core::broker::{BrokerError, Capabilities, Confirmed, Outgoing, PublishError, Publisher};
use futures::{StreamExt as _, stream};

use super::SqsBroker;
use super::config::{BATCH, seconds};
use super::connection::{Connection, Queue};
use super::errors::{Fault, unsent};
use super::wire::{Encoded, Unbuildable};

pub(super) const LONGEST_DELAY: Duration = Duration::from_secs(15 * 60);

type Sent = Result<Confirmed, PublishError>;
/// A message with its place among the results.
pub(super) type Placed = (usize, Encoded);

#[async_trait]
impl Publisher for SqsBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Sent> {
        let mut results: Vec<Option<Sent>> = messages.iter().map(|_| None).collect();
        let mut by_queue: BTreeMap<String, Vec<(usize, Outgoing)>> = BTreeMap::new();
        for (at, message) in messages.into_iter().enumerate() {
            by_queue.entry(message.to.queue.clone()).or_default().push((at, message));
        }
        let sends = by_queue.into_iter().map(|(queue, messages)| self.publish_to(queue, messages));
        for (at, sent) in futures::future::join_all(sends).await.into_iter().flatten() {
            results[at] = Some(sent);
        }
        results.into_iter().map(|sent| sent.unwrap_or_else(unanswered)).collect()
    }
}

fn unanswered() -> Sent {
    Err(PublishError::Unconfirmed("the service answered without this message".to_owned()))
}

impl SqsBroker {
    async fn publish_to(&self, queue: String, messages: Vec<(usize, Outgoing)>) -> Vec<(usize, Sent)> {
        let queue = match self.connection.queue(&queue).await {
            Ok(queue) => queue,
            Err(error) => {
                return messages.into_iter().map(|(at, _)| (at, Err(unsent(&error)))).collect();
            }
        };
        let limit = self.connection.config.max_message();
        let (mut ready, mut results) = (Vec::with_capacity(messages.len()), Vec::new());
        for (at, message) in messages {
            match encode(&message, &queue, limit) {
                Ok(encoded) => ready.push((at, encoded)),
                Err(refusal) => results.push((at, Err(refusal))),
            }
        }
        results.extend(send(&self.connection, &queue, ready).await);
        results
    }
}

fn encode(message: &Outgoing, queue: &Queue, limit: usize) -> Result<Encoded, PublishError> {
    if message.delay.is_some() && queue.fifo {
        return Err(PublishError::Refused(format!(
            "`{}` is a FIFO queue: it cannot delay single messages",
            queue.name
        )));
    }
    if message.delay.is_some_and(|delay| delay > LONGEST_DELAY) {
        return Err(PublishError::Refused("SQS delays a message by 15 minutes at most".to_owned()));
    }
    // What is larger alone need not be copied first.
    let bare = message.message.payload.0.len();
    if bare > limit {
        return Err(PublishError::TooLarge { size: bare, limit });
    }
    let mut encoded = Encoded::of(&message.message, queue.fifo).map_err(|error| refused(&error))?;
    if encoded.size > limit {
        return Err(PublishError::TooLarge { size: encoded.size, limit });
    }
    encoded.delay = message.delay.map(seconds);
    Ok(encoded)
}

fn refused(error: &Unbuildable) -> PublishError {
    PublishError::Refused(error.to_string())
}

/// Sends what is encoded. Every place given comes back once.
pub(super) async fn send(
    connection: &Connection,
    queue: &Queue,
    messages: Vec<Placed>,
) -> Vec<(usize, Sent)> {
    let limit = connection.config.max_message();
    let lanes: Vec<Vec<Vec<Placed>>> = match queue.fifo {
        true => {
            lanes(messages, connection.config.parallel).into_iter().map(|lane| batches(lane, limit)).collect()
        }
        false => batches(messages, limit).into_iter().map(|batch| vec![batch]).collect(),
    };
    let sends = stream::iter(lanes).map(|lane| async move {
        let mut results = Vec::new();
        for batch in lane {
            results.extend(send_batch(connection, queue, batch).await);
        }
        results
    });
    sends.buffer_unordered(connection.config.parallel).concat().await
}

/// Divides messages so that a group is whole in one lane, in its order.
fn lanes(messages: Vec<Placed>, most: usize) -> Vec<Vec<Placed>> {
    let count = most.min(messages.len().div_ceil(BATCH)).max(1);
    let mut lanes: Vec<Vec<Placed>> = (0..count).map(|_| Vec::new()).collect();
    for message in messages {
        let mut hash = DefaultHasher::new();
        message.1.group.hash(&mut hash);
        let lane = usize::try_from(hash.finish() % count as u64).unwrap_or(0);
        lanes[lane].push(message);
    }
    lanes
}

/// Cuts messages, in their order, into the largest batches that the service takes.
fn batches(messages: Vec<Placed>, limit: usize) -> Vec<Vec<Placed>> {
    let mut batches: Vec<Vec<Placed>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        let size = message.1.size;
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes + size <= limit => {
                bytes += size;
                batch.push(message);
            }
            _ => {
                bytes = size;
                batches.push(vec![message]);
            }
        }
    }
    batches
}

async fn send_batch(connection: &Connection, queue: &Queue, batch: Vec<Placed>) -> Vec<(usize, Sent)> {
    let places: Vec<usize> = batch.iter().map(|(at, _)| *at).collect();
    let answer = match call(connection, queue, batch).await {
        Ok(answer) => answer,
        Err(error) => return places.into_iter().map(|at| (at, Err(unsent(&error)))).collect(),
    };
    let mut results: Vec<Sent> = places.iter().map(|_| unanswered()).collect();
    for entry in &answer.successful {
        if let Some(result) = entry.id().parse().ok().and_then(|at: usize| results.get_mut(at)) {
            *result = Ok(Confirmed::default());
        }
    }
    for entry in &answer.failed {
        if let Some(result) = entry.id().parse().ok().and_then(|at: usize| results.get_mut(at)) {
            let said = format!("{}: {}", entry.code(), entry.message().unwrap_or_default());
            *result = Err(match Fault::of(entry.code(), entry.sender_fault()) {
                Fault::TakenBack | Fault::Ours => PublishError::Refused(said),
                Fault::Theirs => PublishError::Unconfirmed(said),
            });
        }
    }
    places.into_iter().zip(results).collect()
}

async fn call(
    connection: &Connection,
    queue: &Queue,
    batch: Vec<Placed>,
) -> Result<SendMessageBatchOutput, BrokerError> {
    let entries: Vec<SendMessageBatchRequestEntry> = batch
        .into_iter()
        .enumerate()
        .map(|(at, (_, message))| entry(at, message))
        .collect::<Result<_, _>>()
        .map_err(|error| BrokerError::Refused(error.to_string()))?;
    let call = connection.client().await?.send_message_batch().queue_url(&queue.url);
    let answer = call.set_entries(Some(entries)).send().await;
    answer.map_err(|error| connection.failed(&error, queue))
}

fn entry(at: usize, message: Encoded) -> Result<SendMessageBatchRequestEntry, Unbuildable> {
    let attributes = (!message.attributes.is_empty()).then_some(message.attributes);
    let mut entry = SendMessageBatchRequestEntry::builder()
        .id(at.to_string())
        .message_body(message.body)
        .set_message_attributes(attributes)
        .set_message_group_id(message.group)
        .set_message_deduplication_id(message.dedupe)
        .set_delay_seconds(message.delay);
    if let Some(trace) = message.trace {
        let trace = MessageSystemAttributeValue::builder().data_type("String").string_value(trace).build()?;
        entry = entry.message_system_attributes(MessageSystemAttributeNameForSends::AwsTraceHeader, trace);
    }
    entry.build()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sized(sizes: &[usize]) -> Vec<Placed> {
        sizes.iter().map(|&size| Encoded { size, ..Encoded::default() }).enumerate().collect()
    }

    #[test]
    fn batches_are_full_by_count_or_by_bytes() {
        let cut =
            |sizes: &[usize]| -> Vec<usize> { batches(sized(sizes), 100).iter().map(Vec::len).collect() };
        assert_eq!(cut(&[1; 25]), [10, 10, 5]);
        assert_eq!(cut(&[60, 40, 1, 100]), [2, 1, 1]);
        assert_eq!(cut(&[]), Vec::<usize>::new());
    }

    #[test]
    fn a_group_is_whole_in_one_lane_in_its_order() {
        let group = |n: usize| Some(format!("g{}", n % 7));
        let all = (0..200).map(|n| (n, Encoded { group: group(n), ..Encoded::default() })).collect();
        let lanes = lanes(all, 8);
        assert_eq!(lanes.iter().map(Vec::len).sum::<usize>(), 200);
        for n in 0..7 {
            let with: Vec<_> = lanes
                .iter()
                .map(|lane| {
                    lane.iter().filter(|one| one.1.group == group(n)).map(|one| one.0).collect::<Vec<_>>()
                })
                .filter(|places| !places.is_empty())
                .collect();
            assert!(with.len() == 1 && with[0].is_sorted());
        }
    }
}
