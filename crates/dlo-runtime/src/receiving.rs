//! Receives, beside everything else: as much as there is room for, as long as there is room.
//!
//! A task of its own, so that a question to the broker is not taken back each time a message is done. While the broker is
//! away it waits with growing pauses.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{BrokerError, Delivery, Source};
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::events::{Event, Watch};
use crate::room::Room;
use crate::shared::Shared;

/// Deliveries taken at once.
const BATCH: usize = 512;
/// How long one question to the broker may wait for a message.
const WAIT: Duration = Duration::from_secs(5);
/// Pauses while the broker is away: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(30);

/// What came at once, and when.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) deliveries: Vec<Delivery>,
    pub(crate) at: Instant,
}

pub(crate) struct Receiving {
    pub(crate) batches: mpsc::Receiver<Result<Arrived, BrokerError>>,
    /// Ends with this.
    task: AbortOnDropHandle<Box<dyn Source>>,
    stop: CancellationToken,
}

impl Receiving {
    pub(crate) fn start(source: Box<dyn Source>, room: Arc<Room>, watch: Arc<dyn Watch>) -> Self {
        let (to_loop, batches) = mpsc::channel(1);
        let stop = CancellationToken::new();
        let stopping = stop.clone();
        let task = AbortOnDropHandle::new(tokio::spawn(async move {
            let mut source = source;
            stopping.run_until_cancelled(run(&mut *source, &room, &*watch, &to_loop)).await;
            source
        }));
        Self { batches, task, stop }
    }

    /// Receives no more, and gives the source back; `None` after a defect of ours.
    pub(crate) async fn stop(mut self, shared: &Shared) -> Option<Box<dyn Source>> {
        self.stop.cancel();
        self.batches.close();
        self.task.await.inspect_err(|defect| shared.defect(defect)).ok()
    }
}

/// Ends when an error is one that waiting does not mend.
async fn run(
    source: &mut dyn Source,
    room: &Room,
    watch: &dyn Watch,
    to_loop: &mpsc::Sender<Result<Arrived, BrokerError>>,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let free = room.worth_asking().await;
        match source.receive(free.min(BATCH), WAIT).await {
            Ok(deliveries) => {
                if pause > FIRST_PAUSE {
                    tracing::info!(recovered = true, "consumer.broker_back");
                }
                pause = FIRST_PAUSE;
                if deliveries.is_empty() {
                    continue;
                }
                room.received(deliveries.len());
                let arrived = Arrived { deliveries, at: Instant::now() };
                if to_loop.send(Ok(arrived)).await.is_err() {
                    return;
                }
            }
            Err(error) if error.is_transient() => {
                watch.saw(&Event::BrokerAway { problem: &error.to_string() });
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
            Err(error) => {
                let _ = to_loop.send(Err(error)).await;
                return;
            }
        }
    }
}
