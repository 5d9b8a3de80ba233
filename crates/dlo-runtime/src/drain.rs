//! Shutdown: stop receiving, let handlers finish, hand the rest back, by a deadline.
//!
//! What finishes is settled. What waits for a gate, a delay or the dead-letter queue, what fails from now on, and what
//! is not done in time goes back to the broker as it came: not charged, not parked. A deployment dead-letters nothing.

use dlo_core::broker::BrokerError;

use crate::consumer::Consumer;
use crate::events::Event;

impl Consumer {
    pub(crate) async fn drain(mut self) -> Result<(), BrokerError> {
        self.shared.shutdown.cancel();
        let mut deadline = std::pin::pin!(tokio::time::sleep(self.drain));
        loop {
            tokio::select! {
                done = self.tasks.join_next() => match done {
                    Some(done) => self.settle(done).await?,
                    None => break,
                },
                () = &mut deadline => break,
            }
        }
        let unfinished = self.tasks.len();
        // Waits until they are gone: a handler must not run on beside its message's next delivery.
        self.tasks.shutdown().await;
        self.shared.watch.saw(&Event::Drained { handed_back: self.handed_back + unfinished });
        self.source.close().await
    }
}
