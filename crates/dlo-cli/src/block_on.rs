//! The runtime of a command: it works until the command has its outcome, and then for a moment at most.

use std::time::Duration;

use crate::exit::{Failure, Outcome};

/// How long calls that nobody waits for any more may take to come back. A client that asks a broker which is gone holds
/// its thread for tens of seconds, one question after the other: a process that was told to stop must not wait for them.
const AFTERWARDS: Duration = Duration::from_secs(1);

/// Runs `work` to its end on a runtime of its own. What must be durable or told is so when `work` has ended; whatever still
/// runs then is given up.
pub(crate) fn block_on<T>(work: impl Future<Output = Outcome<T>>) -> Outcome<T> {
    let runtime = tokio::runtime::Runtime::new()
        .map_err(|cause| Failure::failed(format!("the runtime could not start: {cause}")))?;
    let outcome = runtime.block_on(work);
    runtime.shutdown_timeout(AFTERWARDS);
    outcome
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_call_that_does_not_come_back_does_not_hold_up_the_end() {
        let (end, ended) = mpsc::channel::<()>();
        let started = Instant::now();
        let outcome = block_on(async move {
            tokio::task::spawn_blocking(move || ended.recv());
            // The call is under way.
            tokio::task::spawn_blocking(|| ()).await.map_err(|cause| Failure::failed(cause.to_string()))?;
            Ok(7)
        });
        assert_eq!(outcome.map_err(|failure| failure.words), Ok(7));
        assert!(started.elapsed() < AFTERWARDS * 20, "it waited for {:?}", started.elapsed());
        drop(end);
    }
}
