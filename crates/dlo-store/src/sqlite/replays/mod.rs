//! Replays in the embedded store. Reads borrow a reading connection; every write is one transaction of the writer, but for
//! a plan, which is written in chunks and becomes visible with the last.

use std::time::Duration;

use async_trait::async_trait;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{Item, ItemState, Replay, ReplayState, Settings};
use dlo_core::time::Timestamp;
use rusqlite::Connection;

use super::catalog::Staged;
use super::writer::Shared;
use super::{SqliteStore, closed};
use crate::moves::Move;
use crate::planned::{Planned, not_written};
use crate::repairs::seal;
use crate::replays::{
    Claimed, Conclusion, ItemPage, NewReplay, ReplayPage, Replays, Return, Run, SendEnd, Settling, ToSend,
    Turn,
};
use crate::{Deed, NewRepair, Page, Repair, Repaired, StoreError};

mod hand;
mod items;
mod list;
mod marks;
mod outcome;
mod plan;
mod readable;
mod repairs;
mod returns;
mod rows;
mod run;
mod turns;
mod verify;
mod whole;

pub(super) use outcome::come_back;
pub(super) use plan::{next_row, sweep};
pub(super) use readable::read_all;
pub(super) use returns::{Expected, ForeignReturn, expected, find_return, suspect_return};
pub(super) use verify::problems;

impl SqliteStore {
    /// Runs `work` in one transaction on the writing thread.
    async fn transact<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &mut Staged) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.write(move |writer| writer.transact(|db, staged, _| work(db, staged))).await
    }

    /// The same for a run, if it still has its lease.
    async fn run<T: Send + 'static>(
        &self,
        run: &Run<'_>,
        now: Timestamp,
        work: impl FnOnce(&Connection, &mut Staged, rows::Head) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (id, lease) = (run.id, run.lease.clone());
        self.transact(move |db, staged| {
            let head = run::held(db, id, &lease, now)?;
            work(db, staged, head)
        })
        .await
    }

    /// Marks what was read as intended.
    async fn mark_intended(
        &self,
        run: &Run<'_>,
        read: Vec<whole::ReadItem>,
        way: Move,
        now: Timestamp,
    ) -> Result<Vec<ToSend>, StoreError> {
        self.run(run, now, move |db, staged, head| run::intend(db, staged, head, read, way, now)).await
    }

    /// Writes members and replays; returns the plan itself.
    async fn write_plan(&self, planned: Vec<Planned>, now: Timestamp) -> Result<Replay, StoreError> {
        let planned = std::sync::Arc::new(planned);
        let reserved = planned.clone();
        let first = self.write(move |writer| plan::begin(writer, &reserved)).await?;
        let draft = plan::Draft::new(self.jobs.clone(), first, planned.len());
        for (row, at) in (first..).zip(0..planned.len()) {
            for from in (0..planned[at].members.len()).step_by(plan::CHUNK) {
                let planned = planned.clone();
                self.transact(move |db, _| {
                    let Planned { replay, members } = &planned[at];
                    let chunk = &members[from..members.len().min(from + plan::CHUNK)];
                    plan::write_chunk(db, row, replay.id.0.as_bytes(), from, chunk)
                })
                .await?;
            }
        }
        let all = planned.clone();
        self.transact(move |db, _| plan::publish(db, first, &all, now)).await?;
        draft.finish();
        planned.first().map(|whole| whole.replay.clone()).ok_or_else(closed)
    }
}

#[async_trait]
impl Replays for SqliteStore {
    async fn plan(&self, plan: NewReplay, now: Timestamp) -> Result<Replay, StoreError> {
        let decided = move |db: &Connection, shared: &Shared| {
            let planned = plan::decide(db, shared, &plan, now)?;
            Ok((not_written(&plan, &planned), planned))
        };
        match self.readers.read_long(decided).await? {
            (Some(void), _) => Ok(void),
            (None, planned) => self.write_plan(planned, now).await,
        }
    }

    async fn replay(&self, id: ReplayId) -> Result<Replay, StoreError> {
        self.readers.read(move |db, _| list::one(db, id)).await
    }

    async fn children(&self, id: ReplayId) -> Result<Vec<Replay>, StoreError> {
        self.readers.read(move |db, _| list::children(db, id)).await
    }

    async fn replays(&self, state: Option<ReplayState>, page: &Page) -> Result<ReplayPage, StoreError> {
        let page = page.clone();
        self.readers.read(move |db, _| list::page(db, state, &page)).await
    }

    async fn active(&self) -> Result<Vec<Replay>, StoreError> {
        self.readers.read(|db, _| list::active(db)).await
    }

    async fn items(
        &self,
        id: ReplayId,
        state: Option<ItemState>,
        page: &Page,
    ) -> Result<ItemPage, StoreError> {
        let page = page.clone();
        self.readers.read(move |db, _| list::items(db, id, state, &page)).await
    }

