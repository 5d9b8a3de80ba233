//! A queue seen by itself: everything in it, and nothing left for the next round.

use std::time::Duration;

use dlo_core::broker::Settlement;
use dlo_core::message::Message;
use lapin::options::{QueueDeclareOptions, QueuePurgeOptions};
use lapin::types::FieldTable;
use lapin::{Connection, ConnectionProperties};

use crate::office::number_behind;
use crate::place::Place;

const AT_ONCE: usize = 1_000;
const WAIT: Duration = Duration::from_millis(500);

/// The number that a message carries.
pub(crate) fn number(message: &Message) -> u64 {
    number_behind(&String::from_utf8_lossy(&message.payload.0), "\"id\":")
}

/// Takes everything out of a queue that nobody writes to any more.
pub(crate) async fn take(place: &Place, queue: &str, mut each: impl FnMut(&Message)) {
    let mut source = place.broker.source(queue, "bench").await.expect("join the queue");
    let settler = source.settler();
    let mut quiet = 0;
    loop {
        let deliveries = source.receive(AT_ONCE, WAIT).await.expect("the broker is up");
        // A stream keeps what was taken, so that its length says nothing: who is asked twice and has nothing is empty.
        quiet = if deliveries.is_empty() { quiet + 1 } else { 0 };
        if quiet == 2 {
            break;
        }
        deliveries.iter().for_each(|delivery| each(&delivery.message));
        let settled: Vec<_> =
            deliveries.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
        settler.settle(settled).await.expect("the broker is up");
    }
    source.close().await.expect("leave the queue");
}

/// Waits until nobody consumes a queue of RabbitMQ any more, by which it has back what was not settled, and empties it.
/// How many were left.
pub(crate) async fn purge(url: &str, queue: &str) -> u64 {
    let connection = Connection::connect(url, ConnectionProperties::default()).await.expect("connect");
    let channel = connection.create_channel().await.expect("a channel");
    let passive = QueueDeclareOptions { passive: true, ..QueueDeclareOptions::default() };
    loop {
        let state = channel.queue_declare(queue.into(), passive, FieldTable::default()).await;
        if state.expect("the queue is there").consumer_count() == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    channel.queue_purge(queue.into(), QueuePurgeOptions::default()).await.expect("purge").into()
}
