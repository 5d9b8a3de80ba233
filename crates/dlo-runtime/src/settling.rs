//! Tells the broker what became of its messages, in batches, beside everything else.
//!
//! What is done while the last batch is told makes the next one. Where the broker takes a position for many
//! (`cumulative_ack`), a batch waits for a moment, so that one position says more. What waits here is bounded by what
//! may be unsettled at all: each delivery comes through here once.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{BrokerError, Settled, Settler};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::events::{Event, Watch};
use crate::room::Room;

/// Told at once.
const BATCH: usize = 1_024;
/// How long a batch that could be one position waits for more.
const LINGER: Duration = Duration::from_millis(2);
/// A batch that is this large does not wait.
const ENOUGH: usize = 256;

/// The way to the worker; cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct Settling {
    to_worker: mpsc::UnboundedSender<Settled>,
    finish: CancellationToken,
}

/// A worker that has not begun.
pub(crate) struct Unstarted {
    settler: Arc<dyn Settler>,
    cumulative: bool,
    watch: Arc<dyn Watch>,
    room: Arc<Room>,
    from_all: mpsc::UnboundedReceiver<Settled>,
    finish: CancellationToken,
}

/// The worker, for who must know how it ended; it ends with its handle.
pub(crate) type Worker = AbortOnDropHandle<Result<(), BrokerError>>;

impl Settling {
    pub(crate) fn new(
        settler: Arc<dyn Settler>,
        cumulative: bool,
        watch: Arc<dyn Watch>,
        room: Arc<Room>,
    ) -> (Self, Unstarted) {
        let (to_worker, from_all) = mpsc::unbounded_channel();
        let finish = CancellationToken::new();
        let worker = Unstarted { settler, cumulative, watch, room, from_all, finish: finish.clone() };
        (Self { to_worker, finish }, worker)
    }

    pub(crate) fn settle(&self, settled: Settled) {
        // A worker that ended has told why; the delivery comes again.
        let _ = self.to_worker.send(settled);
    }

    /// Nothing more will come: what is there is told, and the worker ends.
    pub(crate) fn finish(&self) {
        self.finish.cancel();
    }
}

impl Unstarted {
    pub(crate) fn start(self) -> Worker {
        AbortOnDropHandle::new(tokio::spawn(self.run()))
    }

    async fn run(mut self) -> Result<(), BrokerError> {
        let mut batch = Vec::new();
        loop {
            if !self.gather(&mut batch).await {
                return Ok(());
            }
            let told = batch.len();
            let answer = self.settler.settle(std::mem::take(&mut batch)).await;
            self.room.settled(told);
            match answer {
                Ok(()) => {}
                // Nothing is known of them: each may come again, and is handled again.
                Err(error) if error.is_transient() => {
                    self.watch.saw(&Event::BrokerAway { problem: &error.to_string() });
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// `false`: nothing is left, and nothing more will come.
    async fn gather(&mut self, batch: &mut Vec<Settled>) -> bool {
        let some = self.finish.run_until_cancelled(self.from_all.recv_many(batch, BATCH)).await;
        if self.cumulative && some.is_some() && batch.len() < ENOUGH {
            self.finish.run_until_cancelled(tokio::time::sleep(LINGER)).await;
        }
        while batch.len() < BATCH
            && let Ok(one) = self.from_all.try_recv()
        {
            batch.push(one);
        }
        !batch.is_empty()
    }
}
