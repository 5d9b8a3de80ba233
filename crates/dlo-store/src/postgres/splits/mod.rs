//! Splits by a condition in the shared store. Conditions are read in the transaction of the letters that they sort.
//!
//! `make.rs` makes and forgets them, `sort.rs` holds letters against them that arrive, `moving.rs` those that are here. A
//! condition is made while no batch is being stored anywhere: so each batch either sees it, or is here to be moved.

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use dlo_core::group::Group;
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use tokio::time::Instant;

use super::triage::{changing, lock};
use super::{PostgresStore, read_error, snapshot};
use crate::triage::{NewSplit, Split, Splits};
use crate::{Deed, StoreError};

mod make;
mod moving;
mod sort;

pub(super) use sort::{Rules, rules, sort_again, sort_new};

/// Names the advisory lock that batches share and a split takes alone: `dlos` in ASCII.
const SPLITTING: i64 = 0x646c_6f73;

/// The answer to the first question about groups of a batch, asked under the lock that batches share until their end. Both
/// are sent at once, in this order, and the question is answered from what is committed when the lock is there.
pub(super) async fn held<T>(
    db: &Transaction<'_>,
    question: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let sql = "SELECT pg_advisory_xact_lock_shared($1)::text";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let lock = async { db.execute(&statement, &[&SPLITTING]).await.map_err(read_error) };
    // Polled in this order: the lock is sent first.
    let (_, answer) = futures::try_join!(lock, question)?;
    Ok(answer)
}

impl PostgresStore {
    async fn move_once(&self, due: Instant, now: Timestamp) -> Result<bool, StoreError> {
        let mut client = self.pool.client_until(due).await?;
        let db = client.transaction().await.map_err(read_error)?;
        let moved = moving::batch(&db, now).await?;
        db.commit().await.map_err(read_error)?;
        Ok(moved)
    }
}

#[async_trait]
impl Splits for PostgresStore {
    async fn split_by(
        &self,
        id: GroupId,
        split: &NewSplit,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Group, StoreError> {
        let cap = self.limits.groups_per_source;
        changing!(self, |db| make::split(db, (id, split), cap, deed, now))
    }

    async fn unsplit(&self, split: GroupId, deed: &Deed, now: Timestamp) -> Result<Group, StoreError> {
        changing!(self, |db| make::unsplit(db, split, deed, now))
    }

    async fn splits(&self, id: GroupId) -> Result<Vec<Split>, StoreError> {
        let mut client = self.client().await?;
        make::list(&snapshot(&mut client).await?, id).await
    }

    async fn move_split_letters(&self, now: Timestamp) -> Result<bool, StoreError> {
        let mut attempts = self.attempts();
        loop {
            match self.move_once(attempts.due, now).await {
                Err(error) if attempts.again_after(&error).await => {}
                answer => return answer,
            }
        }
    }
}
