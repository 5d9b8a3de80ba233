//! Kafka: what waits stands in the group's retry topic.

use dlo_core::broker::TopologySpec;
use dlo_testkit::harness::kafka::Kafka;

use crate::Figures;
use crate::waiting::{DELAY, GROUP, QUEUE, broker, put_off};

pub(crate) async fn run(messages: u64, figures: &mut Figures) {
    println!("Kafka, {messages} delayed retries outstanding");
    let server = Kafka::in_earnest().await;
    let broker = broker(&format!("kind = \"kafka\"\nbootstrap = \"{}\"", server.bootstrap)).await;
    let spec = TopologySpec {
        partitions: Some(6),
        retry_delays: vec![DELAY],
        group: Some(GROUP.to_owned()),
        ..TopologySpec::new(QUEUE, format!("{QUEUE}.dlq"), 5)
    };
    broker.topology().apply(&spec).await.expect("make the topics");
    let outstanding = put_off(&broker, messages).await;
    let topic = format!("{QUEUE}.retry.{GROUP}.10m");
    let state = broker.inspector().inspect(&topic, Some(GROUP)).await.expect("look at the topic");
    outstanding.show(&broker, "Kafka", figures, state.depth.unwrap_or(0)).await;
}
