//! Publishes in full requests, several at once; messages of one ordering key in requests that follow each other.
//!
//! A request has at most a thousand messages, nine megabytes and one ordering key, or none. It is confirmed as a whole, by
//! an id for each message. The service cannot delay a publish.

use std::collections::BTreeMap;

use async_trait::async_trait;
use dlo_core::broker::{Capabilities, Confirmed, Outgoing, PublishError, Publisher};
use futures::{StreamExt as _, stream};
use serde_json::json;

use super::PubsubBroker;
use super::config::BATCH;
use super::connection::{Connection, refusal};
use super::names::short;
use super::wire::{Published, WireMessage};

/// The service takes ten megabytes; what stands around the messages counts too.
const REQUEST: usize = 9_000_000;

type Sent = Result<Confirmed, PublishError>;
/// A message with its place among the results.
pub(super) type Placed = (usize, WireMessage);

#[async_trait]
impl Publisher for PubsubBroker {
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
            if let Some(result) = results.get_mut(at) {
                *result = Some(sent);
            }
        }
        results.into_iter().map(|sent| sent.unwrap_or_else(unanswered)).collect()
    }
}

fn unanswered() -> Sent {
    Err(PublishError::Unconfirmed("the service answered without this message".to_owned()))
}

impl PubsubBroker {
    async fn publish_to(&self, queue: String, messages: Vec<(usize, Outgoing)>) -> Vec<(usize, Sent)> {
        let topic = match self.connection.topic(&queue) {
            Ok(topic) => topic,
            Err(error) => return messages.into_iter().map(|(at, _)| (at, Err(refusal(&error)))).collect(),
        };
        let limit = self.connection.config.max_message();
        let (mut ready, mut results) = (Vec::with_capacity(messages.len()), Vec::new());
        for (at, message) in messages {
            match encode(&message, limit) {
                Ok(encoded) => ready.push((at, encoded)),
                Err(refusal) => results.push((at, Err(refusal))),
            }
        }
        results.extend(send(&self.connection, &topic, ready).await);
        results
    }
}

fn encode(message: &Outgoing, limit: usize) -> Result<WireMessage, PublishError> {
    if message.delay.is_some() {
        return Err(PublishError::Refused("Pub/Sub cannot delay a publish, only a redelivery".to_owned()));
    }
    // What is larger alone need not be copied first.
    let bare = message.message.payload.0.len();
    if bare > limit {
        return Err(PublishError::TooLarge { size: bare, limit });
    }
    let encoded = WireMessage::of(&message.message)?;
    match encoded.size() {
        size if size > limit => Err(PublishError::TooLarge { size, limit }),
        _ => Ok(encoded),
    }
}

/// Sends what is encoded to the topic of that path. Every place given comes back once.
pub(super) async fn send(connection: &Connection, topic: &str, messages: Vec<Placed>) -> Vec<(usize, Sent)> {
    let sends = stream::iter(lanes(messages)).map(|lane| async move {
        let mut results = Vec::new();
        for batch in lane {
            results.extend(send_batch(connection, topic, batch).await);
        }
        results
    });
    sends.buffer_unordered(connection.config.parallel).concat().await
}

/// Requests by ordering key, each key's in its order; those without a key each for themselves.
fn lanes(messages: Vec<Placed>) -> Vec<Vec<Vec<Placed>>> {
    let mut by_key: BTreeMap<String, Vec<Placed>> = BTreeMap::new();
    for message in messages {
        by_key.entry(message.1.ordering_key.clone()).or_default().push(message);
    }
    let free = by_key.remove("").unwrap_or_default();
    let ordered = by_key.into_values().map(batches);
    ordered.chain(batches(free).into_iter().map(|batch| vec![batch])).collect()
}

/// Cuts messages, in their order, into the largest requests that the service takes.
fn batches(messages: Vec<Placed>) -> Vec<Vec<Placed>> {
    let mut batches: Vec<Vec<Placed>> = Vec::new();
    let mut bytes = 0;
    for message in messages {
        let size = message.1.size();
        match batches.last_mut() {
            Some(batch) if batch.len() < BATCH && bytes + size <= REQUEST => {
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

async fn send_batch(connection: &Connection, topic: &str, batch: Vec<Placed>) -> Vec<(usize, Sent)> {
    let (places, messages): (Vec<usize>, Vec<WireMessage>) = batch.into_iter().unzip();
    let body = json!({ "messages": messages });
    match connection.post::<Published>(&format!("{topic}:publish"), &body).await {
        Ok(published) => {
            let mut ids = published.message_ids.into_iter();
            let sent = |id: Option<String>| match id {
                Some(_) => Ok(Confirmed::default()),
                None => unanswered(),
            };
            places.into_iter().map(|at| (at, sent(ids.next()))).collect()
        }
        Err(failure) => places.into_iter().map(|at| (at, Err(failure.of_publish(short(topic))))).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(key: &str, data: usize) -> WireMessage {
        WireMessage { ordering_key: key.to_owned(), data: "A".repeat(data), ..WireMessage::default() }
    }

    #[test]
    fn requests_are_full_by_count_or_by_bytes() {
        let many = (0..2_500).map(|at| (at, message("", 4))).collect();
        assert_eq!(batches(many).iter().map(Vec::len).collect::<Vec<_>>(), [1_000, 1_000, 500]);
        let large = (0..3).map(|at| (at, message("", REQUEST / 2 / 3 * 4))).collect();
        assert_eq!(batches(large).iter().map(Vec::len).collect::<Vec<_>>(), [2, 1]);
    }

    #[test]
    fn a_request_has_one_ordering_key_or_none_and_keys_keep_their_order() {
        let all = (0..30).map(|at| (at, message(["", "a", "b"][at % 3], 4))).collect();
        let lanes = lanes(all);
        assert_eq!(lanes.len(), 3);
        for batch in lanes.iter().flatten() {
            assert!(batch.iter().all(|one| one.1.ordering_key == batch[0].1.ordering_key));
            assert!(batch.iter().map(|one| one.0).is_sorted());
        }
    }
}
