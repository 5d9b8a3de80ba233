//! RabbitMQ: what waits stands in the retry queue.

use std::time::Duration;

use dlo_core::broker::TopologySpec;
use dlo_testkit::harness::rabbitmq::Rabbitmq;

use crate::Figures;
use crate::waiting::{DELAY, QUEUE, broker, put_off};

pub(crate) async fn run(messages: u64, figures: &mut Figures) {
    println!("RabbitMQ, {messages} delayed retries outstanding");
    let server = Rabbitmq::own().await;
    let broker = broker(&format!("kind = \"rabbitmq\"\nurl = \"{}\"", server.url())).await;
    let spec =
        TopologySpec { retry_delays: vec![DELAY], ..TopologySpec::new(QUEUE, format!("{QUEUE}.dlq"), 5) };
    broker.topology().apply(&spec).await.expect("make the queues");
    let outstanding = put_off(&broker, messages).await;
    let (queue, inspector) = (format!("{QUEUE}.retry.10m"), broker.inspector());
    let mut counted = 0;
    // A quorum queue counts a moment after it confirmed.
    for _ in 0..50 {
        counted = inspector.inspect(&queue, None).await.expect("look at the queue").depth.unwrap_or(0);
        if counted == messages {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    outstanding.show(&broker, "RabbitMQ", figures, counted).await;
}
