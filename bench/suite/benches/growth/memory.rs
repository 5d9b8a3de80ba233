//! Resident memory of an office that has nothing to do.

use std::time::{Duration, Instant};

use dlo_bench::usage::Usage;

use crate::office::Office;

/// How long it has had nothing to do when it is looked at.
const QUIET: Duration = Duration::from_secs(1);
/// Processor time in that while of an office that has nothing to do: its clocks tick.
const TICKS: Duration = Duration::from_millis(20);
/// How long it is waited for: behind millions of letters it puts its index in shape.
const PATIENCE: Duration = Duration::from_secs(180);

/// Megabytes, once it has done nothing for a moment.
pub(crate) fn idle_mb(office: &Office) -> f64 {
    let deadline = Instant::now() + PATIENCE;
    let mut before = Usage::of(office.pid()).cpu;
    loop {
        std::thread::sleep(QUIET);
        let spent = Usage::of(office.pid()).cpu;
        if spent.saturating_sub(before) <= TICKS {
            break;
        }
        assert!(Instant::now() < deadline, "the office is still at work after {PATIENCE:?} without a letter");
        before = spent;
    }
    let status = std::fs::read_to_string(format!("/proc/{}/status", office.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes: f64 =
        line.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
    kilobytes / 1_024.0
}
