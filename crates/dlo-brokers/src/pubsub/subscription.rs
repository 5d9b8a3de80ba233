//! Joining: the subscription of a group is found, or made if the topic is there.
//!
//! A new subscription begins with what is published after it was made; the service keeps nothing for a group that never
//! was. Those made here never expire: by the service's default one that nobody read for 31 days is deleted with
//! everything in it.

use std::time::Duration;

use dlo_core::broker::BrokerError;
use serde_json::{Value, json};

use super::config::{PubsubConfig, seconds};
use super::connection::Connection;
use super::names::{self, Queue};
use super::wire::{DeadLetterPolicy, Subscription};

const DELETED: &str = "_deleted-topic_";

/// A subscription that is there.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) path: String,
    pub(super) lease: Duration,
    /// Where the service puts what was delivered too often.
    pub(super) dead: Option<String>,
}

/// What is asked for when a subscription is made.
pub(super) fn asked(config: &PubsubConfig, topic: &str, policy: Option<&DeadLetterPolicy>) -> Value {
    let mut asked = json!({
        "topic": topic,
        "ackDeadlineSeconds": seconds(config.ack_deadline.0),
        "expirationPolicy": {},
    });
    if let Some(policy) = policy {
        asked["deadLetterPolicy"] = json!(policy);
    }
    asked
}

impl Connection {
    pub(super) async fn join(&self, queue: &str, group: &str) -> Result<Joined, BrokerError> {
        let (path, found) = match self.queue(queue)? {
            Queue::Subscription(path) => {
                let found = self.get(&path).await.map_err(|failure| failure.of(queue))?;
                (path, found)
            }
            Queue::Topic(topic) => {
                let path = names::subscription(&self.config.project, &topic, group)?;
                let found = self.find_or_make(queue, &topic, &path).await?;
                if found.topic != topic && found.topic != DELETED {
                    return Err(BrokerError::Refused(format!(
                        "subscription `{path}` reads `{}` and not `{topic}`: name another group",
                        found.topic
                    )));
                }
                (path, found)
            }
        };
        if found.topic == DELETED {
            return Err(BrokerError::Refused(format!(
                "the topic of subscription `{path}` was deleted, so nothing new comes there; when what is left in it is \
                 not needed: `gcloud pubsub subscriptions delete {path}`"
            )));
        }
        let dead =
            found.dead_letter_policy.map(|policy| policy.dead_letter_topic).filter(|it| !it.is_empty());
        Ok(Joined { path, lease: Duration::from_secs(found.ack_deadline_seconds.max(10)), dead })
    }

    async fn find_or_make(&self, queue: &str, topic: &str, path: &str) -> Result<Subscription, BrokerError> {
        match self.get(path).await {
            Err(failure) if failure.is_missing() => {}
            found => return found.map_err(|failure| failure.of(queue)),
        }
        match self.put(path, &asked(&self.config, topic, None)).await {
            // Somebody else was quicker.
            Err(failure) if failure.is_there_already() => {
                self.get(path).await.map_err(|failure| failure.of(queue))
            }
            made => made.map_err(|failure| failure.of(queue)),
        }
    }
}
