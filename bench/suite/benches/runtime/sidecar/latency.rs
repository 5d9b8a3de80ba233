//! What a sidecar adds to the age of a message, at half of what it can do while messages are published on the same machine.
//!
//! Each message goes to two queues. A bare loop takes it off one, and the handler behind the sidecar gets it by way of the
//! other; how much later that is, is counted message by message, so that what holds up publisher or server is in both. The loop
//! that only pushes stands in the sidecar's place in turn, which is what HTTP takes by itself, and a second bare loop, which is how much
//! two queues of one server differ.

use std::collections::HashMap;
use std::process::Command;
use std::time::Duration;

use lapin::ExchangeKind;
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::FieldTable;

use super::handler::{Handler, Manner};
use super::{Bench, CONNECTIONS, QUEUE, pace};
use crate::Asked;
use crate::measure::Median;
use crate::peer::Worker;
use crate::rabbitmq::look;
use crate::record;

/// What both queues get.
const EXCHANGE: &str = "twins";
/// The queue of the bare loop.
const TWIN: &str = "orders.twin";

/// Milliseconds that messages came later, of each round.
#[derive(Default)]
struct Later {
    p50: Vec<f64>,
    p99: Vec<f64>,
}

impl Later {
    fn note(&mut self, later: &mut [f64], counts: bool) {
        later.sort_unstable_by(f64::total_cmp);
        let [p50, p99] = [0.50, 0.99].map(|share| later[(later.len() as f64 * share) as usize]);
        println!("    {p50:.2} ms, p99 {p99:.2} ms{}", if counts { "" } else { " (warm-up, not counted)" });
        if counts {
            self.p50.push(p50);
            self.p99.push(p99);
        }
    }

    fn record(self, p50: &str, p99: &str) {
        record::figure(p50, "ms", Median::of(self.p50));
        record::figure(p99, "ms", Median::of(self.p99));
    }
}

pub(super) async fn run(bench: &Bench<'_>, asked: &Asked<'_>) {
    bench.bind_twins().await;
    let rate = bench.sustained(asked.messages).await / 2.0;
    println!(" latency added at {rate:.0} messages/s");
    let count = (rate * pace::SECONDS) as u64;
    let (mut ours, mut push, mut nothing) = (Later::default(), Later::default(), Later::default());
    for round in 0..=asked.rounds {
        let by_ours = |port| bench.ours(port, CONNECTIONS.into(), 1);
        println!("  dlo consume");
        ours.note(&mut bench.added(by_ours, rate, count).await, round > 0);
        println!("  the loop that only pushes");
        push.note(&mut bench.added(|port| bench.push(port, CONNECTIONS), rate, count).await, round > 0);
        println!("  a second bare loop");
        let mut second = Handler::bare(&bench.url, QUEUE, count);
        nothing.note(&mut bench.paced(&mut second, rate, count).await, round > 0);
    }
    ours.record("sidecar.p50", "sidecar.p99");
    push.record("sidecar.push-p50", "sidecar.push-p99");
    nothing.record("sidecar.twin-p50", "sidecar.twin-p99");
}

impl Bench<'_> {
    async fn bind_twins(&self) {
        let (none, channel) = (FieldTable::default, &self.channel);
        let durable = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        channel.queue_declare(TWIN.into(), durable, none()).await.expect("declare");
        let options = ExchangeDeclareOptions::default();
        channel
            .exchange_declare(EXCHANGE.into(), ExchangeKind::Fanout, options, none())
            .await
            .expect("an exchange");
        for queue in [QUEUE, TWIN] {
            let options = QueueBindOptions::default();
            channel
                .queue_bind(queue.into(), EXCHANGE.into(), "".into(), options, none())
                .await
                .expect("bind");
        }
    }

    /// Messages a second that we take while as many are published, and the twin is there.
    async fn sustained(&self, messages: u64) -> f64 {
        let mut handler = Handler::start(messages, Manner::Single);
        let _worker = Worker::start(&mut self.ours(handler.port, CONNECTIONS.into(), 1));
        let mut twin = Handler::bare(&self.url, TWIN, messages);
        self.consumed().await;
        pace::keep_up(&self.channel, EXCHANGE, messages).await;
        tokio::task::block_in_place(|| twin.wait());
        let spent = tokio::task::block_in_place(|| handler.wait());
        messages as f64 / spent.as_secs_f64()
    }

    /// Milliseconds by which the handler of a sidecar has each message later than the bare loop.
    async fn added(&self, sidecar: impl FnOnce(u16) -> Command, rate: f64, count: u64) -> Vec<f64> {
        let mut handler = Handler::start(count, Manner::Noting);
        let _worker = Worker::start(&mut sidecar(handler.port));
        self.paced(&mut handler, rate, count).await
    }

    async fn paced(&self, handler: &mut Handler, rate: f64, count: u64) -> Vec<f64> {
        let mut twin = Handler::bare(&self.url, TWIN, count);
        self.consumed().await;
        pace::publish(&self.channel, EXCHANGE, rate, count).await;
        let [theirs, ours] = [&mut twin, handler].map(|one| {
            tokio::task::block_in_place(|| {
                one.wait();
                one.moments()
            })
        });
        assert_eq!((ours.len() as u64, theirs.len() as u64), (count, count), "everybody had every message");
        later(&ours, &theirs)
    }

    /// Waits until somebody consumes each queue.
    async fn consumed(&self) {
        for queue in [QUEUE, TWIN] {
            while look(&self.channel, queue).await.consumer_count() != 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }
}

/// By message, in milliseconds; less than nothing where ours was first.
fn later(ours: &HashMap<u64, u64>, theirs: &HashMap<u64, u64>) -> Vec<f64> {
    let millis = |(published, at): (&u64, &u64)| (*at as f64 - theirs[published] as f64) / 1_000.0;
    ours.iter().map(millis).collect()
}
