//! The shared store: PostgreSQL 15 or later, several processes on one database.
//!
//! There is no truth in memory: others write too. A call that writes is one transaction; transactions that crossed each
//! other are tried again a few times. A call that reads sees one snapshot. Payloads are indexed behind the writes by
//! every process that has the database open; they divide the work by row locks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::Transaction;
use dlo_core::group::Group;
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::{LetterDetail, Step};
use dlo_core::query::complete::Known;
use dlo_core::query::{Named, Query, ShownBy};
use dlo_core::time::Timestamp;
use tokio::sync::Notify;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_postgres::IsolationLevel;

use crate::prepare::Prepared;
use crate::{
    AuditPage, Batch, CauseCount, Checkpoint, Deed, Event, Glimpse, GroupFilter, GroupPage, Inserted, Lease,
    LetterPage, Page, Stats, Stepped, Store, StoreError, StoreLimits, StoredPayload, TimelineEntry,
    Verification,
};

mod again;
mod attempts;
mod audit;
mod dial;
mod errors;
mod grouping;
mod groups;
mod index;
mod leases;
mod letters;
mod open;
mod pairs;
mod pool;
mod read;
mod replays;
mod rows;
mod search;
mod splits;
mod steps;
mod streams;
mod suspects;
mod tally;
mod text;
mod triage;
mod verify;
mod watch;
mod write;

use attempts::Attempts;
use errors::{commit_error, crossed, pool_error, read_error};
use pool::{Client, Pool};

/// How long payloads wait for company before they are indexed, and how often marks of others are looked for.
const INDEX_LINGER: Duration = Duration::from_millis(300);
const INDEX_ROUND: Duration = Duration::from_secs(30);

/// The shared store. Cheap to share; closed by [`Store::close`] or when the last handle is gone.
pub struct PostgresStore {
    pool: Pool,
    limits: StoreLimits,
    /// Bytes of batches that are being written.
    waiting: AtomicUsize,
    arrived: Arc<Notify>,
    indexer: JoinHandle<()>,
}

impl std::fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PostgresStore").field("pool", &self.pool).finish_non_exhaustive()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.indexer.abort();
    }
}

impl PostgresStore {
    /// Connects by a `postgres://` URL, and brings the database up to this version.
    pub async fn connect(url: &str, limits: StoreLimits) -> Result<Arc<Self>, StoreError> {
        let pool = open::pool(url, limits.deadline)?;
        open::migrate(&pool).await?;
        let arrived = Arc::new(Notify::new());
        let indexer = tokio::spawn(index_behind(pool.clone(), Arc::clone(&arrived)));
        Ok(Arc::new(Self { pool, limits, waiting: AtomicUsize::new(0), arrived, indexer }))
    }

    async fn client(&self) -> Result<Client, StoreError> {
        self.pool.client().await
    }

    /// The attempts of a call that begins now.
    fn attempts(&self) -> Attempts {
        Attempts::until(self.pool.due())
    }

    async fn insert_once(
        &self,
        batch: &Prepared,
        due: Instant,
        now: Timestamp,
    ) -> Result<Vec<Inserted>, StoreError> {
        let mut client = self.pool.client_until(due).await?;
        let db = client.transaction().await.map_err(read_error)?;
        leases::check(&db, &batch.leases).await?;
        let inserted = write::insert(&db, batch, now, self.limits.groups_per_source).await?;
        db.commit().await.map_err(commit_error)?;
        Ok(inserted)
    }

    async fn step_once(
        &self,
        ids: &[LetterId],
        step: Step,
        deed: &Deed,
        due: Instant,
        now: Timestamp,
    ) -> Result<Vec<Stepped>, StoreError> {
        let mut client = self.pool.client_until(due).await?;
        let db = client.transaction().await.map_err(read_error)?;
        let stepped = steps::step(&db, ids, step, deed, now).await?;
        db.commit().await.map_err(read_error)?;
        Ok(stepped)
    }

    /// Takes room for a batch until the guard is dropped. One batch is always taken, however large: it was let in at the door.
    fn make_room(&self, weight: usize) -> Result<Room<'_>, StoreError> {
        let waiting = self.waiting.fetch_add(weight, Ordering::Relaxed);
        let room = Room { waiting: &self.waiting, weight };
        if waiting > 0 && waiting + weight > self.limits.waiting_bytes {
            return Err(StoreError::Overloaded);
        }
        Ok(room)
    }
}

