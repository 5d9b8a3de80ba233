//! Handlers that take their time, with 256 requests in flight: how much is left of what such a handler allows at most, by
//! `dlo consume` and by the bare loop, which says what the machine allows.

use std::time::Duration;

use super::Bench;
use super::handler::Handler;
use crate::Asked;
use crate::measure::Median;
use crate::record;
use crate::runner::{self, Runner};

const IN_FLIGHT: u16 = 256;
/// The handler of the figure.
const JUDGED: Duration = Duration::from_millis(10);

struct Slow {
    takes: Duration,
    messages: u64,
    ours: Runner,
    bare: Runner,
    /// Our rates as shares of the most.
    shares: Vec<f64>,
}

impl Slow {
    fn new(millis: u64, messages: u64) -> Self {
        let takes = Duration::from_millis(millis);
        let messages = messages.max(1_000);
        let (ours, bare) = (Runner::new("dlo consume"), Runner::new("bare loop"));
        Self { takes, messages, ours, bare, shares: Vec::new() }
    }

    /// Messages a second that the handler allows.
    fn most(&self) -> f64 {
        f64::from(IN_FLIGHT) / self.takes.as_secs_f64()
    }

    async fn round(&mut self, bench: &Bench<'_>, counts: bool) {
        let handler = || Handler::slow(self.messages, self.takes);
        let ours = |port| bench.ours(port, IN_FLIGHT.into(), 1);
        let ours = bench.one(handler(), ours, self.messages).await;
        let bare = bench.one(handler(), |port| bench.push(port, IN_FLIGHT), self.messages).await;
        if counts {
            self.shares.push(ours.rate() / self.most());
            self.ours.did(&ours);
            self.bare.did(&bare);
        }
    }

    fn show(&self) {
        let millis = self.takes.as_millis();
        println!(" a handler of {millis} ms, {IN_FLIGHT} in flight, {:.0} messages/s at most", self.most());
        let contest = format!("RabbitMQ to a handler of {millis} ms");
        runner::show("W8", &contest, &[&self.ours, &self.bare]);
        self.ours.beside(&self.bare);
        let share = Median::of(self.shares.clone());
        if self.takes == JUDGED {
            record::figure("sidecar.slow-handler", "x", share);
        } else {
            println!("  to the most that it allows: {share}");
        }
    }
}

pub(super) async fn run(bench: &Bench<'_>, asked: &Asked<'_>) {
    let messages = asked.messages;
    // As many as take about as long.
    let mut all = [Slow::new(1, messages / 2), Slow::new(10, messages), Slow::new(100, messages / 4)];
    for round in 0..=asked.rounds {
        for slow in &mut all {
            // The first round warms everything up and does not count.
            slow.round(bench, round > 0).await;
        }
    }
    all.iter().for_each(Slow::show);
}
