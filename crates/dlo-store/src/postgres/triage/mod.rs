//! Triage in the shared store. What people change is one transaction at a time over all processes, by an advisory lock; the
//! letters that arrive meanwhile lock only the group that they bring back or wake.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use dlo_core::deploy::{Deploy, NewDeploy};
use dlo_core::group::{Change, Group, Similar};
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use dlo_core::trend::Window;
use dlo_core::view::{View, ViewOf};

use super::{PostgresStore, audit, groups, read_error, snapshot};
use crate::triage::{
    AgeCount, Changed, ClassTrend, GroupTally, Link, NewLink, NewView, Note, Runbook, Sampled, Triage,
    bounded_link, bounded_note, bounded_runbook,
};
use crate::{AuditEntry, Deed, Page, StoreError};

mod beside;
mod changes;
mod deploys;
mod family;
mod look;
mod owners;
mod runbooks;
mod trends;
mod views;

pub(super) use changes::{Arrivals, arrive, write_group};
pub(super) use family::merge;
pub(super) use look::{named_head, problems};
pub(super) use trends::write as write_trends;

/// Names the advisory lock under which people's changes are made: `dlot` in ASCII.
const CHANGING: i64 = 0x646c_6f74;

/// Answers from one snapshot.
macro_rules! read {
    ($store:ident, |$db:ident| $work:expr) => {{
        let mut client = $store.client().await?;
        let $db = &snapshot(&mut client).await?;
        $work.await
    }};
}

