//! Numbers: medians and their spread, percentiles, rates, peak memory.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::lines::number;

/// The middle of some figures, how far they spread, and how many they were.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Median {
    #[serde(rename = "median", with = "number")]
    pub middle: f64,
    #[serde(with = "number")]
    pub low: f64,
    #[serde(with = "number")]
    pub high: f64,
    pub rounds: usize,
}

impl Median {
    pub fn of(mut figures: Vec<f64>) -> Self {
        figures.sort_by(f64::total_cmp);
        let at = |index: usize| figures.get(index).copied().unwrap_or(f64::NAN);
        Self {
            middle: at(figures.len() / 2),
            low: at(0),
            high: at(figures.len().saturating_sub(1)),
            rounds: figures.len(),
        }
    }

    /// A figure that was taken once.
    pub fn once(figure: f64) -> Self {
        Self::of(vec![figure])
    }

    /// Of the ratios of figures that were taken in the same round: a slow minute of the machine meets both.
    pub fn paired(ours: &[f64], theirs: &[f64]) -> Self {
        Self::of(ours.iter().zip(theirs).map(|(ours, theirs)| ours / theirs).collect())
    }
}

impl std::fmt::Display for Median {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { middle, low, high, rounds } = self;
        if *rounds > 1 { write!(f, "{middle:.2} ({low:.2} to {high:.2})") } else { write!(f, "{middle:.2}") }
    }
}

/// The value below which the share `part` of some figures lies.
pub fn percentile(figures: &mut [f64], part: f64) -> f64 {
    figures.sort_by(f64::total_cmp);
    let index = ((figures.len() as f64 * part).ceil() as usize).clamp(1, figures.len()) - 1;
    figures[index]
}

pub fn per_second(count: u64, spent: Duration) -> f64 {
    count as f64 / spent.as_secs_f64()
}

/// Peak resident memory of a process in megabytes; this one if `pid` is `None`.
pub fn peak_mb(pid: Option<u32>) -> f64 {
    let who = pid.map_or_else(|| "self".to_string(), |pid| pid.to_string());
    let status = std::fs::read_to_string(format!("/proc/{who}/status")).unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap_or_default();
    let kilobytes: f64 =
        line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
    kilobytes / 1_024.0
}
