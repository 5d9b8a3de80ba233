//! What every call of one run needs: whose replay, under which lease, to which broker.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dlo_core::broker::{Broker, LostConfirm, Publisher};
use dlo_core::id::ReplayId;
use dlo_core::replay::{Replay, Target};
use dlo_core::time::Timestamp;
use dlo_store::replays::{Replays, Run};
use dlo_store::{Deed, Lease};
use tokio::time::Instant;

use super::ReplayTarget;
use super::engine::Engine;

/// How long a lease holds; it is kept at a third of it.
pub(super) const TTL: Duration = Duration::from_secs(10);
/// Nothing is begun so shortly before a lease runs out.
pub(super) const MARGIN: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(super) struct Hand {
    pub(super) engine: Arc<Engine>,
    pub(super) id: ReplayId,
    pub(super) target: Arc<ReplayTarget>,
    /// This run, among all runs of all servers: another one each time a replay is taken in hand.
    pub(super) holder: String,
    lease: Mutex<Lease>,
    /// Time that never jumps, for the pace.
    began: (Timestamp, Instant),
}

impl Hand {
    pub(super) fn new(
        engine: Arc<Engine>,
        id: ReplayId,
        target: Arc<ReplayTarget>,
        holder: String,
        lease: Lease,
    ) -> Self {
        let began = (engine.clock.now(), Instant::now());
        Self { engine, id, target, holder, lease: Mutex::new(lease), began }
    }

    pub(super) fn replays(&self) -> &dyn Replays {
        &*self.engine.replays
    }

    pub(super) fn broker(&self) -> &dyn Broker {
        &*self.target.broker
    }

    /// What can be known of a lost confirmation, whichever of these queues it was for: the least of what each can tell.
    pub(super) fn lost_confirm<'q>(&self, queues: impl Iterator<Item = &'q String>) -> LostConfirm {
        let each = queues.map(|queue| self.broker().lost_confirm(queue));
        let least = each.reduce(|least, one| if least == one { least } else { LostConfirm::Unknown });
        least.unwrap_or_else(|| self.broker().lost_confirm(&self.target.queue))
    }

    pub(super) fn lease(&self) -> Lease {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn keep(&self, lease: Lease) {
        *self.lease.lock().unwrap_or_else(PoisonError::into_inner) = lease;
    }

    /// Whether the lease holds long enough to begin something under it.
    pub(super) fn holds(&self) -> bool {
        self.now().plus(MARGIN) < self.lease.lock().unwrap_or_else(PoisonError::into_inner).until
    }

    /// Whether somebody else may have the replay by now.
    pub(super) fn is_expired(&self) -> bool {
        self.now() >= self.lease.lock().unwrap_or_else(PoisonError::into_inner).until
    }

    pub(super) fn run<'a>(&self, lease: &'a Lease) -> Run<'a> {
        Run { id: self.id, lease }
    }

    /// By the office's clock: what is stored.
    pub(super) fn now(&self) -> Timestamp {
        self.engine.clock.now()
    }

    /// By a clock that never jumps: what is paced.
    pub(super) fn steady(&self) -> Timestamp {
        self.began.0.plus(self.began.1.elapsed())
    }

    /// When a steady time will be.
    pub(super) fn instant(&self, steady: Timestamp) -> Instant {
        self.began.1 + steady.since(self.began.0)
    }

    /// The office itself is the author of what it does by rule.
    pub(super) fn deed(&self, reason: Option<String>) -> Deed {
        Deed { author: "dlo".to_owned(), reason, reference: None }
    }

    /// The queue whose consumer is watched.
    pub(super) fn queue<'a>(&'a self, target: &'a Target) -> &'a str {
        target.named().unwrap_or(&self.target.queue)
    }

    /// A publisher of this run's own; whoever had one before publishes nothing any more, where that can be had.
    pub(super) async fn fence(&self) -> Result<Arc<dyn Publisher>, dlo_core::broker::BrokerError> {
        self.broker().fenced_publisher(&dlo_store::replays::lease_name(self.id)).await
    }
}

/// The group whose progress tells the outcome: the one in which the letters died, or the one that the config names for
/// letters that do not say. Of letters of several groups no single one can tell.
pub(super) fn group(replay: &Replay, target: &ReplayTarget) -> Option<String> {
    let named = &target.group;
    let elsewhere = replay.settings.target.named().is_some_and(|queue| queue != target.queue);
    if elsewhere || replay.by_class.is_empty() {
        return named.clone();
    }
    let mut groups = replay.by_class.iter().map(|kind| kind.consumer.as_ref().or(named.as_ref()));
    let first = groups.next().flatten();
    groups.all(|other| other == first).then(|| first.cloned()).flatten()
}
