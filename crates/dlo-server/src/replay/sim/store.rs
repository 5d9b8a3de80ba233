//! The record of replays, in memory, as the contract of the store has it, in the hands of one server.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::id::ReplayId;
use dlo_core::replay::{Item, ItemState, Replay, ReplayState, Settings};
use dlo_core::time::Timestamp;
use dlo_store::replays::{
    Claimed, Conclusion, ItemPage, NewReplay, ReplayPage, Replays, Return, Run, SendEnd, Settling, ToSend,
    Turn,
};
use dlo_store::{Deed, Lease, NewRepair, Page, Repair, Repaired, StoreError};
use tokio::time::sleep;

use super::life::Life;
use super::world::{Shared, Stands, StoreFlaw, World};
use crate::replay::Leases;

/// One server's connection to the store.
#[derive(Debug, Clone)]
pub(super) struct Book {
    pub(super) shared: Shared,
    pub(super) life: Arc<Life>,
}

impl Book {
    /// A call: it takes its time each way, may fail with or without effect, and its server may not live to see its end.
    async fn call<T>(&self, act: impl FnOnce(&mut World) -> Result<T, StoreError>) -> Result<T, StoreError> {
        self.leg().await;
        let (result, fails) = {
            let mut world = self.shared.world();
            let share = world.scenario.store_fails;
            let (before, after) = (world.chance(share), world.chance(share));
            if before { (Err(away()), false) } else { (act(&mut world), after) }
        };
        self.leg().await;
        if fails { result.and(Err(away())) } else { result }
    }

    async fn leg(&self) {
        self.life.step().await;
        let latency = self.shared.world().latency();
        if !latency.is_zero() {
            sleep(latency).await;
            self.life.step().await;
        }
    }
}

fn away() -> StoreError {
    StoreError::Unavailable("scripted".to_owned())
}

#[async_trait]
impl Leases for Book {
    async fn lease(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Lease>, StoreError> {
        self.call(|world| {
            let old = world.leases.get(name);
            if old.is_some_and(|old| old.holder != holder && old.until > now) {
                return Ok(None);
            }
            let fence = old.map_or(1, |old| old.fence + i64::from(old.holder != holder));
            let lease =
                Lease { name: name.to_owned(), holder: holder.to_owned(), until: now.plus(ttl), fence };
            world.leases.insert(name.to_owned(), lease.clone());
            Ok(Some(lease))
        })
        .await
    }

    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        self.call(|world| {
            if let Some(lease) = world.leases.get_mut(name).filter(|lease| lease.holder == holder) {
                lease.until = Timestamp::EPOCH;
            }
            Ok(())
        })
        .await
    }

    async fn ended_holder(&self, name: &str, now: Timestamp) -> Result<Option<String>, StoreError> {
        self.call(|world| {
            let lease = world.leases.get(name).filter(|lease| lease.until > now);
            Ok(lease.filter(|lease| world.has_ended(&lease.holder)).map(|lease| lease.holder.clone()))
        })
        .await
    }
}

fn unused<T>() -> Result<T, StoreError> {
    Err(StoreError::Unsupported("not part of the simulation".to_owned()))
}

#[async_trait]
impl Replays for Book {
    async fn plan(&self, _: NewReplay, _: Timestamp) -> Result<Replay, StoreError> {
        unused()
    }

    async fn replay(&self, _: ReplayId) -> Result<Replay, StoreError> {
        self.call(|world| Ok(world.whole())).await
    }

    async fn children(&self, _: ReplayId) -> Result<Vec<Replay>, StoreError> {
        self.call(|_| Ok(Vec::new())).await
    }

    async fn replays(&self, _: Option<ReplayState>, _: &Page) -> Result<ReplayPage, StoreError> {
        Ok(ReplayPage { replays: Vec::new(), next: None })
    }

    async fn active(&self) -> Result<Vec<Replay>, StoreError> {
        self.call(|world| {
            let replay = world.whole();
            let left = [ItemState::Sent, ItemState::Claimed, ItemState::Intended];
            let left = left.iter().any(|state| replay.counts.get(*state) > 0);
            let halted = matches!(replay.state, ReplayState::Paused | ReplayState::Stopped)
                && world.store_flaw != Some(StoreFlaw::ForgetHalted);
            let due = replay.state.is_active()
                || (replay.state.is_over() && left)
                || (halted && replay.counts.get(ItemState::Intended) > 0);
            Ok(if due { vec![replay] } else { Vec::new() })
        })
        .await
    }

