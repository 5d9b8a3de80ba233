//! Rounds of several runners at one share of poison, and the lines that come of them.

use crate::child::Done;
use crate::measure::{self, Median, per_second};

/// How one runner did, round by round.
#[derive(Debug)]
pub(crate) struct Runner {
    name: String,
    rates: Vec<f64>,
    /// Microseconds of the client's processor for each message.
    cpu: Vec<f64>,
    peak_mb: Vec<f64>,
}

impl Runner {
    pub(crate) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), rates: Vec::new(), cpu: Vec::new(), peak_mb: Vec::new() }
    }

    pub(crate) fn did(&mut self, done: &Done) {
        let messages = done.handled + done.parked;
        self.rates.push(per_second(messages, done.spent));
        self.cpu.push(done.usage.cpu.as_secs_f64() * 1e6 / messages as f64);
        self.peak_mb.push(done.usage.peak_mb);
    }

    pub(crate) fn show(&self) {
        let [rate, cpu, peak] = [&self.rates, &self.cpu, &self.peak_mb].map(|all| Median::of(all.clone()));
        println!(
            "  {:<34} {:>8.0} messages/s ({:.0} to {:.0}), {:.1} us of client CPU each, peak {:.0} MB",
            self.name, rate.middle, rate.low, rate.high, cpu.middle, peak.middle
        );
    }

    /// The median of the paired ratios of the rates, beside its bar.
    pub(crate) fn against(&self, other: &Self, bar: f64) {
        verdict(&self.name, &other.name, paired(&self.rates, &other.rates), Bar::AtLeast(bar));
    }

    /// The same where nothing is demanded.
    pub(crate) fn beside(&self, other: &Self) {
        println!("  {}/{} {}", self.name, other.name, paired(&self.rates, &other.rates));
    }

    pub(crate) fn rate(&self) -> f64 {
        Median::of(self.rates.clone()).middle
    }

    /// Peak memory in megabytes.
    pub(crate) fn weighs(&self, bar: f64) {
        let peak = Median::of(self.peak_mb.clone());
        measure::bar(&format!("peak memory of {}, MB", self.name), peak.middle, bar, false);
    }

    /// Memory as a share of another's.
    pub(crate) fn weighs_of(&self, other: &Self, bar: f64) {
        let ratio = paired(&self.peak_mb, &other.peak_mb);
        verdict(&format!("memory of {}", self.name), &other.name, ratio, Bar::AtMost(bar));
    }
}

/// What is demanded of a figure.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Bar {
    AtLeast(f64),
    AtMost(f64),
}

fn paired(ours: &[f64], theirs: &[f64]) -> Median {
    Median::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
}

fn verdict(ours: &str, theirs: &str, figure: Median, bar: Bar) {
    println!("  {ours}/{theirs} {figure}, {}", bar.judge(figure.middle));
}

impl Bar {
    /// `bar 2: met`.
    pub(crate) fn judge(self, figure: f64) -> String {
        let (met, words) = match self {
            Self::AtLeast(bar) => (figure >= bar, format!("bar at least {bar}")),
            Self::AtMost(bar) => (figure <= bar, format!("bar at most {bar}")),
        };
        format!("{words}: {}", if met { "met" } else { "NOT MET" })
    }
}
