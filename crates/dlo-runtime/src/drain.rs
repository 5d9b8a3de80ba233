//! Shutdown: stop receiving, let handlers finish, write and tell what was decided, hand the rest back, by a deadline.
//!
//! What finishes is settled. What waits for a gate, a delay or its lane, what fails from now on, and what is not done in
//! time goes back to the broker as it came: not charged, not parked. A deployment dead-letters nothing.

use std::time::Duration;

use dlo_core::broker::BrokerError;
use tokio::time::{Instant, timeout, timeout_at};

use crate::consumer::Consumer;
use crate::events::Event;
use crate::receiving::Receiving;
use crate::settling::Worker;

/// How long the last receipts may take, when everything else is over.
const RECEIPTS: Duration = Duration::from_secs(3);

impl Consumer {
    pub(crate) async fn drain(mut self, receiving: Receiving, worker: Worker) -> Result<(), BrokerError> {
        let deadline = Instant::now() + self.drain;
        self.shared.shutdown.cancel();
        let source = receiving.stop(&self.shared).await;
        self.lanes.clear();
        while let Ok(Some(done)) = timeout_at(deadline, self.tasks.join_next()).await {
            self.through(done);
        }
        // Waits until they are gone: a handler must not run on beside its message's next delivery.
        self.tasks.shutdown().await;
        self.shared.pills.clear();
        // A letter that cannot be written in time is on disk, or its message goes back.
        let _in_time = timeout_at(deadline, self.shared.outbox.close()).await;
        self.settling.finish();
        let told = worker.await.unwrap_or(Err(BrokerError::Closed));
        let handed_back = self.shared.room.unsettled();
        self.shared.watch.saw(&Event::Drained { handed_back });
        let closed = match source {
            Some(source) => source.close().await,
            None => Ok(()),
        };
        if let Some(receipts) = &self.shared.receipts {
            let _in_time = timeout(RECEIPTS, receipts.flush()).await;
        }
        told.and(closed)
    }
}
