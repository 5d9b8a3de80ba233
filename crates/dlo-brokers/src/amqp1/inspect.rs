//! A look at a queue from outside. Artemis answers by its management address; elsewhere only presence can be told.
//!
//! Artemis counts what is prefetched as being delivered, so the depth is everything that is not settled, and nothing is
//! said of what is in flight.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Inspect, QueueState};
use dlo_core::time::Timestamp;
use fe2o3_amqp::Receiver;
use fe2o3_amqp::link::receiver::CreditMode;
use serde_json::{Value as Json, json};

use super::config::Flavour;
use super::connection::Connector;
use super::errors;
use super::management::Management;

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
pub(super) struct Amqp1Inspector {
    pub(super) connector: Arc<Connector>,
    pub(super) management: Arc<Management>,
}

#[async_trait]
impl Inspect for Amqp1Inspector {
    async fn inspect(&self, queue: &str, _group: Option<&str>) -> Result<QueueState, BrokerError> {
        match self.connector.config.flavour {
            Flavour::Artemis => self.artemis(queue).await,
            Flavour::Generic | Flavour::Activemq | Flavour::ServiceBus => {
                probe(&self.connector, queue).await.map(|()| QueueState::default())
            }
        }
    }
}

impl Amqp1Inspector {
    async fn artemis(&self, queue: &str) -> Result<QueueState, BrokerError> {
        let found =
            find(&self.management, queue).await?.ok_or_else(|| BrokerError::Missing(queue.to_owned()))?;
        let depth = number(&found, "messageCount");
        let oldest = match depth {
            Some(0) | None => None,
            Some(_) => {
                let resource = format!("queue.{queue}");
                let first = self.management.call(&resource, "getFirstMessageTimestamp", &json!([])).await?;
                first.as_i64().filter(|millis| *millis > 0).map(Timestamp::from_millis)
            }
        };
        let consumers = number(&found, "consumerCount").and_then(|count| u32::try_from(count).ok());
        Ok(QueueState { depth, oldest, consumers, ..QueueState::default() })
    }
}

/// What Artemis lists of one queue.
pub(super) async fn find(management: &Management, queue: &str) -> Result<Option<Json>, BrokerError> {
    let wanted =
        json!({"field": "name", "operation": "EQUALS", "value": queue, "sortOrder": "", "sortField": ""});
    let listed = management.call("broker", "listQueues", &json!([wanted.to_string(), 1, 10])).await?;
    let page: Json = listed.as_str().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let mut found = page.get("data").and_then(Json::as_array).into_iter().flatten();
    Ok(found.find(|entry| entry.get("name").and_then(Json::as_str) == Some(queue)).cloned())
}

/// A number, which Artemis writes as text.
fn number(entry: &Json, name: &str) -> Option<u64> {
    match entry.get(name)? {
        Json::String(text) => text.parse().ok(),
        other => other.as_u64(),
    }
}

/// Whether the queue is there: attaches without credit, which takes nothing, and leaves.
pub(super) async fn probe(connector: &Arc<Connector>, queue: &str) -> Result<(), BrokerError> {
    let mut line = connector.open().await?;
    let attaching = Receiver::builder()
        .name(format!("dlo-probe-{:016x}", rand::random::<u64>()))
        .source(queue)
        .credit_mode(CreditMode::Manual)
        .attach(&mut line.session);
    let attached = tokio::time::timeout(PATIENCE, attaching).await;
    let result = match attached {
        Ok(Ok(receiver)) => {
            let _ = tokio::time::timeout(PATIENCE, receiver.close()).await;
            Ok(())
        }
        Ok(Err(cause)) => Err(errors::receiving(&cause, &connector.to_string(), queue)),
        Err(_) => Err(connector.unavailable("no answer to attaching")),
    };
    line.close().await;
    result
}
