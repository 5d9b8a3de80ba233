//! Holds a request for a while, to within a tenth of a millisecond. A timer of the runtime would round up to the next whole
//! millisecond: a tenth of a handler of 10 ms, which would be taken for the sidecar's.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;

type Held = (Instant, oneshot::Sender<()>);

#[derive(Debug)]
pub(crate) struct Delay {
    each: Duration,
    held: Sender<Held>,
}

impl Delay {
    /// Nothing for no time.
    pub(crate) fn of(each: Duration) -> Option<Self> {
        if each.is_zero() {
            return None;
        }
        let (held, due) = channel();
        std::thread::spawn(move || release(&due));
        Some(Self { each, held })
    }

    pub(crate) async fn wait(&self) {
        let (release, released) = oneshot::channel();
        self.held.send((Instant::now() + self.each, release)).expect("the thread lives");
        released.await.expect("released");
    }
}

/// All are held equally long, so the first that came is the first to go.
fn release(due: &Receiver<Held>) {
    for (at, release) in due {
        std::thread::sleep(at.saturating_duration_since(Instant::now()));
        // Whoever asked may have gone away.
        let _ = release.send(());
    }
}
