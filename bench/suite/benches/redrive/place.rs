//! Where a round takes place: a broker with a queue and a dead-letter queue, counted and emptied between runs.

use std::sync::Arc;

use dlo_core::broker::{Broker, TopologySpec};

pub(crate) const QUEUE: &str = "orders";
/// A name that every broker takes: SQS has no dots.
pub(crate) const DEAD: &str = "orders-dlq";

pub(crate) struct Place {
    /// What `[brokers.x]` says.
    pub(crate) section: String,
    pub(crate) broker: Arc<dyn Broker>,
}

impl Place {
    /// Reaches the broker and makes both queues.
    pub(crate) async fn new(section: String) -> Self {
        let config: dlo_brokers::BrokerConfig = toml::from_str(&section).expect("settings of a broker");
        let clock = Arc::new(dlo_testkit::clock::TokioClock::new());
        let broker = dlo_brokers::connect(&config, clock).await.expect("a broker");
        let spec = TopologySpec { partitions: Some(6), ..TopologySpec::new(QUEUE, DEAD, 5) };
        broker.topology().apply(&spec).await.expect("make the queues");
        Self { section, broker }
    }

    /// Messages that a queue holds.
    pub(crate) async fn depth(&self, queue: &str) -> u64 {
        let state = self.broker.inspector().inspect(queue, None).await.expect("look at the queue");
        state.depth.expect("the broker counts")
    }

    /// Messages that a log ever had.
    pub(crate) async fn ends(&self, queue: &str) -> u64 {
        let ends = self.broker.ends(queue).await.expect("the ends of the log");
        ends.iter().map(|end| end.next.unsigned_abs()).sum()
    }
}
