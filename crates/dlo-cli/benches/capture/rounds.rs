//! Rounds of several runners, and the table that comes of them.

use std::time::Duration;

use crate::measure::{Median, bar, per_second};

/// How one runner did, round by round.
#[derive(Debug)]
pub(crate) struct Runner {
    pub(crate) name: &'static str,
    rates: Vec<f64>,
    peak_mb: f64,
}

impl Runner {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, rates: Vec::new(), peak_mb: f64::NAN }
    }

    pub(crate) fn took(&mut self, count: u64, spent: Duration) {
        self.rates.push(per_second(count, spent));
    }

    pub(crate) fn weighed(&mut self, megabytes: f64) {
        self.peak_mb = self.peak_mb.max(megabytes);
    }

    fn show(&self) {
        let rate = Median::of(self.rates.clone());
        let memory =
            if self.peak_mb.is_nan() { String::new() } else { format!(", peak {:.0} MB", self.peak_mb) };
        println!(
            "  {:<28} {:>9.0} letters/s ({:.0} to {:.0}){memory}",
            self.name, rate.middle, rate.low, rate.high
        );
    }

    /// The median of the paired ratios to another runner, beside its bar.
    pub(crate) fn against(&self, other: &Self, at_least: f64) {
        let ratios = self.rates.iter().zip(&other.rates).map(|(ours, theirs)| ours / theirs).collect();
        let ratio = Median::of(ratios);
        println!("  ratio to {}: {ratio}", other.name);
        bar(&format!("{} to {}", self.name, other.name), ratio.middle, at_least, true);
    }

    pub(crate) fn within(&self, megabytes: f64) {
        bar("peak memory of the office, MB", self.peak_mb, megabytes, false);
    }
}

/// A line for each.
pub(crate) fn show(runners: &[&Runner]) {
    for runner in runners {
        runner.show();
    }
}