/// Writes in one transaction, alone among people's changes, a few times if it crosses letters that arrive.
macro_rules! write {
    ($store:ident, |$db:ident| $work:expr) => {{
        let mut attempts = $store.attempts();
        loop {
            let answer = async {
                let mut client = $store.pool.client_until(attempts.due).await?;
                let transaction = client.transaction().await.map_err(read_error)?;
                let $db = &transaction;
                lock($db).await?;
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

pub(super) use write as changing;

/// Until the end of the transaction, nobody else changes groups.
pub(super) async fn lock(db: &Transaction<'_>) -> Result<(), StoreError> {
    db.execute("SELECT pg_advisory_xact_lock($1)::text", &[&CHANGING]).await.map(drop).map_err(read_error)
}

fn bounded(ids: &[GroupId]) -> Result<(), StoreError> {
    if ids.len() > Page::MOST {
        return Err(StoreError::Unsupported(format!("at most {} groups at once", Page::MOST)));
    }
    Ok(())
}

/// The rules that say whose a group is.
pub(super) type OwnerOf<'r> = dyn for<'a> Fn(&'a Group) -> Option<String> + Send + Sync + 'r;

#[async_trait]
impl Triage for PostgresStore {
    async fn change_groups(
        &self,
        ids: &[GroupId],
        change: &Change,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<Changed>, StoreError> {
        bounded(ids)?;
        write!(self, |db| changes::change(db, ids, change, deed, now))
    }

    async fn tend_groups(&self, now: Timestamp) -> Result<u64, StoreError> {
        write!(self, |db| changes::wake(db, now))
    }

    async fn forget_trends(&self, now: Timestamp) -> Result<(), StoreError> {
        let client = self.pool.long_client().await?;
        trends::prune(&client, now).await
    }

    async fn tally_groups(&self, assignee: Option<&str>) -> Result<GroupTally, StoreError> {
        read!(self, |db| look::tally(db, assignee))
    }

    async fn oldest_open(&self, ids: &[GroupId]) -> Result<Vec<Option<Timestamp>>, StoreError> {
        bounded(ids)?;
        read!(self, |db| look::oldest_open(db, ids))
    }

    async fn similar_groups(&self, id: GroupId) -> Result<Vec<(Group, Similar)>, StoreError> {
        read!(self, |db| look::similar_groups(db, id))
    }

    async fn group_history(&self, id: GroupId, most: usize) -> Result<Vec<AuditEntry>, StoreError> {
        let mut client = self.client().await?;
        let db = snapshot(&mut client).await?;
        let family: Vec<uuid::Uuid> =
            groups::family(&db, id).await?.iter().map(|(_, group)| group.id.0).collect();
        audit::of_groups(&db, &family, most.min(Page::MOST)).await
    }

    async fn add_note(
        &self,
        id: GroupId,
        text: &str,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Note, StoreError> {
        let text = bounded_note(text)?;
        write!(self, |db| beside::add_note(db, id, text, deed, now))
    }

    async fn notes(&self, id: GroupId) -> Result<Vec<Note>, StoreError> {
        read!(self, |db| beside::notes(db, id))
    }

    async fn add_link(
        &self,
        id: GroupId,
        link: &NewLink,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Link, StoreError> {
        let link = bounded_link(link)?;
        write!(self, |db| beside::add_link(db, id, &link, deed, now))
    }

    async fn remove_link(
        &self,
        id: GroupId,
        number: i64,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        write!(self, |db| beside::remove_link(db, id, number, deed, now))
    }

    async fn links(&self, id: GroupId) -> Result<Vec<Link>, StoreError> {
        read!(self, |db| beside::links(db, id))
    }

    async fn runbook(&self, id: GroupId) -> Result<Option<Runbook>, StoreError> {
        read!(self, |db| runbooks::read(db, id))
    }

    async fn write_runbook(
        &self,
        id: GroupId,
        text: &str,
        known: i64,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Runbook, StoreError> {
        bounded_runbook(text)?;
        write!(self, |db| runbooks::write(db, id, (text, known), deed, now))
    }

    async fn merge_groups(
        &self,
        head: GroupId,
        members: &[GroupId],
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Group, StoreError> {
        bounded(members)?;
        write!(self, |db| family::merge(db, head, members, deed, now))
    }

    async fn split_group(&self, member: GroupId, deed: &Deed, now: Timestamp) -> Result<Group, StoreError> {
        write!(self, |db| family::split(db, member, deed, now))
    }

    async fn members(&self, head: GroupId) -> Result<Vec<Group>, StoreError> {
        read!(self, |db| family::members(db, head))
    }

    async fn trends(&self, ids: &[GroupId], window: Window) -> Result<Vec<Vec<u64>>, StoreError> {
        bounded(ids)?;
        read!(self, |db| trends::of_groups(db, ids, window))
    }

    async fn trend_by_class(
        &self,
        source: Option<&str>,
        window: Window,
    ) -> Result<Vec<ClassTrend>, StoreError> {
        read!(self, |db| trends::by_class(db, source, window))
    }

    async fn open_ages(&self, now: Timestamp) -> Result<Vec<AgeCount>, StoreError> {
        let mut client = self.pool.long_client().await?;
        look::open_ages(&snapshot(&mut client).await?, now).await
    }

    async fn mark_deploy(
        &self,
        what: &NewDeploy,
        at: Timestamp,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Deploy, StoreError> {
        write!(self, |db| deploys::mark(db, what, at, deed, now))
    }

    async fn deploys(
        &self,
        from: Option<Timestamp>,
        until: Option<Timestamp>,
        most: usize,
    ) -> Result<Vec<Deploy>, StoreError> {
        read!(self, |db| deploys::list(db, from, until, most))
    }

    async fn save_view(&self, view: &NewView, deed: &Deed, now: Timestamp) -> Result<View, StoreError> {
        write!(self, |db| views::save(db, view, deed, now))
    }

    async fn views(&self, person: Option<&str>) -> Result<Vec<View>, StoreError> {
        read!(self, |db| views::list(db, person))
    }

    async fn remove_view(
        &self,
        name: &str,
        of: ViewOf,
        owner: Option<&str>,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        write!(self, |db| views::remove(db, (name, of, owner), deed, now))
    }

    async fn sample(&self, id: GroupId, most: usize) -> Result<Vec<Sampled>, StoreError> {
        read!(self, |db| look::sample(db, id, most))
    }
}

impl PostgresStore {
    /// Among people's changes: an owner that somebody sets meanwhile is not overwritten.
    pub(super) async fn own_by_rules(&self, owner_of: &OwnerOf<'_>) -> Result<u64, StoreError> {
        let mut attempts = self.attempts();
        loop {
            match self.own_once(owner_of).await {
                Err(error) if attempts.again_after(&error).await => {}
                answer => return answer,
            }
        }
    }

    /// Reads every group, and writes those whose owner changes.
    async fn own_once(&self, owner_of: &OwnerOf<'_>) -> Result<u64, StoreError> {
        let mut client = self.pool.long_client().await?;
        let db = client.transaction().await.map_err(read_error)?;
        lock(&db).await?;
        let changed = owners::own_by_rules(&db, owner_of).await?;
        db.commit().await.map_err(read_error)?;
        Ok(changed)
    }
}