    async fn items(&self, _: ReplayId, state: Option<ItemState>, _: &Page) -> Result<ItemPage, StoreError> {
        self.call(|world| {
            let all = (0..world.rows.len()).map(|number| world.item(number));
            let items = all.filter(|item| state.is_none_or(|state| item.state == state)).collect();
            Ok(ItemPage { items, next: None })
        })
        .await
    }

    async fn turn(&self, _: ReplayId, turn: Turn, _: &Deed, _: Timestamp) -> Result<Replay, StoreError> {
        self.call(|world| {
            let found = world.replay.state;
            if found != turn.from || !found.may_become(turn.to) {
                return Err(StoreError::Conflict { found, what: "look again".to_owned() });
            }
            world.moved(turn.to, turn.stop_reason);
            Ok(world.whole())
        })
        .await
    }

    async fn adjust(&self, _: ReplayId, _: Settings, _: &Deed, _: Timestamp) -> Result<Replay, StoreError> {
        unused()
    }

    async fn approve(&self, _: ReplayId, _: &Deed, _: Timestamp) -> Result<Replay, StoreError> {
        unused()
    }

    async fn claim(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<Claimed, StoreError> {
        self.call(|world| {
            world.fenced(run, now)?;
            let mut claimed = Claimed::default();
            let unchecked = world.store_flaw == Some(StoreFlaw::ClaimUnchecked);
            for row in world.rows.iter_mut().filter(|row| row.state == ItemState::Frozen).take(most) {
                if row.letter == Stands::Open || unchecked {
                    (row.state, row.letter) = (ItemState::Claimed, Stands::Claimed);
                    claimed.claimed += 1;
                } else {
                    row.state = ItemState::Short;
                    claimed.short += 1;
                }
            }
            claimed.left = world.counts().get(ItemState::Frozen);
            Ok(claimed)
        })
        .await
    }

    async fn intend(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<Vec<ToSend>, StoreError> {
        self.call(|world| {
            world.fenced(run, now)?;
            let mut items = Vec::new();
            for number in 0..world.rows.len() {
                let active = world.replay.state.is_active() && items.len() < most;
                if !active || world.rows[number].state != ItemState::Claimed || world.is_held_back(number) {
                    continue;
                }
                if world.store_flaw != Some(StoreFlaw::SkipIntent) {
                    world.rows[number].state = ItemState::Intended;
                }
                world.rows[number].at.get_or_insert(now);
                world.handed.remove(&(number as u64));
                items.push(world.to_send(number));
            }
            world.note(|| format!("p{} intends {:?}", self.life.id, numbers(&items)));
            world.check_intents();
            Ok(items)
        })
        .await
    }

    async fn intend_again(
        &self,
        run: &Run<'_>,
        numbers: &[u64],
        now: Timestamp,
    ) -> Result<Vec<ToSend>, StoreError> {
        self.call(|world| {
            world.fenced(run, now)?;
            let mut items = Vec::new();
            for number in numbers.iter().map(|number| *number as usize) {
                let readable = world.scenario.damaged != Some(number);
                let active = world.replay.state.is_active();
                if active && readable && world.rows[number].state == ItemState::InDoubt {
                    (world.rows[number].state, world.rows[number].letter) =
                        (ItemState::Intended, Stands::Claimed);
                    items.push(world.to_send(number));
                }
            }
            world.note(|| format!("p{} intends again {numbers:?}", self.life.id));
            Ok(items)
        })
        .await
    }

    async fn record(
        &self,
        run: &Run<'_>,
        ends: Vec<(u64, SendEnd)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.call(|world| {
            world.fenced(run, now)?;
            world.note(|| format!("p{} records {ends:?}", self.life.id));
            for (number, end) in ends {
                world.end(number as usize, end, now);
            }
            Ok(())
        })
        .await
    }

    async fn doubt(&self, run: &Run<'_>, now: Timestamp) -> Result<u64, StoreError> {
        self.call(|world| {
            world.fenced(run, now)?;
            let mut count = 0;
            for row in world.rows.iter_mut().filter(|row| row.state == ItemState::Intended) {
                row.doubts();
                count += 1;
            }
            world.note(|| format!("p{} doubts {count}", self.life.id));
            Ok(count)
        })
        .await
    }

    async fn settle(
        &self,
        _: ReplayId,
        numbers: &[u64],
        how: Settling,
        _: &Deed,
        _: Timestamp,
    ) -> Result<u64, StoreError> {
        self.call(|world| {
            world.note(|| format!("p{} settles {numbers:?} as {how:?}", self.life.id));
            Ok(numbers.iter().filter(|number| world.settle_one(**number as usize, how)).count() as u64)
        })
        .await
    }

    async fn mark(&self, run: &Run<'_>, mark: String, now: Timestamp) -> Result<(), StoreError> {
        self.call(|world| {
            world.fenced(run, now)?;
            world.mark = Some(mark);
            Ok(())
        })
        .await
    }

    async fn marked(&self, _: ReplayId) -> Result<Option<String>, StoreError> {
        self.call(|world| Ok(world.mark.clone())).await
    }

    async fn waiting(&self, _: ReplayId, before: Timestamp, most: usize) -> Result<Vec<Item>, StoreError> {
        self.call(|world| {
            let all = (0..world.rows.len()).map(|number| world.item(number));
            let sent = all.filter(|item| {
                item.state == ItemState::Sent && item.sent_at.is_some_and(|sent| sent <= before)
            });
            Ok(sent.take(most).collect())
        })
        .await
    }

    async fn returns(&self, _: ReplayId, since: Timestamp, most: usize) -> Result<Vec<Return>, StoreError> {
        self.call(|world| {
            Ok(world.returns.iter().filter(|back| back.at > since).take(most).cloned().collect())
        })
        .await
    }

    async fn conclude(
        &self,
        run: &Run<'_>,
        numbers: &[u64],
        how: Conclusion,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        self.call(|world| {
            world.fenced(run, now)?;
            let mut count = 0;
            for number in numbers.iter().map(|number| *number as usize) {
                if world.rows[number].state != ItemState::Sent {
                    continue;
                }
                world.check_conclusion(number as u64, how != Conclusion::Unknown, now);
                let row = &mut world.rows[number];
                match how {
                    Conclusion::Presumed => row.state = ItemState::Presumed,
                    Conclusion::Passed => (row.state, row.letter) = (ItemState::Passed, Stands::Recovered),
                    Conclusion::Routed => (row.state, row.letter) = (ItemState::Routed, Stands::Recovered),
                    Conclusion::Unknown => row.state = ItemState::Unknown,
                }
                count += 1;
            }
            world.note(|| format!("p{} concludes {numbers:?} as {how:?}", self.life.id));
            Ok(count)
        })
        .await
    }

    async fn give_back(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<u64, StoreError> {
        self.call(|world| {
            world.fenced(run, now)?;
            let mut count = 0;
            for row in world.rows.iter_mut().filter(|row| row.state == ItemState::Claimed).take(most) {
                (row.state, row.letter) = (ItemState::Released, Stands::Open);
                count += 1;
            }
            world.note(|| format!("p{} gives {count} back", self.life.id));
            Ok(count)
        })
        .await
    }

    async fn receipts(&self, _: &[(ReplayId, u64)], _: &Deed, _: Timestamp) -> Result<Vec<bool>, StoreError> {
        unused()
    }

    async fn repair_many(
        &self,
        _: Vec<(dlo_core::id::LetterId, NewRepair)>,
        _: &Deed,
        _: Timestamp,
    ) -> Result<Vec<Repaired>, StoreError> {
        unused()
    }

    async fn last_repaired(&self, _: ReplayId) -> Result<Option<Timestamp>, StoreError> {
        unused()
    }

    async fn changed_members(&self, _: ReplayId) -> Result<u64, StoreError> {
        unused()
    }

    async fn changed(
        &self,
        _: &[dlo_core::id::LetterId],
    ) -> Result<Vec<(dlo_core::id::LetterId, Timestamp)>, StoreError> {
        unused()
    }

    async fn holder(&self, _: dlo_core::id::LetterId) -> Result<Option<ReplayId>, StoreError> {
        unused()
    }

    async fn repairs(&self, _: dlo_core::id::LetterId) -> Result<Vec<Repair>, StoreError> {
        unused()
    }

    async fn usual_death(&self, _: ReplayId) -> Result<Option<Duration>, StoreError> {
        self.call(|world| Ok(world.scenario.usual)).await
    }
}

fn numbers(items: &[ToSend]) -> Vec<u64> {
    items.iter().map(|item| item.number).collect()
}
