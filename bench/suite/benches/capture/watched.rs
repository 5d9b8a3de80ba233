//! Peers that run until they are stopped: their end is seen from outside, by what they have stored.
//!
//! The clock runs from the first look that finds something until the look that finds all of it. What was there at the first
//! look is not part of the rate, and how long a peer takes to begin is not either.

use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::runner::Round;
use crate::usage::{Usage, servers};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
/// How long a peer may take for all of it.
const PATIENCE: Duration = Duration::from_secs(300);
/// How long it may take to end.
const LEAVE: Duration = Duration::from_secs(20);

/// Starts `command`, which logs to `log`, and stops it when `stored` says `count`.
pub(crate) fn drain(command: &mut Command, log: &Path, count: u64, mut stored: impl FnMut() -> u64) -> Round {
    let mut peer = Peer::start(command, log);
    let said = || std::fs::read_to_string(log).unwrap_or_default();
    let pid = peer.0.id();
    let started = Instant::now();
    let mut first: Option<(Instant, u64, Usage, Duration)> = None;
    let round = loop {
        let now = stored();
        if now > 0 {
            let (began, at_first, before, served) =
                *first.get_or_insert_with(|| (Instant::now(), now, Usage::of_tree(pid), servers(Some(pid))));
            if now >= count {
                assert!(at_first < count, "{count} letters are too few to be seen coming");
                let client = Usage::of_tree(pid).since(before);
                break Round {
                    messages: count - at_first,
                    spent: began.elapsed(),
                    client: Some(client.cpu),
                    server: Some(servers(Some(pid)).saturating_sub(served)),
                    peak_mb: Some(client.peak_mb),
                };
            }
        }
        assert!(matches!(peer.0.try_wait(), Ok(None)), "{command:?} ended at {now}: {}", said());
        assert!(started.elapsed() < PATIENCE, "{command:?} stored {now} of {count}: {}", said());
        std::thread::sleep(LOOK);
    };
    drop(peer);
    assert_eq!(stored(), count, "{command:?} stored another number: {}", said());
    round
}

/// Its process, which is asked to end, and ended if it does not: what it has not settled yet would be there for the next.
struct Peer(Child);

impl Peer {
    fn start(command: &mut Command, log: &Path) -> Self {
        let out = File::create(log).expect("a log");
        let errors = out.try_clone().expect("a log");
        Self(command.stdin(Stdio::null()).stdout(out).stderr(errors).spawn().expect("start the peer"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let asked = Instant::now();
        while asked.elapsed() < LEAVE && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
