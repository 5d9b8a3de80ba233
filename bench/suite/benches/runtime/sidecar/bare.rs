//! The least between a queue and whoever wants its messages: takes them off RabbitMQ and notes when. What a sidecar adds is
//! how much later a message reaches the handler.

use std::time::Instant;

use futures::StreamExt;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};

use super::age;

/// Says it is ready, then takes `count` messages and says what a handler would.
pub(crate) async fn consume(url: &str, queue: &str, count: u64) {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connect");
    let channel = connection.create_channel().await.expect("a channel");
    channel.basic_qos(2_000, BasicQosOptions::default()).await.expect("prefetch");
    let mut consumer = channel
        .basic_consume(queue.into(), "bare".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await
        .expect("consume");
    println!("0");
    let (mut began, mut seen) = (None, Vec::new());
    for got in 1..=count {
        let delivery = consumer.next().await.expect("a delivery").expect("the broker is up");
        seen.extend(age::Seen::now(&delivery.data));
        began.get_or_insert_with(Instant::now);
        if got % 100 == 0 || got == count {
            channel.basic_ack(delivery.delivery_tag, BasicAckOptions { multiple: true }).await.expect("ack");
        }
    }
    let spent = began.map_or(f64::NAN, |began| began.elapsed().as_secs_f64());
    println!("{spent}\n{}", age::say(&seen));
    channel.close(200, "done".into()).await.expect("close");
}
