//! One queue, received: waits on the shelf, attaches again when the link is lost, and settles.
//!
//! A redelivery that is put off is a copy: AMQP cannot hand a message back for later. The copy is sent with its delay
//! and confirmed, then the original is accepted; in between both are there, never none. The copy begins a new count.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    BrokerError, Capabilities, Delivery, Destination, Outgoing, Publisher, Settled, Settlement, Settler,
    Source,
};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::connection::Connector;
use super::pump::{Command, Outcomes, Pump};
use super::shelf::{Shelf, Standing};
use crate::backoff::Backoff;

const CLOSING: Duration = Duration::from_secs(30);

pub(super) struct Amqp1Source {
    connector: Arc<Connector>,
    capabilities: Arc<Capabilities>,
    shelf: Arc<Shelf>,
    settler: Arc<Amqp1Settler>,
    queue: String,
    backoff: Backoff,
}

impl std::fmt::Debug for Amqp1Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Amqp1Source({} at {})", self.queue, self.connector)
    }
}

impl Amqp1Source {
    pub(super) async fn join(
        connector: &Arc<Connector>,
        capabilities: &Arc<Capabilities>,
        publisher: &Arc<dyn Publisher>,
        queue: &str,
    ) -> Result<Self, BrokerError> {
        let shelf = Arc::new(Shelf::new(queue, capabilities.delay.is_some()));
        Pump::start(connector, &shelf, queue).await?;
        let settler = Arc::new(Amqp1Settler {
            shelf: Arc::clone(&shelf),
            publisher: Arc::clone(publisher),
            queue: queue.to_owned(),
        });
        Ok(Self {
            connector: Arc::clone(connector),
            capabilities: Arc::clone(capabilities),
            shelf,
            settler,
            queue: queue.to_owned(),
            backoff: Backoff::default(),
        })
    }

    /// Attaches again, or says why not when the time is over.
    async fn rejoin(&mut self, deadline: Instant) -> Result<(), BrokerError> {
        loop {
            let last = match tokio::time::timeout_at(
                deadline,
                Pump::start(&self.connector, &self.shelf, &self.queue),
            )
            .await
            {
                Ok(Ok(())) => {
                    self.backoff.reset();
                    return Ok(());
                }
                Ok(Err(why)) if !why.is_transient() => return Err(why),
                Ok(Err(why)) => why,
                Err(_) => self.connector.unavailable("no answer in the time given"),
            };
            let pause = self.backoff.next();
            if Instant::now() + pause >= deadline {
                tokio::time::sleep_until(deadline).await;
                return Err(last);
            }
            tokio::time::sleep(pause).await;
        }
    }
}

#[async_trait]
impl Source for Amqp1Source {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let deadline = Instant::now() + wait;
        let shelf = Arc::clone(&self.shelf);
        loop {
            let came = shelf.came.notified();
            match shelf.take(max) {
                Standing::Came(deliveries) => return Ok(deliveries),
                Standing::Nothing => {
                    if tokio::time::timeout_at(deadline, came).await.is_err() {
                        return Ok(Vec::new());
                    }
                }
                // Said once, before anything comes by a new link: a broker forgets that it delivered something before.
                Standing::Lost(Some(why)) => return Err(why),
                Standing::Lost(None) => self.rejoin(deadline).await?,
            }
        }
    }

    fn settler(&self) -> Arc<dyn Settler> {
        Arc::<Amqp1Settler>::clone(&self.settler)
    }

    async fn close(self: Box<Self>) -> Result<(), BrokerError> {
        let Some(pump) = self.shelf.close() else { return Ok(()) };
        let (done, closed) = oneshot::channel();
        // A task that is gone has lost its link, and with it everything was handed back.
        if pump.send(Command::Close { done }).await.is_ok() {
            let _ = tokio::time::timeout(CLOSING, closed).await;
        }
        Ok(())
    }
}

impl Drop for Amqp1Source {
    fn drop(&mut self) {
        self.shelf.close();
    }
}

#[derive(Debug)]
struct Amqp1Settler {
    shelf: Arc<Shelf>,
    publisher: Arc<dyn Publisher>,
    queue: String,
}

#[async_trait]
impl Settler for Amqp1Settler {
    async fn settle(&self, settled: Vec<Settled>) -> Result<(), BrokerError> {
        let Some(pump) = self.shelf.pump()? else { return Ok(()) };
        let mut outcomes = Outcomes::default();
        let (mut later, mut originals) = (Vec::new(), Vec::new());
        let mut gone = 0_usize;
        for Settled { tag, how, carry } in settled {
            let Some(held) = self.shelf.claim(&tag) else {
                gone += 1;
                continue;
            };
            match (how, held.copy) {
                (Settlement::Done, _) => outcomes.accepted.push(held.info),
                (Settlement::Refuse, _) => outcomes.rejected.push(held.info),
                // What carries nothing and waits for nothing is handed back as it is.
                (Settlement::Again { after }, Some(mut message)) if carry.is_some() || !after.is_zero() => {
                    if let Some(carry) = carry {
                        message.headers.supersede(*carry);
                    }
                    let to = Destination::queue(&self.queue);
                    later.push(Outgoing { to, message, delay: Some(after).filter(|after| !after.is_zero()) });
                    originals.push(held.info);
                }
                (Settlement::Again { .. }, _) => outcomes.failed.push(held.info),
            }
        }
        let mut undelayed = None;
        for (result, info) in self.copy(later).await.into_iter().zip(originals) {
            match result {
                Ok(()) => outcomes.accepted.push(info),
                Err(why) => {
                    outcomes.failed.push(info);
                    undelayed = Some(why);
                }
            }
        }
        let (told, answer) = oneshot::channel();
        let lost = || BrokerError::Unavailable("the link was lost while settling".to_owned());
        pump.send(Command::Settle { outcomes, told }).await.map_err(|_| lost())?;
        answer.await.map_err(|_| lost())??;
        match (undelayed, gone) {
            (Some(why), _) => {
                Err(BrokerError::Unavailable(format!("handed back at once: no delayed copy: {why}")))
            }
            (None, 0) => Ok(()),
            (None, _) => {
                Err(BrokerError::Unavailable(format!("{gone} came by a lost link and are delivered again")))
            }
        }
    }
}

impl Amqp1Settler {
    async fn copy(&self, later: Vec<Outgoing>) -> Vec<Result<(), String>> {
        if later.is_empty() {
            return Vec::new();
        }
        let results = self.publisher.publish(later).await;
        results.into_iter().map(|result| result.map(drop).map_err(|why| why.to_string())).collect()
    }
}
