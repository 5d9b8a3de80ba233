//! Messages at an even pace, each with the moment of its publish.

use std::time::Duration;

use lapin::options::BasicPublishOptions;
use lapin::{BasicProperties, Channel};
use tokio::time::{Instant, MissedTickBehavior};

use super::age;

/// How long a paced run lasts.
pub(crate) const SECONDS: f64 = 5.0;
const TICK: Duration = Duration::from_millis(1);

/// Publishes `count` messages, as many at each tick as are due by then.
pub(crate) async fn publish(channel: &Channel, queue: &str, rate: f64, count: u64) {
    let persistent = BasicProperties::default().with_delivery_mode(2);
    let mut ticks = tokio::time::interval(TICK);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let began = Instant::now();
    let mut sent = 0;
    while sent < count {
        ticks.tick().await;
        let due = (began.elapsed().as_secs_f64() * rate) as u64;
        while sent < due.min(count) {
            let options = BasicPublishOptions::default();
            let body = age::stamped();
            let sending = channel.basic_publish("".into(), queue.into(), options, &body, persistent.clone());
            sending.await.expect("publish");
            sent += 1;
        }
    }
}
