//! Replay: the frozen letters of a plan go back to where they came from, each send recorded before and after it.
//!
//! ```text
//!  desk ──rings──▶ engine ──one for each replay in hand──▶ runner ─┬▶ calls   claim, intend, record, renew … on the store
//!                     └▶ families: children one by one             ├▶ send    letters become messages
//!                                                                  ├▶ doubts  what a lost confirmation left open
//!                                                                  └▶ outcome passed, came back, window over
//! ```
//!
//! What to do is decided in `dlo-core`; here it is done. A lease says who does it, and every write names that lease.

mod begin;
mod calls;
mod desk;
mod differences;
mod doubts;
mod engine;
mod evidence;
mod flaw;
mod hand;
mod note;
mod outcome;
mod runner;
mod seen;
mod send;
#[cfg(test)]
mod sim;
#[cfg(test)]
pub(crate) mod testing;
mod took;
mod traffic;
mod unwritten;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::broker::Broker;
use dlo_core::conventions::{Found, Mapper};
use dlo_core::replay::produced::Place;
use dlo_core::time::Timestamp;
use dlo_store::replays::Replays;
use dlo_store::{DynStore, Lease, StoreError};
use tokio_util::sync::CancellationToken;

pub use desk::{ReplayDesk, Speaker, Standing};
pub(crate) use differences::{DifferenceLine, differences};
pub(crate) use evidence::{Evidence, QueueEvidence, evidence};

use crate::office::Office;
use crate::process;

/// Where the letters of one source can be sent.
#[derive(Debug, Clone)]
pub struct ReplayTarget {
    pub source: String,
    pub broker: Arc<dyn Broker>,
    /// The queue that its consumer reads.
    pub queue: String,
    /// Where its letters are found dead, and how home-made envelopes are read there: what others wrapped around a message is
    /// taken off before it is sent.
    pub dlq: String,
    pub mapper: Mapper,
    /// Whose progress tells that a message was consumed; `None` where the broker has no groups.
    pub group: Option<String>,
}

impl ReplayTarget {
    /// Where its letters are found dead, and how they are read.
    pub(crate) fn place(&self) -> Place<'_> {
        let dead = Found { broker: self.broker.capabilities().kind, queue: &self.dlq };
        Place { dead, mapper: &self.mapper, queue: &self.queue }
    }
}

/// The part of a store that gives leases.
#[async_trait]
pub(crate) trait Leases: Send + Sync + std::fmt::Debug {
    async fn lease(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Lease>, StoreError>;

    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError>;

    /// Who holds this lease, if the process of that holder has certainly ended.
    async fn ended_holder(&self, name: &str, now: Timestamp) -> Result<Option<String>, StoreError>;

    /// Whether other servers use the same store.
    fn is_shared(&self) -> bool {
        false
    }
}

#[async_trait]
impl Leases for DynStore {
    async fn lease(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Lease>, StoreError> {
        self.as_ref().lease(name, holder, ttl, now).await
    }

    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        self.as_ref().release(name, holder).await
    }

    async fn ended_holder(&self, name: &str, now: Timestamp) -> Result<Option<String>, StoreError> {
        let leases = self.as_ref().leases(name, now).await?;
        let holder = leases.into_iter().find(|lease| lease.name == name).map(|lease| lease.holder);
        let alone = !self.as_ref().is_shared();
        Ok(holder.filter(|holder| process::has_ended(holder, alone)))
    }

    fn is_shared(&self) -> bool {
        self.as_ref().is_shared()
    }
}

/// Runs every replay that is due, until `stop`.
pub(crate) async fn run(office: Arc<Office>, targets: Vec<ReplayTarget>, stop: CancellationToken) {
    let replays: Arc<dyn Replays> = Arc::clone(&office.store) as _;
    let engine = engine::Engine {
        replays,
        leases: Arc::new(Arc::clone(&office.store)),
        clock: Arc::clone(&office.clock),
        holder: office.holder.clone(),
        desk: Arc::clone(&office.replays),
        repairs: Arc::clone(&office.repairs),
        targets: targets.into_iter().map(|target| (target.source.clone(), Arc::new(target))).collect(),
        leaves: std::sync::Mutex::default(),
        flaw: flaw::Planted::default(),
    };
    Arc::new(engine).run(stop).await;
}
