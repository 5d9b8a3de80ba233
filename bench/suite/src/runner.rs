//! Runners of a contest: who did how much in how long, round by round, and the lines that come of it.
//!
//! Runners take turns, so the ratio of two is the median of the ratios of the same rounds. Processor time hardly moves with
//! what else the machine does, and stands beside the rates where it was taken.

use std::time::Duration;

use super::lines::Took;
use super::measure::{Median, per_second};
use super::record;

/// One round of one runner.
#[derive(Debug, Clone, Copy)]
pub struct Round {
    pub messages: u64,
    pub spent: Duration,
    /// Processor time of the runner.
    pub client: Option<Duration>,
    /// Processor time of the servers meanwhile.
    pub server: Option<Duration>,
    /// Of the runner.
    pub peak_mb: Option<f64>,
}

/// How one runner did, round by round.
#[derive(Debug)]
pub struct Runner {
    name: String,
    rates: Vec<f64>,
    /// Microseconds for each message.
    client: Vec<f64>,
    server: Vec<f64>,
    peak_mb: Vec<f64>,
}

impl Runner {
    pub fn new(name: impl Into<String>) -> Self {
        let (rates, client, server, peak_mb) = Default::default();
        Self { name: name.into(), rates, client, server, peak_mb }
    }

    pub fn did(&mut self, round: impl Into<Round>) {
        let round = round.into();
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / round.messages as f64;
        let rate = per_second(round.messages, round.spent);
        self.rates.push(rate);
        // For whoever waits: a whole run takes minutes, and what counts comes at its end.
        println!("    round {}: {}, {rate:.0}/s", self.rates.len(), self.name);
        self.client.extend(round.client.map(each));
        self.server.extend(round.server.map(each));
        self.peak_mb.extend(round.peak_mb.filter(|peak| peak.is_finite()));
    }

    /// A round of which nothing is known but its time.
    pub fn took(&mut self, messages: u64, spent: Duration) {
        self.did(Round { messages, spent, client: None, server: None, peak_mb: None });
    }

    pub fn rate(&self) -> f64 {
        Median::of(self.rates.clone()).middle
    }

    fn sum(&self) -> Took {
        let taken = |all: &[f64]| (!all.is_empty()).then(|| Median::of(all.to_vec()));
        Took {
            rate: Median::of(self.rates.clone()),
            client_us: taken(&self.client),
            server_us: taken(&self.server),
            peak_mb: taken(&self.peak_mb),
        }
    }

    /// The figure `id`: the rate as a ratio to another's.
    pub fn against(&self, other: &Self, id: &str) {
        record::figure(id, "x", Median::paired(&self.rates, &other.rates));
    }

    /// The same where it is no figure of the book, only of this run.
    pub fn beside(&self, other: &Self) {
        println!("  {}/{} {}", self.name, other.name, Median::paired(&self.rates, &other.rates));
    }

    /// The figure `id`: the highest peak of memory of all rounds.
    pub fn weighs(&self, id: &str) {
        if let Some(peak) = self.peak_mb.iter().copied().reduce(f64::max) {
            record::figure(id, "MB", Median::once(peak));
        }
    }

    /// The figure `id`: memory as a share of another's.
    pub fn weighs_of(&self, other: &Self, id: &str) {
        record::figure(id, "x", Median::paired(&self.peak_mb, &other.peak_mb));
    }

    /// The figure `id`: microseconds of the runner's processor for each message.
    pub fn costs(&self, id: &str) {
        record::figure(id, "us", Median::of(self.client.clone()));
    }
}

/// A line for each runner of a contest, printed and recorded: `show("W6", "RabbitMQ, 10 % poison", &[&ours, &bare])`.
pub fn show(workload: &str, contest: &str, runners: &[&Runner]) {
    for runner in runners {
        let took = runner.sum();
        let mut line = format!(
            "  {:<34} {:>8.0} messages/s ({:.0} to {:.0})",
            runner.name, took.rate.middle, took.rate.low, took.rate.high
        );
        let mut say = |before: &str, figure: Option<Median>, after: &str| {
            line.extend(figure.map(|figure| format!(", {before}{:.1} {after}", figure.middle)));
        };
        say("", took.client_us, "us of client CPU each");
        say("", took.server_us, "us of server CPU");
        say("peak ", took.peak_mb, "MB");
        println!("{line}");
        record::runner(workload, contest, &runner.name, took);
    }
}
