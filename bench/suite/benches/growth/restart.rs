//! Restarts: from starting the process to its first list, after a clean stop and after a kill right behind a write.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::indexed::indexed;
use crate::office::{Office, number_behind};
use crate::sending::send;
use crate::serving::start;

/// How often it is killed at one size, and how often it is stopped.
pub(crate) const KILLS: u64 = 3;
const STOPS: usize = 5;
/// How long a stop may take.
const PATIENCE: Duration = Duration::from_secs(60);

/// Letters that are written before each kill, so that the write-ahead log is long: what is folded later, and indexed
/// later, is left undone.
pub(crate) fn before_a_kill(size: u64) -> u64 {
    (size / 20).min(20_000)
}

/// Grows the store to `size`, killing the office on the way; seconds of the restart behind each kill. Every letter
/// that was answered for must be there. Ends with everything indexed and a clean stop.
pub(crate) fn after_kills(data: &Path, there: u64, size: u64) -> Vec<f64> {
    let mut office = Office::start(data);
    let mut times = Vec::new();
    let piece = before_a_kill(size);
    for kill in 0..KILLS {
        let first = there + kill * piece;
        send(&office, first, piece);
        // Dropped, it is killed.
        drop(office);
        let (again, spent) = start(data);
        times.push(spent);
        let total = number_behind(&again.get("/api/v1/stats").1, "\"total\":");
        assert_eq!(total, first + piece, "no letter is lost by a kill, and none is there twice");
        office = again;
    }
    indexed(&office);
    stop(office);
    times
}

/// Seconds of restarts after clean stops.
pub(crate) fn after_stops(data: &Path) -> Vec<f64> {
    let restarts = (0..STOPS).map(|_| {
        let (office, spent) = start(data);
        stop(office);
        spent
    });
    restarts.collect()
}

/// Stops an office as an operator does, and waits until it has put everything away.
pub(crate) fn stop(office: Office) {
    let pid = office.pid().to_string();
    let told = Command::new("kill").args(["-TERM", &pid]).status().expect("run kill");
    assert!(told.success(), "the office is there to be told");
    let deadline = Instant::now() + PATIENCE;
    while is_running(&pid) {
        assert!(Instant::now() < deadline, "dlo serve did not stop");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A process that has ended stays a zombie until its end is asked for, which dropping the office does.
fn is_running(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
}