struct Room<'s> {
    waiting: &'s AtomicUsize,
    weight: usize,
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.waiting.fetch_sub(self.weight, Ordering::Relaxed);
    }
}

/// One view of everything, for as long as the transaction lives.
async fn snapshot(client: &mut Client) -> Result<Transaction<'_>, StoreError> {
    client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .start()
        .await
        .map_err(read_error)
}

/// Indexes payloads for as long as the pool is open.
async fn index_behind(pool: Pool, arrived: Arc<Notify>) {
    loop {
        // Woken by a batch of our own, or in time for what another process left behind.
        let _ = tokio::time::timeout(INDEX_ROUND, arrived.notified()).await;
        tokio::time::sleep(INDEX_LINGER).await;
        if pool.is_closed() {
            return;
        }
        if let Err(error) = index::all(&pool).await {
            tracing::warn!(%error, "payloads could not be indexed; they are scanned meanwhile");
        }
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn insert(&self, batch: Batch, now: Timestamp) -> Result<Vec<Inserted>, StoreError> {
        if self.waiting.load(Ordering::Relaxed) >= self.limits.waiting_bytes {
            return Err(StoreError::Overloaded);
        }
        if batch.letters.is_empty() && batch.checkpoints.is_empty() {
            return Ok(Vec::new());
        }
        let prepared = tokio::task::spawn_blocking(move || Prepared::new(batch))
            .await
            .map_err(|e| StoreError::Refused(format!("a batch could not be prepared: {e}")))??;
        let _room = self.make_room(prepared.weight())?;
        let mut attempts = self.attempts();
        loop {
            match self.insert_once(&prepared, attempts.due, now).await {
                Err(error) if attempts.again_after(&error).await => {}
                Err(error) => return Err(error),
                Ok(inserted) => {
                    self.arrived.notify_one();
                    return Ok(inserted);
                }
            }
        }
    }

    async fn checkpoints(&self, source: &str) -> Result<Vec<Checkpoint>, StoreError> {
        let mut client = self.client().await?;
        read::checkpoints(&snapshot(&mut client).await?, source).await
    }

    async fn letters(&self, query: &Query, page: &Page) -> Result<LetterPage, StoreError> {
        let mut client = self.client().await?;
        search::page(&snapshot(&mut client).await?, query, page).await
    }

    async fn count(&self, query: &Query, at_most: u64) -> Result<u64, StoreError> {
        let mut client = self.pool.long_client().await?;
        search::count(&snapshot(&mut client).await?, query, at_most, None).await.map(|all| all.letters)
    }

    async fn glimpse(&self, query: &Query, at_most: u64) -> Result<Glimpse, StoreError> {
        let mut client = self.client().await?;
        search::count(&snapshot(&mut client).await?, query, at_most, Some(search::GLIMPSE)).await
    }

    async fn letter(&self, id: LetterId) -> Result<LetterDetail, StoreError> {
        let mut client = self.client().await?;
        read::detail(&snapshot(&mut client).await?, id).await
    }

    async fn payload(
        &self,
        id: LetterId,
        reader: Option<(&Deed, Timestamp)>,
    ) -> Result<StoredPayload, StoreError> {
        let mut client = self.client().await?;
        let db = client.transaction().await.map_err(read_error)?;
        let payload = read::payload(&db, id).await?;
        if let Some((deed, now)) = reader {
            let row = audit::Row { letter: Some(id), ..audit::Row::by(now, Event::PayloadRead, 1, deed) };
            audit::append(&db, &[row]).await?;
        }
        // Nothing is handed out before the reading is on record.
        db.commit().await.map_err(read_error)?;
        Ok(payload)
    }

    async fn timeline(&self, id: LetterId) -> Result<Vec<TimelineEntry>, StoreError> {
        let mut client = self.client().await?;
        read::timeline(&snapshot(&mut client).await?, id).await
    }

    async fn step(
        &self,
        ids: &[LetterId],
        step: Step,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<Stepped>, StoreError> {
        if ids.len() > Page::MOST {
            let most = Page::MOST;
            return Err(StoreError::Unsupported(format!("at most {most} letters take a step at once")));
        }
        let mut attempts = self.attempts();
        loop {
            match self.step_once(ids, step, deed, attempts.due, now).await {
                Err(error) if attempts.again_after(&error).await => {}
                answer => return answer,
            }
        }
    }

    async fn groups(&self, filter: &GroupFilter, page: &Page) -> Result<GroupPage, StoreError> {
        let mut client = self.client().await?;
        groups::page(&snapshot(&mut client).await?, filter, page).await
    }

    async fn group(&self, id: GroupId) -> Result<Group, StoreError> {
        let mut client = self.client().await?;
        groups::one(&snapshot(&mut client).await?, id).await
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let mut client = self.client().await?;
        groups::stats(&snapshot(&mut client).await?).await
    }

    async fn causes(&self, source: Option<&str>) -> Result<Vec<CauseCount>, StoreError> {
        let mut client = self.client().await?;
        groups::causes(&snapshot(&mut client).await?, source).await
    }

    async fn names(
        &self,
        named: &[Named],
        typed: &str,
        shown_by: Option<&ShownBy>,
        most: usize,
    ) -> Result<Vec<Known>, StoreError> {
        let mut client = self.client().await?;
        groups::names(&snapshot(&mut client).await?, named, typed, shown_by, most).await
    }

    async fn assign_owners(
        &self,
        owner_of: &(dyn for<'a> Fn(&'a Group) -> Option<String> + Send + Sync),
    ) -> Result<u64, StoreError> {
        self.own_by_rules(owner_of).await
    }

    async fn note(&self, event: Event, count: u64, deed: &Deed, now: Timestamp) -> Result<(), StoreError> {
        let mut client = self.client().await?;
        let db = client.transaction().await.map_err(read_error)?;
        audit::append(&db, &[audit::Row::by(now, event, count, deed)]).await?;
        db.commit().await.map_err(read_error)
    }

    async fn audit(&self, page: &Page) -> Result<AuditPage, StoreError> {
        let mut client = self.client().await?;
        audit::page(&snapshot(&mut client).await?, page).await
    }

    async fn verify(&self) -> Result<Verification, StoreError> {
        let mut client = self.pool.long_client().await?;
        verify::verify(&snapshot(&mut client).await?).await
    }

    async fn lease(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Lease>, StoreError> {
        let mut client = self.client().await?;
        let db = client.transaction().await.map_err(read_error)?;
        let lease = leases::take(&db, name, holder, ttl, now).await?;
        db.commit().await.map_err(read_error)?;
        Ok(lease)
    }

    async fn leases(&self, prefix: &str, _now: Timestamp) -> Result<Vec<Lease>, StoreError> {
        let mut client = self.client().await?;
        leases::all(&snapshot(&mut client).await?, prefix).await
    }

    fn is_shared(&self) -> bool {
        true
    }

    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        let mut client = self.client().await?;
        let db = client.transaction().await.map_err(read_error)?;
        leases::release(&db, name, holder).await?;
        db.commit().await.map_err(read_error)
    }

    async fn index_payloads(&self) -> Result<u64, StoreError> {
        index::finish(&self.pool).await
    }

    async fn backup(&self, _to: &Path) -> Result<(), StoreError> {
        Err(StoreError::Unsupported(
            "a PostgreSQL database is backed up by its own tools: `pg_dump`, or point-in-time recovery for large ones".into(),
        ))
    }

    async fn restore(&self, _from: &Path, _deed: &Deed, _now: Timestamp) -> Result<(), StoreError> {
        Err(StoreError::Unsupported(
            "a PostgreSQL database is restored by its own tools (`pg_restore`) into an empty database; then set \
             `server.database` to it"
                .into(),
        ))
    }

    async fn ping(&self) -> Result<(), StoreError> {
        let client = self.client().await?;
        let sql = "SELECT current_setting('transaction_read_only') = 'on'";
        let row = client.query_one(sql, &[]).await.map_err(read_error)?;
        if row.get(0) {
            return Err(StoreError::Unavailable("it is read-only now: a standby, or set so by hand".into()));
        }
        Ok(())
    }

    async fn close(&self) -> Result<(), StoreError> {
        self.indexer.abort();
        self.pool.close();
        Ok(())
    }
}
