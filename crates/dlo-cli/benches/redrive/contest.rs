//! Rounds of several runners, and the lines that come of them.

use std::time::Duration;

use crate::measure::{Median, bar, per_second};
use crate::usage::Usage;

/// What a runner did, and what it took.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Done {
    pub(crate) moved: u64,
    pub(crate) spent: Duration,
    /// Of the client; nothing where the server does it all.
    pub(crate) client: Usage,
    /// Processor time of the servers meanwhile.
    pub(crate) server: Duration,
}

/// Processor time of everything that this program started, but for the runner.
pub(crate) fn servers(runner: Option<u32>) -> Duration {
    let own = std::process::id();
    let besides = Usage::of(own).cpu + runner.map(|pid| Usage::of_tree(pid).cpu).unwrap_or_default();
    Usage::of_tree(own).cpu.saturating_sub(besides)
}

/// How one runner did, round by round.
#[derive(Debug)]
pub(crate) struct Runner {
    name: &'static str,
    rates: Vec<f64>,
    client: Vec<f64>,
    server: Vec<f64>,
    peak_mb: Vec<f64>,
}

impl Runner {
    pub(crate) fn new(name: &'static str) -> Self {
        Self { name, rates: Vec::new(), client: Vec::new(), server: Vec::new(), peak_mb: Vec::new() }
    }

    pub(crate) fn did(&mut self, done: &Done) {
        let each = |cpu: Duration| cpu.as_secs_f64() * 1e6 / done.moved as f64;
        self.rates.push(per_second(done.moved, done.spent));
        self.client.push(each(done.client.cpu));
        self.server.push(each(done.server));
        self.peak_mb.push(done.client.peak_mb);
    }

    pub(crate) fn show(&self) {
        let [rate, client, server, peak] =
            [&self.rates, &self.client, &self.server, &self.peak_mb].map(|all| Median::of(all.clone()));
        println!(
            "  {:<28} {:>8.0} messages/s ({:.0} to {:.0}), {:.1} us of client CPU each, {:.1} us of server CPU, peak {:.0} MB",
            self.name, rate.middle, rate.low, rate.high, client.middle, server.middle, peak.middle
        );
    }

    /// The median of the paired ratios of the rates, beside its bar.
    pub(crate) fn against(&self, other: &Self, at_least: f64) {
        let ratios = self.rates.iter().zip(&other.rates).map(|(ours, theirs)| ours / theirs).collect();
        let ratio = Median::of(ratios);
        println!("  ratio to {}: {ratio}", other.name);
        bar(&format!("{} to {}", self.name, other.name), ratio.middle, at_least, true);
    }
}
