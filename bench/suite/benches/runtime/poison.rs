//! W11: what a growing share of poison costs our runtime on RabbitMQ. A poisoned message is delivered to the handler three
//! times before it is parked: fewer messages a second are handled, but not fewer deliveries.
//!
//! No budget holds retries back, and the queue ends in healthy messages, as in W6.

use dlo_testkit::harness::rabbitmq::Rabbitmq;

use crate::child::Done;
use crate::measure::{Median, per_second};
use crate::rabbitmq::Bench;
use crate::runner::{self, Round, Runner};
use crate::settings::ATTEMPTS;
use crate::{Asked, record};

/// In percent. All are held against the first.
const SHARES: [u64; 6] = [0, 1, 5, 10, 25, 50];

pub(crate) async fn run(asked: &Asked<'_>) {
    println!("W11 poison on RabbitMQ, {} messages, {} rounds", asked.messages, asked.rounds);
    let server = Rabbitmq::own().await;
    let bench = Bench::new(server.url(), None).await;
    let mut all = SHARES.map(Share::new);
    for round in 0..=asked.rounds {
        for share in &mut all {
            let done = bench.boundless(asked.messages, share.percent).await;
            // The first round warms everything up and does not count.
            if round > 0 {
                share.did(&done);
            }
        }
    }
    for share in &all {
        runner::show("W11", "RabbitMQ, deliveries to the handler", &[&share.runner]);
    }
    let [none, some @ ..] = &all;
    let mut changes = record::Parts::new("growth.poison", "%");
    for share in some {
        let change = Median::paired(&share.rates, &none.rates).middle - 1.0;
        println!("  at {} % poison, to none: {:+.1} %", share.percent, change * 100.0);
        changes.part(&format!("{} % poison", share.percent), change.abs() * 100.0);
    }
    changes.worst();
}

struct Share {
    percent: u64,
    runner: Runner,
    /// Deliveries a second, round by round.
    rates: Vec<f64>,
}

impl Share {
    fn new(percent: u64) -> Self {
        Self { percent, runner: Runner::new(format!("ours, {percent} % poison")), rates: Vec::new() }
    }

    /// The runner itself has seen that its handler was asked as often.
    fn did(&mut self, done: &Done) {
        let deliveries = done.handled + u64::from(ATTEMPTS) * done.parked;
        self.rates.push(per_second(deliveries, done.spent));
        self.runner.did(Round { messages: deliveries, ..Round::from(done) });
    }
}
