//! The engine: looks which replays are due, takes each in hand with a lease, and lets families move on.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dlo_core::id::ReplayId;
use dlo_core::replay::family::{self, FamilyStep};
use dlo_core::replay::run::CLAIM;
use dlo_core::replay::{Replay, ReplayState};
use dlo_core::time::Clock;
use dlo_store::replays::{Replays, Run, Turn, lease_name};
use dlo_store::{Deed, Lease, Page, StoreError};
use tokio::task::{self, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::desk::{ReplayDesk, Standing};
use super::flaw::Planted;
use super::hand::{Hand, TTL};
use super::runner::Runner;
use super::{Leases, ReplayTarget};
use crate::repair::RepairDesk;

/// How often it looks without being rung.
const EVERY: Duration = Duration::from_secs(1);
/// A replay that could not be run is left alone for this long.
const REST: Duration = Duration::from_secs(5);
/// Parents that are looked at, newest first.
const FAMILIES: usize = 100;
/// Replays that are known to have no children; they never get any.
const LEAVES: usize = 10_000;

/// Runs, over all servers of this process: each has a holder's name of its own.
static RUNS: AtomicU64 = AtomicU64::new(0);

#[derive(Debug)]
pub(crate) struct Engine {
    pub(super) replays: Arc<dyn Replays>,
    pub(super) leases: Arc<dyn Leases>,
    pub(super) clock: Arc<dyn Clock>,
    /// This server, among those that share a store.
    pub(super) holder: String,
    pub(super) desk: Arc<ReplayDesk>,
    pub(super) repairs: Arc<RepairDesk>,
    /// By source.
    pub(super) targets: BTreeMap<String, Arc<ReplayTarget>>,
    pub(super) leaves: Mutex<HashSet<ReplayId>>,
    pub(super) flaw: Planted,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Nothing is left to do.
    Done,
    /// Somebody else does it, or did a moment ago.
    Elsewhere,
    /// It could not go on: look again after a while.
    Rest,
}

impl Ended {
    /// How long it is left alone.
    const fn pause(self) -> Duration {
        match self {
            Self::Done => Duration::ZERO,
            Self::Elsewhere => EVERY,
            Self::Rest => REST,
        }
    }
}

impl Engine {
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut bell = self.desk.listen();
        let mut hands: JoinSet<Ended> = JoinSet::new();
        let mut held: HashMap<ReplayId, task::Id> = HashMap::new();
        let mut resting: HashMap<ReplayId, Instant> = HashMap::new();
        let mut is_away = false;
        loop {
            resting.retain(|_, until| *until > Instant::now());
            match self.replays.active().await {
                Ok(active) => {
                    if std::mem::take(&mut is_away) {
                        tracing::warn!(recovered = true, "replays can be looked at again");
                    }
                    self.desk.only(&active.iter().map(|replay| replay.id).collect());
                    for replay in active {
                        if !held.contains_key(&replay.id) && !resting.contains_key(&replay.id) {
                            let (id, engine) = (replay.id, Arc::clone(&self));
                            let task = hands.spawn(engine.take_in_hand(replay, stop.clone()));
                            held.insert(id, task.id());
                        }
                    }
                }
                Err(error) => {
                    is_away = true;
                    tracing::warn!(%error, "replays cannot be looked at; they go on when the store answers");
                }
            }
            if let Err(error) = self.families().await {
                tracing::warn!(%error, "a replay of several parts could not be moved on; it is tried again");
            }
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                () = tokio::time::sleep(EVERY) => {}
                _ = bell.changed() => {}
                Some(ended) = hands.join_next_with_id() => {
                    let (task, ended) = ended.unwrap_or_else(|error| {
                        let replay = held.iter().find(|(_, of)| **of == error.id()).map(|(id, _)| id.to_string());
                        tracing::error!(replay, %error, "a replay broke off; it begins again");
                        (error.id(), Ended::Rest)
                    });
                    held.retain(|id, of| {
                        if *of == task {
                            resting.insert(*id, Instant::now() + ended.pause());
                        }
                        *of != task
                    });
                }
            }
        }
        // Each run ends by itself at its next safe place.
        while hands.join_next().await.is_some() {}
    }

    async fn take_in_hand(self: Arc<Self>, replay: Replay, stop: CancellationToken) -> Ended {
        let id = replay.id;
        let Some(target) = replay.source.as_ref().and_then(|source| self.targets.get(source)) else {
            let source = replay.source.as_deref().unwrap_or("several sources");
            let waits = Some(format!(
                "this server has no broker for {source}: add it to its config, or run the server that has it"
            ));
            // Another server may have the broker, and run it.
            let stalls = replay.state.is_active() && !self.leases.is_shared();
            let stalled = stalls.then(|| self.clock.now());
            let source = replay.source.clone();
            let standing = Standing { runs: false, waits, stalled, source, rate: Some(0.0), usual: None };
            self.desk.stands(id, standing);
            if !replay.state.is_active()
                && let Err(error) = self.put_away(id).await
            {
                tracing::warn!(replay = %id, %error, "a replay without a broker cannot be put away; it is tried again");
            }
            return Ended::Rest;
        };
        let holder = self.new_holder();
        let lease = match self.take_lease(id, &holder).await {
            Ok(Some(lease)) => lease,
            Ok(None) => return Ended::Elsewhere,
            Err(error) => {
                tracing::warn!(replay = %id, %error, "a replay cannot be taken in hand; it is tried again");
                return Ended::Rest;
            }
        };
        let hand = Arc::new(Hand::new(Arc::clone(&self), id, Arc::clone(target), holder, lease));
        let ended = match Runner::enter(Arc::clone(&hand)).await {
            Ok(runner) => runner.run(stop).await,
            Err(error) => Err(error),
        };
        self.desk.leaves(id);
        // Whoever lost the lease changes nothing by giving it back.
        if let Err(error) = self.leases.release(&lease_name(id), &hand.holder).await {
            tracing::debug!(replay = %id, %error, "the lease of a replay runs out by itself");
        }
        match ended {
            Ok(ended) => ended,
            Err(StoreError::LeaseLost(_)) => {
                tracing::info!(replay = %id, "another server took the replay over");
                Ended::Elsewhere
            }
            Err(error) => {
                tracing::warn!(replay = %id, %error, "a replay could not go on; it is taken up again");
                if error.is_transient() { Ended::Elsewhere } else { Ended::Rest }
            }
        }
    }

    /// The lease of a replay; `None` if somebody else has it. One whose process has certainly ended does not keep it until
    /// it runs out.
    async fn take_lease(&self, id: ReplayId, holder: &str) -> Result<Option<Lease>, StoreError> {
        let name = lease_name(id);
        if let Some(lease) = self.leases.lease(&name, holder, TTL, self.clock.now()).await? {
            return Ok(Some(lease));
        }
        let Some(ended) = self.leases.ended_holder(&name, self.clock.now()).await? else { return Ok(None) };
        tracing::info!(replay = %id, holder = ended, "the process that ran a replay has ended; it is taken over");
        self.leases.release(&name, &ended).await?;
        self.leases.lease(&name, holder, TTL, self.clock.now()).await
    }

    fn new_holder(&self) -> String {
        format!("{}/{}", self.holder, RUNS.fetch_add(1, Ordering::Relaxed))
    }

    /// What needs no broker: sends that nobody recorded are in doubt, and of a replay that is over letters that were not
    /// sent are open again. So nobody has to wait for a broker that is gone for good.
    async fn put_away(&self, id: ReplayId) -> Result<(), StoreError> {
        let holder = self.new_holder();
        let Some(lease) = self.take_lease(id, &holder).await? else { return Ok(()) };
        let run = Run { id, lease: &lease };
        self.replays.doubt(&run, self.clock.now()).await?;
        // A lease holds for far longer than one of these takes; the rest has its turn at the next look.
        if self.replays.replay(id).await?.state.is_over() {
            self.replays.give_back(&run, CLAIM as usize, self.clock.now()).await?;
        }
        self.leases.release(&lease_name(id), &holder).await
    }

    /// Moves every plan of several parts on by one step, where it is due.
    async fn families(&self) -> Result<(), StoreError> {
        for state in [ReplayState::Canary, ReplayState::Running, ReplayState::Paused, ReplayState::Stopped] {
            let page = self.replays.replays(Some(state), &Page::first(FAMILIES)).await?;
            for parent in page.replays {
                if !self.is_leaf(parent.id) {
                    self.move_on(&parent).await?;
                }
            }
        }
        Ok(())
    }

    async fn move_on(&self, parent: &Replay) -> Result<(), StoreError> {
        let children = self.replays.children(parent.id).await?;
        if children.is_empty() {
            self.remember_leaf(parent.id);
            return Ok(());
        }
        let (id, turn) = match family::next(parent, &children) {
            None => return Ok(()),
            Some(FamilyStep::Begin(at)) => {
                let child = &children[at];
                let turn = Turn {
                    from: child.state,
                    to: family::first_state(child),
                    stop_reason: None,
                    stop_letters: Vec::new(),
                };
                (child.id, turn)
            }
            Some(FamilyStep::Parent(turning)) => {
                let turn = Turn {
                    from: parent.state,
                    to: turning.to,
                    stop_reason: turning.reason,
                    stop_letters: turning.letters,
                };
                (parent.id, turn)
            }
        };
        let deed = Deed { author: "dlo".to_owned(), reason: turn.stop_reason.clone(), reference: None };
        match self.replays.turn(id, turn, &deed, self.clock.now()).await {
            // Somebody else was faster; the next look sees it.
            Ok(_) | Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
        self.desk.ring();
        Ok(())
    }

    fn is_leaf(&self, id: ReplayId) -> bool {
        self.leaves.lock().unwrap_or_else(PoisonError::into_inner).contains(&id)
    }

    fn remember_leaf(&self, id: ReplayId) {
        let mut leaves = self.leaves.lock().unwrap_or_else(PoisonError::into_inner);
        if leaves.len() >= LEAVES {
            leaves.clear();
        }
        leaves.insert(id);
    }
}

