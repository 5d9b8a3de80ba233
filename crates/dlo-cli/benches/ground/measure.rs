//! Numbers: medians of paired ratios, peak memory, and the lines in which they are printed.

use std::time::Duration;

/// The middle of some figures, and how far they spread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Median {
    pub(crate) middle: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Median {
    pub(crate) fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Self { middle: at(figures.len() / 2), low: at(0), high: at(figures.len().saturating_sub(1)) }
    }
}

impl std::fmt::Display for Median {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.2} ({:.2} to {:.2})", self.middle, self.low, self.high)
    }
}

pub(crate) fn per_second(count: u64, spent: Duration) -> f64 {
    count as f64 / spent.as_secs_f64()
}

/// Peak resident memory of a process in megabytes; this one if `pid` is `None`.
pub(crate) fn peak_mb(pid: Option<u32>) -> f64 {
    let who = pid.map_or_else(|| "self".to_string(), |pid| pid.to_string());
    let status = std::fs::read_to_string(format!("/proc/{who}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    let kilobytes: f64 =
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
    kilobytes / 1_024.0
}

/// One figure against its bar.
pub(crate) fn bar(what: &str, figure: f64, bar: f64, at_least: bool) {
    let met = if at_least { figure >= bar } else { figure <= bar };
    let relation = if at_least { "at least" } else { "at most" };
    let verdict = if met { "met" } else { "NOT MET" };
    println!("  bar: {what}: {figure:.2}, {relation} {bar}: {verdict}");
}
