//! Workers of other makes that run until they are stopped: their end is seen from outside, by the depth of their queues.
//!
//! The clock runs from the first look that finds something taken until the look that finds nothing left and all poison
//! parked. What a worker has prefetched by then and not settled is not counted against it.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::child::Done;
use crate::usage::{Usage, servers};

/// Between two looks.
const LOOK: Duration = Duration::from_millis(10);
const PATIENCE: Duration = Duration::from_secs(180);

/// What a look finds: how many are still to be taken, how many are parked.
pub(crate) type Depths = (u64, u64);

/// A worker with its processes; they end with it.
pub(crate) struct Worker(Child);

impl Worker {
    pub(crate) fn start(command: &mut Command) -> Self {
        let quiet = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        Self(quiet.spawn().unwrap_or_else(|why| panic!("{quiet:?}: {why}")))
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage::of_tree(self.0.id())
    }

    /// Processor time of everything else that was started here.
    pub(crate) fn servers(&self) -> Duration {
        servers(Some(self.0.id()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        let group = format!("-{}", self.0.id());
        let _ = Command::new("kill").args(["-TERM", "--", &group]).status();
        let asked = Instant::now();
        while asked.elapsed() < Duration::from_secs(10) && matches!(self.0.try_wait(), Ok(None)) {
            std::thread::sleep(LOOK);
        }
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.0.wait();
    }
}

/// Starts `command` on a queue of `messages`, of which `poison` will be parked, and waits for its end.
pub(crate) async fn run(
    command: &mut Command,
    messages: u64,
    poison: u64,
    mut look: impl AsyncFnMut() -> Depths,
) -> Done {
    let worker = Worker::start(command);
    let started = Instant::now();
    let mut first: Option<(Instant, u64, Usage, Duration)> = None;
    loop {
        let (left, parked) = look().await;
        if left < messages && first.is_none() {
            first = Some((Instant::now(), left, worker.usage(), worker.servers()));
        }
        if let Some((began, at_first, before, served)) = first
            && left == 0
            && parked >= poison
        {
            // What was gone before the first look is not part of the rate.
            return Done {
                handled: at_first.saturating_sub(poison),
                parked: poison,
                spent: began.elapsed(),
                usage: worker.usage().since(before),
                server: worker.servers().saturating_sub(served),
            };
        }
        assert!(started.elapsed() < PATIENCE, "{command:?} left {left} and parked {parked} of {poison}");
        tokio::time::sleep(LOOK).await;
    }
}
