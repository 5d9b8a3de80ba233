//! Questions to the broker's statistics plugin: one queue's numbers, or that there is no such queue.
//!
//! A message to `ActiveMQ.Statistics.Destination.<queue>` is answered to a temporary queue, with an empty answer behind
//! the last one. One connection, opened when first needed and dropped after any error; one question at a time.

use std::sync::Arc;

use dlo_core::broker::BrokerError;
use serde_json::{Map, Value as Json};
use tokio::sync::{Mutex, mpsc};

use super::connection::{Connector, Line, PATIENCE};
use super::frame::Frame;

const REPLIES: &str = "/temp-queue/dlo-statistics";
const ASK: &str = "ActiveMQ.Statistics.Destination";

#[derive(Debug)]
pub(super) struct Statistics {
    connector: Arc<Connector>,
    desk: Mutex<Option<Desk>>,
}

#[derive(Debug)]
struct Desk {
    line: Line,
    answers: mpsc::UnboundedReceiver<Frame>,
}

/// What the plugin says of a queue, by its own names.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Numbers(Map<String, Json>);

impl Numbers {
    pub(super) fn number(&self, name: &str) -> Option<u64> {
        self.0.get(name).and_then(Json::as_u64)
    }
}

impl Statistics {
    pub(super) fn new(connector: &Arc<Connector>) -> Self {
        Self { connector: Arc::clone(connector), desk: Mutex::new(None) }
    }

    /// The numbers of `queue`; `None` when there is no such queue.
    pub(super) async fn of(&self, queue: &str) -> Result<Option<Numbers>, BrokerError> {
        let mut guard = self.desk.lock().await;
        if guard.as_ref().is_none_or(|desk| !desk.line.is_up()) {
            *guard = Some(self.open().await?);
        }
        let Some(desk) = guard.as_mut() else { return Err(self.connector.unavailable("not connected")) };
        let asked = match tokio::time::timeout(PATIENCE, desk.ask(&self.connector, queue)).await {
            Ok(asked) => asked,
            Err(_) => Err(BrokerError::Refused(format!(
                "{}: no answer from the statistics plugin; add <statisticsBrokerPlugin/> to activemq.xml, or set \
                 `statistics = false`",
                self.connector
            ))),
        };
        if asked.is_err() {
            *guard = None;
        }
        asked
    }

    async fn open(&self) -> Result<Desk, BrokerError> {
        let (sender, answers) = mpsc::unbounded_channel();
        let line = self.connector.open(sender).await?;
        let subscribe = Frame::new("SUBSCRIBE")
            .with("id", "answers")
            .with("destination", REPLIES)
            .with("ack", "auto")
            .with("transformation", "jms-map-json");
        line.tell(vec![subscribe]).await.map_err(|failure| failure.into_error(&self.connector))?;
        Ok(Desk { line, answers })
    }
}

impl Desk {
    async fn ask(&mut self, connector: &Connector, queue: &str) -> Result<Option<Numbers>, BrokerError> {
        let question = Frame::new("SEND")
            .with("destination", format!("/queue/{ASK}.{queue}"))
            .with("reply-to", REPLIES)
            .with("ActiveMQ.Statistics.Destination.List.End.With.Null", "true")
            .with("ActiveMQ.Statistics.Destination.Include.First.Message.Timestamp", "true");
        self.line.write(&[question]).await.map_err(|failure| failure.into_error(connector))?;
        let wanted = format!("queue://{queue}");
        let mut found = None;
        loop {
            let answer =
                self.answers.recv().await.ok_or_else(|| connector.unavailable("the connection is gone"))?;
            let numbers = read(&answer.body);
            match numbers.0.get("destinationName").and_then(Json::as_str) {
                Some(name) if name == wanted => found = Some(numbers),
                Some(_) => {}
                None => return Ok(found),
            }
        }
    }
}

/// `{"map":{"entry":[{"string":["destinationName","queue://q"]},{"string":"size","long":3}]}}`, as the broker's
/// library writes a map.
fn read(body: &[u8]) -> Numbers {
    let parsed: Json = serde_json::from_slice(body).unwrap_or_default();
    let entries = parsed.get("map").and_then(|map| map.get("entry"));
    let mut numbers = Map::new();
    for entry in entries.and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_object) {
        match entry.get("string") {
            Some(Json::Array(pair)) => {
                if let [Json::String(name), value] = &pair[..] {
                    numbers.insert(name.clone(), value.clone());
                }
            }
            Some(Json::String(name)) => {
                if let Some((_, value)) = entry.iter().find(|(kind, _)| *kind != "string") {
                    numbers.insert(name.clone(), value.clone());
                }
            }
            Some(_) | None => {}
        }
    }
    Numbers(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_map_of_the_plugin_is_read_and_rubbish_is_empty() {
        let body =
            br#"{"map":{"entry":[{"string":["destinationName","queue://q"]},{"string":"size","long":3},
            {"string":"averageEnqueueTime","double":0.5}]}}"#;
        let numbers = read(body);
        assert_eq!(numbers.number("size"), Some(3));
        assert_eq!(numbers.0.get("destinationName").and_then(Json::as_str), Some("queue://q"));
        for rubbish in [&b""[..], b"{\"map\":[]}", b"\xff", b"{\"map\":{\"entry\":{\"string\":3}}}"] {
            assert_eq!(read(rubbish), Numbers::default());
        }
    }
}
