//! Resident memory of an office that has nothing to do.

use std::time::Duration;

use crate::office::Office;

/// How long it has had nothing to do when it is looked at.
const QUIET: Duration = Duration::from_secs(1);

/// Megabytes, after a moment of quiet.
pub(crate) fn idle_mb(office: &Office) -> f64 {
    std::thread::sleep(QUIET);
    let status = std::fs::read_to_string(format!("/proc/{}/status", office.pid())).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    let kilobytes: f64 =
        line.split_whitespace().next().and_then(|text| text.parse().ok()).unwrap_or(f64::NAN);
    kilobytes / 1_024.0
}