#[cfg(test)]
mod tests {
    use dlo_core::replay::ItemState;
    use dlo_store::replays::Run;

    use super::*;
    use crate::admit::tests::admitted;
    use crate::office::Office;
    use crate::replay::testing::{plan, turn};

    #[tokio::test]
    async fn letters_of_a_cancelled_replay_are_open_again_although_its_broker_is_gone() {
        let directory = tempfile::tempdir().unwrap();
        let office = Office::in_directory(directory.path());
        let id = plan(&office, vec![admitted(r#"{"source":"orders","payload":1}"#); 3]).await;
        turn(&office, id, &[ReplayState::Running]).await;
        let (name, ttl, now) = (lease_name(id), Duration::from_secs(60), office.now());
        let lease = office.store.lease(&name, "gone", ttl, now).await.unwrap().unwrap();
        let run = Run { id, lease: &lease };
        office.store.claim(&run, 9, now).await.unwrap();
        office.store.intend(&run, 1, now).await.unwrap();
        Leases::release(&office.store, &name, "gone").await.unwrap();
        turn(&office, id, &[ReplayState::Cancelled]).await;
        let stop = CancellationToken::new();
        let engine = tokio::spawn(crate::replay::run(office.clone(), Vec::new(), stop.clone()));
        let counts = async || office.store.replay(id).await.unwrap().counts;
        while counts().await.get(ItemState::Released) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert_eq!(counts().await.get(ItemState::InDoubt), 1, "nobody knows whether it was sent");
        stop.cancel();
        engine.await.unwrap();
    }
}
