//! The least that consumes from RabbitMQ: a window of 500, one acknowledgement for all of it, poison published to the
//! dead-letter queue and confirmed before that. No deadline, no retry, no record, no classification.

use std::time::Instant;

use futures::StreamExt;
use lapin::options::{
    BasicAckOptions, BasicConsumeOptions, BasicPublishOptions, BasicQosOptions, ConfirmSelectOptions,
};
use lapin::types::FieldTable;
use lapin::{Channel, Connection, ConnectionProperties};

use crate::child::Done;
use crate::order;

const WINDOW: u64 = 500;

async fn channel(url: &str) -> Channel {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connect");
    connection.create_channel().await.expect("a channel")
}

pub(crate) async fn consume(url: &str, queue: &str, count: u64) -> Done {
    let (channel, out) = (channel(url).await, channel(url).await);
    out.confirm_select(ConfirmSelectOptions::default()).await.expect("confirms");
    channel.basic_qos((4 * WINDOW) as u16, BasicQosOptions::default()).await.expect("prefetch");
    let mut consumer = channel
        .basic_consume(queue.into(), "bare".into(), BasicConsumeOptions::default(), FieldTable::default())
        .await
        .expect("consume");
    let dead = format!("{queue}.dlq");
    let (mut began, mut parked, mut confirms) = (None, 0, Vec::new());
    for got in 1..=count {
        let delivery = consumer.next().await.expect("a delivery").expect("the broker is up");
        began.get_or_insert_with(Instant::now);
        if order::is_poison(&delivery.data) {
            let properties = delivery.properties.clone();
            let sent = out
                .basic_publish(
                    "".into(),
                    dead.as_str().into(),
                    BasicPublishOptions::default(),
                    &delivery.data,
                    properties,
                )
                .await;
            confirms.push(sent.expect("publish"));
            parked += 1;
        }
        if got % WINDOW == 0 || got == count {
            for confirm in confirms.drain(..) {
                confirm.await.expect("confirmed");
            }
            channel.basic_ack(delivery.delivery_tag, BasicAckOptions { multiple: true }).await.expect("ack");
        }
    }
    channel.close(200, "done".into()).await.expect("close");
    Done::now(count - parked, parked, began.expect("there was a message"))
}
