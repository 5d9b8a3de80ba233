//! What should be there for one queue: the queue and its dead-letter queue.
//!
//! A queue is created by a browser, which takes nothing. Which dead-letter queue the broker itself uses stands in its
//! own configuration and cannot be read over STOMP; the plan holds the lines that belong there.

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Topology, TopologyChange, TopologySpec};
use tokio::sync::mpsc;

use super::connection::Connector;
use super::frame::Frame;
use super::message::queue;
use super::statistics::Statistics;

#[derive(Debug)]
pub(super) struct StompTopology {
    pub(super) connector: Arc<Connector>,
    pub(super) statistics: Option<Arc<Statistics>>,
}

#[async_trait]
impl Topology for StompTopology {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let Some(statistics) = &self.statistics else {
            let what = format!("whether `{}` and `{}` are there cannot be told", spec.queue, spec.dlq);
            return Ok(vec![TopologyChange::warn(what).by("<plugins><statisticsBrokerPlugin/></plugins>")]);
        };
        let mut plan = Vec::new();
        if statistics.of(&spec.queue).await?.is_none() {
            plan.push(TopologyChange::create(format!("queue `{}`", spec.queue)));
        }
        if statistics.of(&spec.dlq).await?.is_none() {
            plan.push(TopologyChange::create(format!("queue `{}`", spec.dlq)).by(policy(spec)));
        }
        Ok(plan)
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let plan = self.plan(spec).await?;
        let (line, connector) = {
            let (messages, _) = mpsc::unbounded_channel();
            (self.connector.open(messages).await?, &self.connector)
        };
        for name in [&spec.queue, &spec.dlq] {
            if let Some(statistics) = &self.statistics
                && statistics.of(name).await?.is_some()
            {
                continue;
            }
            let browse = Frame::new("SUBSCRIBE")
                .with("id", name.clone())
                .with("destination", queue(name))
                .with("ack", "auto")
                .with("browser", "true");
            let leave = Frame::new("UNSUBSCRIBE").with("id", name.clone());
            line.tell(vec![browse]).await.map_err(|failure| failure.into_error(connector))?;
            line.tell(vec![leave]).await.map_err(|failure| failure.into_error(connector))?;
        }
        Ok(plan.into_iter().filter(|change| change.appliable).collect())
    }
}

/// What belongs into activemq.xml, so that the broker's own dead letters of the queue go there.
fn policy(spec: &TopologySpec) -> String {
    let strategy = match spec.dlq.strip_suffix(&spec.queue) {
        Some(prefix) => format!(
            "<individualDeadLetterStrategy queuePrefix=\"{prefix}\" useQueueForQueueMessages=\"true\"/>"
        ),
        None => match spec.dlq.strip_prefix(&spec.queue) {
            Some(suffix) => {
                format!("<individualDeadLetterStrategy queuePrefix=\"\" queueSuffix=\"{suffix}\"/>")
            }
            None => format!(
                "<sharedDeadLetterStrategy><deadLetterQueue><queue physicalName=\"{}\"/></deadLetterQueue>\
                 </sharedDeadLetterStrategy>",
                spec.dlq
            ),
        },
    };
    format!(
        "<policyEntry queue=\"{}\"><deadLetterStrategy>{strategy}</deadLetterStrategy></policyEntry>",
        spec.queue
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_fits_the_name_of_the_dead_letter_queue() {
        let line = |dlq: &str| policy(&TopologySpec::new("orders", dlq, 5));
        assert!(line("DLQ.orders").contains("queuePrefix=\"DLQ.\""));
        assert!(line("orders.dlq").contains("queueSuffix=\".dlq\""));
        assert!(line("ActiveMQ.DLQ").contains("physicalName=\"ActiveMQ.DLQ\""));
    }
}
