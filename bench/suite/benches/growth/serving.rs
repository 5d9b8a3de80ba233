//! A start, measured: from the start of the process to its first list.

use std::path::Path;
use std::time::Instant;

use crate::office::Office;

/// Starts an office; seconds until it answered with its newest letters.
pub(crate) fn start(data: &Path) -> (Office, f64) {
    let started = Instant::now();
    let office = Office::start(data);
    let (status, list) = office.get("/api/v1/letters?limit=50");
    let spent = started.elapsed().as_secs_f64();
    assert!(status == 200 && list.contains("\"id\":\""), "the newest letters: {status}");
    (office, spent)
}
