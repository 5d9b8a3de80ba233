//! Waiting for the index of texts: what comes behind is measured without its work beside it.

use std::time::{Duration, Instant};

use crate::office::{Office, number_behind};

/// How long it may be behind.
const PATIENCE: Duration = Duration::from_secs(300);

/// Waits until everything is indexed; how many seconds that took.
pub(crate) fn indexed(office: &Office) -> f64 {
    let started = Instant::now();
    while number_behind(&office.get("/api/v1/stats").1, "\"unindexed\":") > 0 {
        assert!(started.elapsed() < PATIENCE, "the text index did not catch up");
        std::thread::sleep(Duration::from_millis(10));
    }
    started.elapsed().as_secs_f64()
}
