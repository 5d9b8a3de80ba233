//! Messages of a replay as the queue sees them: when each came, and how many fall together.
//!
//! A message counts from when the broker says that it took it, where brokers stamp (Kafka's append to the log, NATS, Redis, SQS):
//! a consumer takes what lies there in heaps, SQS up to ten at a time, and a heap is not the replay's doing. RabbitMQ does not
//! stamp, so there it counts when it arrives at a consumer.

use std::time::{Duration, SystemTime};

use dlo_core::broker::{Destination, Outgoing, Settlement, Source};
use dlo_core::message::{Message, Payload};
use dlo_core::time::Timestamp;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::place::{Place, QUEUE};

/// How long is waited for stragglers after a pause.
const AFTER: Duration = Duration::from_secs(2);
/// What comes within so long came together. It divides a second, and every rate by ten is a whole number.
pub(crate) const TOGETHER: Duration = Duration::from_millis(100);

/// Whose clock a message counts by.
#[derive(Debug, Clone, Copy)]
enum Stamp {
    Broker,
    Arrival,
}

impl Stamp {
    fn of(kind: &str) -> Self {
        if kind == "rabbitmq" { Self::Arrival } else { Self::Broker }
    }
}

/// A consumer of the queue that notes when messages came.
#[derive(Debug)]
pub(crate) struct Watch {
    stop: watch::Sender<bool>,
    seen: JoinHandle<Vec<Timestamp>>,
}

impl Watch {
    pub(crate) async fn begin(kind: &str, place: &Place) -> Self {
        let mut source = place.broker.source(QUEUE, "bench").await.expect("join the queue");
        settle_in(place, &mut source).await;
        let (stop, stopped) = watch::channel(false);
        let seen = tokio::spawn(arrivals(source, Stamp::of(kind), stopped));
        Self { stop, seen }
    }

    /// When each came, in order. Whatever sends was told to stop by now; stragglers are waited for.
    pub(crate) async fn end(self) -> Vec<Timestamp> {
        tokio::time::sleep(AFTER).await;
        let _ = self.stop.send(true);
        self.seen.await.expect("the consumer")
    }
}

/// Takes one message first: a consumer that still looks for its place among others would take what gathered meanwhile as one
/// heap, and that is not the replay's doing.
async fn settle_in(place: &Place, source: &mut Box<dyn Source>) {
    let message = Message { payload: Payload::from("first"), ..Message::default() };
    let outgoing = Outgoing { to: Destination::queue(QUEUE), message, delay: None };
    for result in place.broker.publisher().publish(vec![outgoing]).await {
        result.expect("a message is confirmed");
    }
    let came = source.receive(1, Duration::from_secs(60)).await.expect("the broker is up");
    assert_eq!(came.len(), 1, "the first message did not come");
    let settled = came.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
    source.settler().settle(settled).await.expect("the broker is up");
}

/// By the clock of this machine, which is that of the broker as well.
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("a clock after 1970");
    Timestamp::EPOCH.plus(since)
}

/// When each message came, until it is stopped, in order.
async fn arrivals(
    mut source: Box<dyn Source>,
    stamp: Stamp,
    stopped: watch::Receiver<bool>,
) -> Vec<Timestamp> {
    let settler = source.settler();
    let mut times = Vec::new();
    while !*stopped.borrow() {
        let deliveries = source.receive(1_000, Duration::from_millis(100)).await.expect("the broker is up");
        let now = now();
        times.extend(deliveries.iter().map(|delivery| match stamp {
            Stamp::Broker => delivery.published_at.expect("the broker stamps"),
            Stamp::Arrival => now,
        }));
        let settled: Vec<_> =
            deliveries.into_iter().map(|delivery| delivery.settle(Settlement::Done)).collect();
        if !settled.is_empty() {
            settler.settle(settled).await.expect("the broker is up");
        }
    }
    source.close().await.expect("leave the queue");
    // Partitions are read side by side.
    times.sort_unstable();
    times
}

/// How many came from then on, for so long.
pub(crate) fn within(arrivals: &[Timestamp], from: Timestamp, span: Duration) -> u64 {
    let before = |at: Timestamp| arrivals.partition_point(|other| *other < at);
    (before(from.plus(span)) - before(from)) as u64
}

/// The most arrivals in any span of this length that begins with one, and when that is.
pub(crate) fn fullest(arrivals: &[Timestamp], span: Duration) -> Option<(u64, Timestamp)> {
    arrivals.iter().map(|at| (within(arrivals, *at, span), *at)).max_by_key(|(count, _)| *count)
}

/// The mean rate, from the first to the last.
pub(crate) fn mean(arrivals: &[Timestamp]) -> f64 {
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else { return 0.0 };
    (arrivals.len() - 1) as f64 / last.since(*first).as_secs_f64()
}

/// How far the mean lies from the rate, percent.
pub(crate) fn error_of_mean(arrivals: &[Timestamp], rate: u64) -> f64 {
    (mean(arrivals) / rate as f64 - 1.0).abs() * 100.0
}

/// Messages of the fullest tenth of a second beyond a tenth of the rate.
pub(crate) fn beyond(arrivals: &[Timestamp], rate: u64) -> f64 {
    let in_tenth = fullest(arrivals, TOGETHER).map_or(0, |(count, _)| count);
    (in_tenth as f64 - rate as f64 * TOGETHER.as_secs_f64()).max(0.0)
}

/// What any second may hold: two percent over the rate, in whole messages. Below fifty there are no two percent to see, and at
/// fifty they are one message: a second that begins with an arrival and ends just behind another has that one too many.
pub(crate) fn most_in_a_second(rate: u64) -> u64 {
    rate + spare(rate)
}

/// What a second of a replay holds that keeps its rate: as much less.
pub(crate) fn least_in_a_second(rate: u64) -> u64 {
    rate.saturating_sub(spare(rate))
}

fn spare(rate: u64) -> u64 {
    (rate * 2 / 100).max(1)
}