    async fn turn(
        &self,
        id: ReplayId,
        turn: Turn,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Replay, StoreError> {
        let deed = deed.clone();
        self.transact(move |db, _| turns::turn(db, id, &turn, &deed, now)).await
    }

    async fn adjust(
        &self,
        id: ReplayId,
        settings: Settings,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Replay, StoreError> {
        let deed = deed.clone();
        self.transact(move |db, _| turns::adjust(db, id, settings, &deed, now)).await
    }

    async fn approve(&self, id: ReplayId, deed: &Deed, now: Timestamp) -> Result<Replay, StoreError> {
        let deed = deed.clone();
        self.transact(move |db, _| turns::approve(db, id, &deed, now)).await
    }

    async fn claim(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<Claimed, StoreError> {
        self.run(run, now, move |db, staged, head| run::claim(db, staged, head, most, now)).await
    }

    async fn intend(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<Vec<ToSend>, StoreError> {
        let id = run.id;
        let read = self.readers.read(move |db, shared| whole::next(db, shared, id, most)).await?;
        self.mark_intended(run, read, Move::INTEND, now).await
    }

    async fn intend_again(
        &self,
        run: &Run<'_>,
        numbers: &[u64],
        now: Timestamp,
    ) -> Result<Vec<ToSend>, StoreError> {
        let (id, numbers) = (run.id, numbers.to_vec());
        let read = self.readers.read(move |db, shared| whole::named(db, shared, id, &numbers)).await?;
        self.mark_intended(run, read, Move::INTEND_AGAIN, now).await
    }

    async fn record(
        &self,
        run: &Run<'_>,
        ends: Vec<(u64, SendEnd)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.run(run, now, move |db, staged, head| run::record(db, staged, head, ends, now)).await
    }

    async fn doubt(&self, run: &Run<'_>, now: Timestamp) -> Result<u64, StoreError> {
        self.run(run, now, move |db, staged, head| run::doubt(db, staged, head, now)).await
    }

    async fn settle(
        &self,
        id: ReplayId,
        numbers: &[u64],
        how: Settling,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let (numbers, deed) = (numbers.to_vec(), deed.clone());
        self.transact(move |db, staged| outcome::settle(db, staged, id, (&numbers, how), &deed, now)).await
    }

    async fn mark(&self, run: &Run<'_>, mark: String, now: Timestamp) -> Result<(), StoreError> {
        self.run(run, now, move |db, _, head| run::mark(db, &head, &mark)).await
    }

    async fn marked(&self, id: ReplayId) -> Result<Option<String>, StoreError> {
        self.readers.read(move |db, _| list::marked(db, id)).await
    }

    async fn waiting(&self, id: ReplayId, before: Timestamp, most: usize) -> Result<Vec<Item>, StoreError> {
        self.readers.read(move |db, _| list::waiting(db, id, before, most)).await
    }

    async fn returns(&self, id: ReplayId, since: Timestamp, most: usize) -> Result<Vec<Return>, StoreError> {
        self.readers.read(move |db, _| list::returns(db, id, since, most)).await
    }

    async fn conclude(
        &self,
        run: &Run<'_>,
        numbers: &[u64],
        how: Conclusion,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        let numbers = numbers.to_vec();
        self.run(run, now, move |db, staged, head| run::conclude(db, staged, head, &numbers, how, now)).await
    }

    async fn give_back(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<u64, StoreError> {
        self.run(run, now, move |db, staged, head| run::give_back(db, staged, head, most, now)).await
    }

    async fn receipts(
        &self,
        receipts: &[(ReplayId, u64)],
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        let (receipts, deed) = (receipts.to_vec(), deed.clone());
        self.transact(move |db, staged| outcome::receipts(db, staged, &receipts, &deed, now)).await
    }

    async fn usual_death(&self, id: ReplayId) -> Result<Option<Duration>, StoreError> {
        self.readers.read(move |db, _| list::usual_death(db, id)).await
    }

    async fn repair_many(
        &self,
        repairs: Vec<(LetterId, NewRepair)>,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<Repaired>, StoreError> {
        let sealed = tokio::task::spawn_blocking(move || seal(repairs))
            .await
            .map_err(|e| StoreError::Refused(format!("repairs could not be packed: {e}")))??;
        let deed = deed.clone();
        self.transact(move |db, _| repairs::write(db, &sealed, &deed, now)).await
    }

    async fn last_repaired(&self, id: ReplayId) -> Result<Option<Timestamp>, StoreError> {
        self.readers.read(move |db, _| repairs::last(db, id)).await
    }

    async fn changed_members(&self, id: ReplayId) -> Result<u64, StoreError> {
        self.readers.read(move |db, _| repairs::changed_members(db, id)).await
    }

    async fn changed(&self, letters: &[LetterId]) -> Result<Vec<(LetterId, Timestamp)>, StoreError> {
        let letters = letters.to_vec();
        self.readers.read(move |db, _| repairs::changed(db, &letters)).await
    }

    async fn holder(&self, letter: LetterId) -> Result<Option<ReplayId>, StoreError> {
        self.readers.read(move |db, _| list::holder(db, letter)).await
    }

    async fn repairs(&self, letter: LetterId) -> Result<Vec<Repair>, StoreError> {
        self.readers.read(move |db, _| repairs::all(db, letter)).await
    }
}
