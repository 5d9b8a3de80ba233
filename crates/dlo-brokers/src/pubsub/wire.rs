//! The JSON of the service, as far as it is spoken here, and messages to and from it.
//!
//! Facts that the service tells of a message come as `pubsub:messageId`, `pubsub:publishTime`, `pubsub:orderingKey` and
//! `pubsub:deliveryAttempt`. An ordering key is sent only for a message that came with one: all messages of one request
//! must share it, so a key of another broker would cost a request for each message, and travels as an attribute.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use bytes::Bytes;
use dlo_core::broker::PublishError;
use dlo_core::message::{Message, Payload};
use dlo_core::origin::BrokerKind;
use serde::{Deserialize, Serialize};

use super::attributes;

const ORDERING_KEY: &str = "orderingKey";
const LONGEST_ORDERING_KEY: usize = 1_024;

/// A message on the wire, either way. What the service sets is not sent.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct WireMessage {
    /// Base64.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) data: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) attributes: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) ordering_key: String,
    #[serde(skip_serializing)]
    pub(super) message_id: String,
    #[serde(skip_serializing)]
    pub(super) publish_time: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Received {
    pub(super) ack_id: String,
    pub(super) message: WireMessage,
    /// Counted only where the subscription has a dead-letter policy.
    pub(super) delivery_attempt: Option<u32>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Pulled {
    pub(super) received_messages: Vec<Received>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Published {
    pub(super) message_ids: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct DeadLetterPolicy {
    #[serde(default)]
    pub(super) dead_letter_topic: String,
    #[serde(default)]
    pub(super) max_delivery_attempts: u32,
}

/// A subscription, as far as it matters here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Subscription {
    pub(super) topic: String,
    pub(super) ack_deadline_seconds: u64,
    pub(super) dead_letter_policy: Option<DeadLetterPolicy>,
    /// Seconds, such as `604800s`.
    pub(super) message_retention_duration: Option<String>,
}

impl Subscription {
    /// How long it keeps a message that was not acknowledged; the service's default is seven days.
    pub(super) fn retention_seconds(&self) -> u64 {
        let told = self.message_retention_duration.as_deref().and_then(|text| text.strip_suffix('s'));
        told.and_then(|seconds| seconds.parse().ok()).unwrap_or(7 * 24 * 60 * 60)
    }
}

impl WireMessage {
    pub(super) fn of(message: &Message) -> Result<Self, PublishError> {
        let ordering_key = message.headers.transport(BrokerKind::Pubsub, ORDERING_KEY);
        let ordering_key = ordering_key.filter(|key| key.len() <= LONGEST_ORDERING_KEY).unwrap_or_default();
        let key = message.key.as_ref().filter(|Payload(key)| key != ordering_key.as_bytes());
        let attributes = attributes::write(&message.headers, key, message.payload.0.is_empty())?;
        let data = BASE64_STANDARD.encode(&message.payload.0);
        Ok(Self { data, attributes, ordering_key: ordering_key.to_owned(), ..Self::default() })
    }

    /// Bytes as the service counts them.
    pub(super) fn size(&self) -> usize {
        let attributes = self.attributes.iter().map(|(name, value)| name.len() + value.len());
        self.data.len() / 4 * 3 + attributes.sum::<usize>() + self.ordering_key.len()
    }

    /// `None` if the data is not base64, which the service never sends.
    pub(super) fn read(self, delivery_attempt: Option<u32>) -> Option<Message> {
        let payload = Payload(Bytes::from(BASE64_STANDARD.decode(&self.data).ok()?));
        let (mut headers, key) = attributes::read(self.attributes);
        let ordered = Some(&self.ordering_key).filter(|key| !key.is_empty());
        let key = key.or_else(|| ordered.map(|key| Payload::from(key.clone())));
        let facts = [
            ("messageId", &self.message_id),
            ("publishTime", &self.publish_time),
            (ORDERING_KEY, &self.ordering_key),
        ];
        for (name, value) in facts {
            if !value.is_empty() {
                headers.push_transport(BrokerKind::Pubsub, name, value.clone());
            }
        }
        if let Some(attempt) = delivery_attempt {
            headers.push_transport(BrokerKind::Pubsub, "deliveryAttempt", attempt.to_string());
        }
        Some(Message { key, headers, payload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordering_key_goes_back_as_it_came_and_other_keys_are_attributes() {
        let came =
            WireMessage { data: "aGk=".to_owned(), ordering_key: "k1".to_owned(), ..WireMessage::default() };
        let message = came.clone().read(Some(3)).unwrap();
        assert_eq!(message.key, Some(Payload::from("k1")));
        assert_eq!(message.headers.transport(BrokerKind::Pubsub, "deliveryAttempt"), Some("3"));
        assert_eq!(WireMessage::of(&message).unwrap(), came);

        let keyed = Message { key: Some(Payload::from("k2")), payload: "m".into(), ..Message::default() };
        let sent = WireMessage::of(&keyed).unwrap();
        assert_eq!(sent.ordering_key, "");
        assert_eq!(sent.read(None).unwrap(), keyed);
    }

    #[test]
    fn an_empty_message_is_sent_with_a_mark_that_is_taken_off_again() {
        let empty = Message::default();
        let sent = WireMessage::of(&empty).unwrap();
        assert!(!sent.attributes.is_empty());
        assert_eq!(sent.read(None).unwrap(), empty);
    }

    #[test]
    fn data_that_is_no_base64_is_no_message() {
        let came = WireMessage { data: "%%".to_owned(), ..WireMessage::default() };
        assert!(came.read(None).is_none());
    }
}
