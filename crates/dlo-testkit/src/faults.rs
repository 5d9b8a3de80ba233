//! Wrappers that fail when the test says so: a broker that is out of reach, a confirm that is lost on the way back.
//!
//! [`FaultyPublisher`] and [`FaultySettler`] wrap the real thing and follow a script; what the script does not speak of goes
//! through. The lost confirm is the dangerous one: the message is there, and the caller cannot know.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::{
    BrokerError, Calls, Capabilities, Confirmed, Delivery, Outgoing, PublishError, Publisher, Settled,
    Settler, Source,
};

/// What happens to one call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Nothing reaches the broker, and the caller is told that nothing is known.
    Unreachable,
    /// Everything reaches the broker, and the caller is told that nothing is known.
    ConfirmLost,
    /// The call goes through.
    None,
}

/// The faults of the calls to come, in order. Empty: everything goes through.
#[derive(Debug, Clone, Default)]
pub struct Script(Arc<Mutex<VecDeque<Fault>>>);

impl Script {
    pub fn of(faults: impl IntoIterator<Item = Fault>) -> Self {
        Self(Arc::new(Mutex::new(faults.into_iter().collect())))
    }

    /// Adds faults behind those that are left.
    pub fn then(&self, faults: impl IntoIterator<Item = Fault>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// Whether every scripted fault has happened.
    pub fn is_played(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    fn next(&self) -> Fault {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Fault::None)
    }
}

/// A publisher that fails by script, one entry per call.
#[derive(Debug)]
pub struct FaultyPublisher {
    inner: Arc<dyn Publisher>,
    script: Script,
}

impl FaultyPublisher {
    pub fn new(inner: Arc<dyn Publisher>, script: Script) -> Self {
        Self { inner, script }
    }
}

#[async_trait]
impl Publisher for FaultyPublisher {
    fn capabilities(&self) -> &Capabilities {
        self.inner.capabilities()
    }

    fn calls(&self) -> Calls {
        self.inner.calls()
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        let count = messages.len();
        let unknown =
            |why: &str| (0..count).map(|_| Err(PublishError::Unconfirmed(why.to_owned()))).collect();
        match self.script.next() {
            Fault::None => self.inner.publish(messages).await,
            Fault::Unreachable => unknown("scripted: out of reach"),
            Fault::ConfirmLost => {
                self.inner.publish(messages).await;
                unknown("scripted: the confirm was lost")
            }
        }
    }
}

/// A settler that fails by script, one entry per call.
#[derive(Debug)]
pub struct FaultySettler {
    inner: Arc<dyn Settler>,
    script: Script,
    carries: bool,
}

impl FaultySettler {
    pub fn new(inner: Arc<dyn Settler>, script: Script) -> Self {
        Self { inner, script, carries: true }
    }
}

#[async_trait]
impl Settler for FaultySettler {
    async fn settle(&self, mut settled: Vec<Settled>) -> Result<(), BrokerError> {
        if !self.carries {
            settled.iter_mut().for_each(|one| one.carry = None);
        }
        let lost = || Err(BrokerError::Unavailable("scripted".to_owned()));
        match self.script.next() {
            Fault::None => self.inner.settle(settled).await,
            Fault::Unreachable => lost(),
            Fault::ConfirmLost => {
                self.inner.settle(settled).await?;
                lost()
            }
        }
    }
}

/// A source that claims less than it can, so that what is done for weaker brokers can be seen on a stronger one, and
/// whose settler fails by script.
#[derive(Debug)]
pub struct WeakSource {
    inner: Box<dyn Source>,
    capabilities: Capabilities,
    script: Script,
}

impl WeakSource {
    /// `weaken` takes away what the broker shall not be able to do.
    pub fn new(inner: Box<dyn Source>, weaken: impl FnOnce(&mut Capabilities), script: Script) -> Self {
        let mut capabilities = inner.capabilities().clone();
        weaken(&mut capabilities);
        Self { inner, capabilities, script }
    }
}

#[async_trait]
impl Source for WeakSource {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn receive(&mut self, max: usize, wait: Duration) -> Result<Vec<Delivery>, BrokerError> {
        let mut deliveries = self.inner.receive(max, wait).await?;
        if !self.capabilities.delivery_count {
            deliveries.iter_mut().for_each(|delivery| delivery.delivery_count = None);
        }
        Ok(deliveries)
    }

    fn settler(&self) -> Arc<dyn Settler> {
        let settler = FaultySettler::new(self.inner.settler(), self.script.clone());
        Arc::new(FaultySettler { carries: self.capabilities.again_carries, ..settler })
    }

    async fn close(self: Box<Self>) -> Result<(), BrokerError> {
        self.inner.close().await
    }
}
