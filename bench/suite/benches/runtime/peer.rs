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
/// How long nothing may change before a worker counts as stuck.
const PATIENCE: Duration = Duration::from_secs(40);
/// How often a worker that is stuck is given its queue anew: some lose a message now and then.
const TRIES: u32 = 3;

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

/// One whole round. A worker that comes to no end is said, and given another.
pub(crate) async fn round(mut attempt: impl AsyncFnMut() -> Result<Done, String>) -> Done {
    for _ in 1..TRIES {
        match attempt().await {
            Ok(done) => return done,
            Err(stuck) => println!("  {stuck}; the round is done again"),
        }
    }
    attempt().await.unwrap_or_else(|stuck| panic!("{stuck}, {TRIES} times"))
}

/// Starts `command` on a queue of `messages`, of which `poison` will be parked, and waits for its end.
pub(crate) async fn run(
    command: &mut Command,
    messages: u64,
    poison: u64,
    mut look: impl AsyncFnMut() -> Depths,
) -> Result<Done, String> {
    let worker = Worker::start(command);
    let (mut changed, mut before) = (Instant::now(), (messages, 0));
    let mut first: Option<(Instant, u64, Usage, Duration)> = None;
    loop {
        let (left, parked) = look().await;
        if left < messages && first.is_none() {
            first = Some((Instant::now(), left, worker.usage(), worker.servers()));
        }
        if let Some((began, at_first, used, served)) = first
            && left == 0
            && parked >= poison
        {
            // What was gone before the first look is not part of the rate.
            return Ok(Done {
                handled: at_first.saturating_sub(poison),
                parked: poison,
                spent: began.elapsed(),
                usage: worker.usage().since(used),
                server: worker.servers().saturating_sub(served),
            });
        }
        if before != (left, parked) {
            (changed, before) = (Instant::now(), (left, parked));
        }
        if changed.elapsed() > PATIENCE {
            let what = command.get_args().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
            return Err(format!("`{what}` left {left} and parked {parked} of {poison}"));
        }
        tokio::time::sleep(LOOK).await;
    }
}
