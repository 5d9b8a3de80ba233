//! Messages at an even pace, or as fast as they are taken, each with the moment of its publish, to every queue of an exchange.

use std::time::Duration;

use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel};
use tokio::time::{Instant, MissedTickBehavior};

use super::{QUEUE, age};
use crate::rabbitmq::look;

/// How long a paced run lasts.
pub(crate) const SECONDS: f64 = 5.0;
const TICK: Duration = Duration::from_millis(1);

/// Messages between two looks at the queue, and how many may wait in it.
const LOOK: u64 = 500;
const AHEAD: u32 = 1_000;

/// Publishes `count` messages as fast as they are taken: the queue stays short.
pub(crate) async fn keep_up(channel: &Channel, exchange: &str, count: u64) {
    for sent in 0..count {
        if sent % LOOK == 0 {
            while look(channel, QUEUE).await.message_count() >= AHEAD {
                tokio::time::sleep(TICK).await;
            }
        }
        send(channel, exchange).await;
    }
}

async fn send(channel: &Channel, exchange: &str) {
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let (options, body) = (BasicPublishOptions::default(), age::stamped());
    channel.basic_publish(exchange.into(), "".into(), options, &body, persistent).await.expect("publish");
}

/// Publishes `count` messages, as many at each tick as are due by then.
pub(crate) async fn publish(channel: &Channel, exchange: &str, rate: f64, count: u64) {
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let began = Instant::now();
    let mut sent = 0;
    while sent < count {
        ticks.tick().await;
        let due = (began.elapsed().as_secs_f64() * rate) as u64;
        while sent < due.min(count) {
            send(channel, exchange).await;
            sent += 1;
        }
    }
}
