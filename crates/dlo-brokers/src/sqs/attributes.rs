//! The attributes of a queue, read and written: counts, retention and policies.

use std::collections::HashMap;

use aws_sdk_sqs::types::QueueAttributeName as Name;
use dlo_core::broker::{BrokerError, Inspect, QueueState};
use serde::{Deserialize, Serialize};

use super::SqsBroker;
use super::connection::{Connection, Queue};

/// `RedrivePolicy`: where the service puts what was received too often.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RedrivePolicy {
    pub(super) dead_letter_target_arn: String,
    #[serde(deserialize_with = "number")]
    pub(super) max_receive_count: u32,
}

/// The service takes and gives the count as a number, older tools wrote it as text.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<u32, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Either {
        Number(u32),
        Text(String),
    }
    match Either::deserialize(from)? {
        Either::Number(number) => Ok(number),
        Either::Text(text) => text.parse().map_err(serde::de::Error::custom),
    }
}

/// `RedriveAllowPolicy`: which queues may use this one for their dead letters. Unset: all.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RedriveAllowPolicy {
    pub(super) redrive_permission: String,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) source_queue_arns: Vec<String>,
}

/// What a queue says of itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Attributes(HashMap<Name, String>);

impl Attributes {
    pub(super) async fn read(
        connection: &Connection,
        queue: &Queue,
        names: &[Name],
    ) -> Result<Self, BrokerError> {
        let call = connection.client().await?.get_queue_attributes().queue_url(&queue.url);
        let answer = call.set_attribute_names(Some(names.to_vec())).send().await;
        let answer = answer.map_err(|error| connection.failed(&error, queue))?;
        Ok(Self(answer.attributes.unwrap_or_default()))
    }

    pub(super) fn number(&self, name: &Name) -> Option<u64> {
        self.0.get(name)?.parse().ok()
    }

    pub(super) fn arn(&self) -> Option<&str> {
        self.0.get(&Name::QueueArn).map(String::as_str)
    }

    pub(super) fn redrive(&self) -> Option<RedrivePolicy> {
        serde_json::from_str(self.0.get(&Name::RedrivePolicy)?).ok()
    }

    pub(super) fn allow(&self) -> Option<RedriveAllowPolicy> {
        serde_json::from_str(self.0.get(&Name::RedriveAllowPolicy)?).ok()
    }
}

#[async_trait::async_trait]
impl Inspect for SqsBroker {
    /// The service counts approximately; it is exact when the queue has been quiet for a minute.
    async fn inspect(&self, queue: &str, _: Option<&str>) -> Result<QueueState, BrokerError> {
        let queue = self.connection.queue(queue).await?;
        let names = [
            Name::ApproximateNumberOfMessages,
            Name::ApproximateNumberOfMessagesDelayed,
            Name::ApproximateNumberOfMessagesNotVisible,
        ];
        let said = Attributes::read(&self.connection, &queue, &names).await?;
        let [visible, delayed, hidden] = names.map(|name| said.number(&name));
        let depth = visible.map(|visible| visible + delayed.unwrap_or(0));
        Ok(QueueState { depth, in_flight: hidden, ..QueueState::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_as_the_service_and_older_tools_write_them() {
        for count in ["5", "\"5\""] {
            let text = format!(r#"{{"deadLetterTargetArn":"arn:aws:sqs:r:1:d","maxReceiveCount":{count}}}"#);
            let policy: RedrivePolicy = serde_json::from_str(&text).unwrap();
            assert_eq!((policy.max_receive_count, &*policy.dead_letter_target_arn), (5, "arn:aws:sqs:r:1:d"));
        }
        let open: RedriveAllowPolicy = serde_json::from_str(r#"{"redrivePermission":"allowAll"}"#).unwrap();
        assert_eq!(open.source_queue_arns, Vec::<String>::new());
    }
}
