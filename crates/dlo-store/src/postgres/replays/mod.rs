//! Replays in the shared store. A call that writes is one transaction, tried again when it crossed another one; a call that
//! reads sees one snapshot. Two servers divide replays by their leases, which are held in the same transactions.

use std::time::Duration;

use async_trait::async_trait;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{Item, ItemState, Replay, ReplayState, Settings};
use dlo_core::time::Timestamp;
use tokio_postgres::IsolationLevel;

use super::{PostgresStore, read_error, snapshot};
use crate::repairs::seal;
use crate::replays::{
    Claimed, Conclusion, ItemPage, NewReplay, ReplayPage, Replays, Return, Run, SendEnd, Settling, ToSend,
    Turn,
};
use crate::{Deed, NewRepair, Page, Repair, Repaired, StoreError};

mod hand;
mod list;
mod outcome;
mod plan;
mod repairs;
mod returns;
mod rows;
mod run;
mod turns;
mod verify;
mod whole;

pub(super) use outcome::come_back;
pub(super) use returns::{ForeignReturn, expected, find_return, is_still_expected, suspect_return};
pub(super) use verify::problems;

/// Answers from one snapshot.
macro_rules! read {
    ($store:ident, |$db:ident| $work:expr) => {{
        let mut client = $store.client().await?;
        let $db = &snapshot(&mut client).await?;
        $work.await
    }};
}

/// Writes in one transaction, a few times if it crosses others. A macro, since the work borrows the transaction.
macro_rules! write {
    ($store:ident, |$db:ident| $work:expr) => {{
        let mut attempts = $store.attempts();
        loop {
            let answer = async {
                let mut client = $store.pool.client_until(attempts.due).await?;
                let transaction = client.transaction().await.map_err(read_error)?;
                let $db = &transaction;
                let answer = $work.await?;
                transaction.commit().await.map_err(read_error)?;
                Ok(answer)
            };
            match answer.await {
                Err(error) if attempts.again_after(&error).await => {}
                answer => return answer,
            }
        }
    }};
}

#[async_trait]
impl Replays for PostgresStore {
    async fn plan(&self, plan: NewReplay, now: Timestamp) -> Result<Replay, StoreError> {
        let mut client = self.pool.long_client().await?;
        let db = client
            .build_transaction()
            .isolation_level(IsolationLevel::RepeatableRead)
            .start()
            .await
            .map_err(read_error)?;
        let replay = plan::plan(&db, &plan, now).await?;
        db.commit().await.map_err(read_error)?;
        Ok(replay)
    }

    async fn replay(&self, id: ReplayId) -> Result<Replay, StoreError> {
        read!(self, |db| list::one(db, id))
    }

    async fn children(&self, id: ReplayId) -> Result<Vec<Replay>, StoreError> {
        read!(self, |db| list::children(db, id))
    }

    async fn replays(&self, state: Option<ReplayState>, page: &Page) -> Result<ReplayPage, StoreError> {
        read!(self, |db| list::page(db, state, page))
    }

    async fn active(&self) -> Result<Vec<Replay>, StoreError> {
        read!(self, |db| list::active(db))
    }

    async fn items(
        &self,
        id: ReplayId,
        state: Option<ItemState>,
        page: &Page,
    ) -> Result<ItemPage, StoreError> {
        read!(self, |db| list::items(db, id, state, page))
    }

    async fn turn(
        &self,
        id: ReplayId,
        turn: Turn,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Replay, StoreError> {
        write!(self, |db| turns::turn(db, id, &turn, deed, now))
    }

    async fn adjust(
        &self,
        id: ReplayId,
        settings: Settings,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Replay, StoreError> {
        write!(self, |db| turns::adjust(db, id, &settings, deed, now))
    }

    async fn approve(&self, id: ReplayId, deed: &Deed, now: Timestamp) -> Result<Replay, StoreError> {
        write!(self, |db| turns::approve(db, id, deed, now))
    }

    async fn claim(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<Claimed, StoreError> {
        write!(self, |db| run::claim(db, run, most, now))
    }

    async fn intend(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<Vec<ToSend>, StoreError> {
        write!(self, |db| run::intend(db, run, most, now))
    }

    async fn intend_again(
        &self,
        run: &Run<'_>,
        numbers: &[u64],
        now: Timestamp,
    ) -> Result<Vec<ToSend>, StoreError> {
        write!(self, |db| run::intend_again(db, run, numbers, now))
    }

    async fn record(
        &self,
        run: &Run<'_>,
        ends: Vec<(u64, SendEnd)>,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        write!(self, |db| run::record(db, run, &ends, now))
    }

    async fn doubt(&self, run: &Run<'_>, now: Timestamp) -> Result<u64, StoreError> {
        write!(self, |db| run::doubt(db, run, now))
    }

    async fn settle(
        &self,
        id: ReplayId,
        numbers: &[u64],
        how: Settling,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        write!(self, |db| outcome::settle(db, id, (numbers, how), deed, now))
    }

    async fn mark(&self, run: &Run<'_>, mark: String, _now: Timestamp) -> Result<(), StoreError> {
        write!(self, |db| run::note(db, run, &mark))
    }

    async fn marked(&self, id: ReplayId) -> Result<Option<String>, StoreError> {
        read!(self, |db| list::marked(db, id))
    }

    async fn waiting(&self, id: ReplayId, before: Timestamp, most: usize) -> Result<Vec<Item>, StoreError> {
        read!(self, |db| list::waiting(db, id, before, most))
    }

    async fn returns(&self, id: ReplayId, since: Timestamp, most: usize) -> Result<Vec<Return>, StoreError> {
        read!(self, |db| list::returns(db, id, since, most))
    }

    async fn conclude(
        &self,
        run: &Run<'_>,
        numbers: &[u64],
        how: Conclusion,
        now: Timestamp,
    ) -> Result<u64, StoreError> {
        write!(self, |db| run::conclude(db, run, numbers, how, now))
    }

    async fn give_back(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<u64, StoreError> {
        write!(self, |db| run::give_back(db, run, most, now))
    }

    async fn receipts(
        &self,
        receipts: &[(ReplayId, u64)],
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        write!(self, |db| outcome::receipts(db, receipts, deed, now))
    }

    async fn usual_death(&self, id: ReplayId) -> Result<Option<Duration>, StoreError> {
        read!(self, |db| list::usual_death(db, id))
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
        write!(self, |db| repairs::write(db, &sealed, deed, now))
    }

    async fn last_repaired(&self, id: ReplayId) -> Result<Option<Timestamp>, StoreError> {
        read!(self, |db| repairs::last(db, id))
    }

    async fn changed_members(&self, id: ReplayId) -> Result<u64, StoreError> {
        read!(self, |db| repairs::changed_members(db, id))
    }

    async fn changed(&self, letters: &[LetterId]) -> Result<Vec<(LetterId, Timestamp)>, StoreError> {
        read!(self, |db| repairs::changed(db, letters))
    }

    async fn holder(&self, letter: LetterId) -> Result<Option<ReplayId>, StoreError> {
        read!(self, |db| list::holder(db, letter))
    }

    async fn repairs(&self, letter: LetterId) -> Result<Vec<Repair>, StoreError> {
        read!(self, |db| repairs::all(db, letter))
    }
}
