//! The embedded store: SQLite in the data directory, one process, one writing thread, a few readers.
//!
//! A call that writes is prepared on the caller's side and handed to the writer ([`writer`]); a call that reads borrows
//! a read-only connection, on a blocking thread unless it is a short one. Both see committed data only.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::Sender;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::group::Group;
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::{LetterDetail, Step};
use dlo_core::query::complete::Known;
use dlo_core::query::{Named, Query, ShownBy};
use dlo_core::time::Timestamp;
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::prepare::Prepared;
use crate::{
    AuditPage, Batch, CauseCount, Checkpoint, Deed, Disk, Event, Glimpse, GroupFilter, GroupPage, Inserted,
    Lease, LetterPage, Page, Stats, Stepped, Store, StoreError, StoreLimits, StoredPayload, TimelineEntry,
    Verification,
};

mod again;
mod audit;
mod backup;
mod catalog;
mod deadline;
mod fold;
mod grouping;
mod groups;
mod index;
mod indexer;
mod leases;
mod merge;
mod merging;
mod open;
mod parts;
mod read;
mod readers;
mod replays;
mod restore;
mod rows;
mod runs;
mod search;
mod segments;
mod space;
mod splits;
mod steps;
mod streams;
mod suspects;
mod triage;
mod upkeep;
mod write;
mod writer;

use deadline::Steps;
use readers::Readers;
use writer::{InsertJob, Job, Shared, Writer};

/// The embedded store. Cheap to share; closed by [`Store::close`] or when the last handle is gone.
pub struct SqliteStore {
    database: PathBuf,
    jobs: Sender<Job>,
    shared: Arc<Shared>,
    limits: StoreLimits,
    readers: Readers,
    _folding: fold::Folding,
    _indexing: Option<indexer::Indexing>,
    _watching: space::Watching,
    _home: open::Home,
}

impl std::fmt::Debug for SqliteStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteStore").field("database", &self.database).finish_non_exhaustive()
    }
}

impl SqliteStore {
    /// Opens the store in `directory`, making it if needed. One process at a time: a second is refused.
    pub fn open(directory: &Path, limits: StoreLimits) -> Result<Arc<Self>, StoreError> {
        let home = open::Home::take(directory)?;
        restore::sweep(directory);
        let shared = Arc::new(Shared { space: space::Space::open(directory), ..Shared::default() });
        let writer = Writer::open(&home.database, &limits, Arc::clone(&shared))
            .map_err(|error| shared.space.judge(error))?;
        if shared.space.is_full() {
            shared.space.give(&writer.connection);
        }
        let (jobs, inbox) = std::sync::mpsc::channel();
        std::thread::Builder::new()
            .name("dlo-store-writer".into())
            .spawn(move || writer.run(&inbox))
            .map_err(|e| StoreError::Refused(format!("cannot start the writing thread: {e}")))?;
        let indexing = match limits.index_behind {
            true => Some(indexer::Indexing::start(&home.database, Arc::clone(&shared), jobs.clone())?),
            false => None,
        };
        let (watched, giver) = (Arc::clone(&shared), jobs.clone());
        Ok(Arc::new(Self {
            database: home.database.clone(),
            jobs,
            readers: Readers::new(&home.database, &shared, limits.deadline),
            shared,
            limits,
            _folding: fold::Folding::start(&home.database, &watched)?,
            _indexing: indexing,
            _watching: space::Watching::start(&watched, move || space::give_reserve(&giver))?,
            _home: home,
        }))
    }

    /// Runs `work` on the writing thread and waits for it, until the deadline.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        deadline::within(self.limits.deadline, self.write_long(work)).await
    }

    /// The same for work that grows with the store and is done seldom: it takes as long as it takes.
    async fn write_long<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, answer) = oneshot::channel();
        let job = Job::Run(Box::new(move |writer| {
            // Nobody waits for it any more: its caller was told that it did not happen in time.
            if !reply.is_closed() {
                let _ = reply.send(work(writer));
            }
        }));
        self.jobs.send(job).map_err(|_| closed())?;
        answer.await.map_err(|_| closed())?.map_err(|error| self.shared.space.judge(error))
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn insert(&self, batch: Batch, now: Timestamp) -> Result<Vec<Inserted>, StoreError> {
        if self.shared.waiting.load(Ordering::Relaxed) >= self.limits.waiting_bytes {
            return Err(StoreError::Overloaded);
        }
        if !batch.letters.is_empty() {
            self.shared.space.check()?;
        }
        if self.limits.index_behind {
            indexer::close_behind(&self.shared).await;
        }
        let prepared = tokio::task::spawn_blocking(move || Prepared::new(batch)).await;
        let prepared =
            prepared.map_err(|e| StoreError::Refused(format!("a batch is not prepared: {e}")))??;
        let weight = prepared.weight();
        let waiting = self.shared.waiting.fetch_add(weight, Ordering::Relaxed);
        // One batch is always taken, however large: it was let in at the door.
        if waiting > 0 && waiting + weight > self.limits.waiting_bytes {
            self.shared.waiting.fetch_sub(weight, Ordering::Relaxed);
            return Err(StoreError::Overloaded);
        }
        let (reply, answer) = oneshot::channel();
        self.jobs.send(Job::Insert(Box::new(InsertJob { prepared, now, reply }))).map_err(|_| closed())?;
        let answered = async { answer.await.map_err(|_| closed())? };
        let written = deadline::confirmed_within(self.limits.deadline, answered).await;
        written.map(|(inserted, _)| inserted).map_err(|error| self.shared.space.judge(error))
    }

    async fn checkpoints(&self, source: &str) -> Result<Vec<Checkpoint>, StoreError> {
        let source = source.to_string();
        self.readers.read(move |db, _| read::checkpoints(db, &source)).await
    }

    async fn letters(&self, query: &Query, page: &Page) -> Result<LetterPage, StoreError> {
        let (query, page) = (query.clone(), page.clone());
        let is_brief = readers::is_brief(&query);
        let work = move |db: &Connection, shared: &Shared| search::page(db, shared, &query, &page);
        if is_brief { self.readers.glance(work).await } else { self.readers.read(work).await }
    }

    async fn count(&self, query: &Query, at_most: u64) -> Result<u64, StoreError> {
        let query = query.clone();
        self.readers
            .read_long(move |db, shared| search::count(db, shared, &query, at_most, None))
            .await
            .map(|all| all.letters)
    }

    async fn glimpse(&self, query: &Query, at_most: u64) -> Result<Glimpse, StoreError> {
        let (query, work) = (query.clone(), Some(search::GLIMPSE));
        self.readers.read(move |db, shared| search::count(db, shared, &query, at_most, work)).await
    }

    async fn letter(&self, id: LetterId) -> Result<LetterDetail, StoreError> {
        self.readers.glance(move |db, shared| read::detail(db, shared, id)).await
    }

    async fn payload(
        &self,
        id: LetterId,
        reader: Option<(&Deed, Timestamp)>,
    ) -> Result<StoredPayload, StoreError> {
        let payload = self.readers.read(move |db, shared| read::payload(db, shared, id)).await?;
        if let Some((deed, now)) = reader {
            let row = audit::Row { letter: Some(id), ..audit::Row::by(now, Event::PayloadRead, 1, deed) };
            self.write(move |writer| audit::append(&writer.connection, &row)).await?;
        }
        Ok(payload)
    }

    async fn timeline(&self, id: LetterId) -> Result<Vec<TimelineEntry>, StoreError> {
        self.readers.glance(move |db, shared| read::timeline(db, shared, id)).await
    }

    async fn step(
        &self,
        ids: &[LetterId],
        step: Step,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<Stepped>, StoreError> {
        if ids.len() > Page::MOST {
            return Err(StoreError::Unsupported(format!(
                "at most {} letters take a step at once",
                Page::MOST
            )));
        }
        let (ids, deed) = (ids.to_vec(), deed.clone());
        self.write(move |writer| {
            writer.transact(|db, staged, _| steps::step(db, staged, &ids, step, &deed, now))
        })
        .await
    }

    async fn groups(&self, filter: &GroupFilter, page: &Page) -> Result<GroupPage, StoreError> {
        let (filter, page) = (filter.clone(), page.clone());
        self.readers.read(move |db, shared| groups::page(db, shared, &filter, &page)).await
    }

    async fn group(&self, id: GroupId) -> Result<Group, StoreError> {
        groups::one(&self.shared, id)
    }

    async fn stats(&self) -> Result<Stats, StoreError> {
        let unindexed = self.shared.unindexed.load(Ordering::Relaxed);
        self.readers.read(move |db, shared| groups::stats(db, shared, unindexed)).await
    }

    async fn causes(&self, source: Option<&str>) -> Result<Vec<CauseCount>, StoreError> {
        Ok(groups::causes(&self.shared, source))
    }

    async fn names(
        &self,
        named: &[Named],
        typed: &str,
        shown_by: Option<&ShownBy>,
        most: usize,
    ) -> Result<Vec<Known>, StoreError> {
        Ok(groups::names(&self.shared, named, typed, shown_by, most))
    }

    async fn assign_owners(
        &self,
        owner_of: &(dyn for<'a> Fn(&'a Group) -> Option<String> + Send + Sync),
    ) -> Result<u64, StoreError> {
        let owners = self.shared.catalog(|catalog| {
            let ruled = catalog
                .groups
                .iter()
                .filter(|(_, group)| group.merged_into.is_none() && !group.owner_by_hand);
            ruled.map(|(row, group)| (*row, owner_of(group))).collect::<Vec<_>>()
        });
        self.write_long(move |writer| {
            writer.transact(|_, staged, tools| groups::set_owners(staged, tools, owners))
        })
        .await
    }

    async fn note(&self, event: Event, count: u64, deed: &Deed, now: Timestamp) -> Result<(), StoreError> {
        let row = audit::Row::by(now, event, count, deed);
        self.write(move |writer| audit::append(&writer.connection, &row)).await
    }

    async fn audit(&self, page: &Page) -> Result<AuditPage, StoreError> {
        let page = page.clone();
        self.readers.read(move |db, _| audit::page(db, &page)).await
    }

    async fn verify(&self) -> Result<Verification, StoreError> {
        self.readers.read_long(|db, _| audit::verify(db)).await
    }

    async fn lease(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Lease>, StoreError> {
        let (name, holder) = (name.to_string(), holder.to_string());
        self.write(move |writer| leases::take(&writer.connection, &name, &holder, ttl, now)).await
    }

    async fn leases(&self, prefix: &str, now: Timestamp) -> Result<Vec<Lease>, StoreError> {
        let prefix = prefix.to_string();
        self.readers.read(move |db, _| leases::all(db, &prefix, now)).await
    }

    fn is_shared(&self) -> bool {
        false
    }

    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError> {
        let (name, holder) = (name.to_string(), holder.to_string());
        self.write(move |writer| leases::release(&writer.connection, &name, &holder)).await
    }

    async fn index_payloads(&self) -> Result<u64, StoreError> {
        self.write_long(indexer::finish).await
    }

    async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let to = to.to_path_buf();
        self.readers.read_long(move |db, _| backup::backup(db, &to)).await
    }

    async fn restore(&self, from: &Path, deed: &Deed, now: Timestamp) -> Result<(), StoreError> {
        self.shared.space.check()?;
        let (from, database, limits) = (from.to_path_buf(), self.database.clone(), self.limits.clone());
        let note = audit::Row::by(now, Event::Restored, 0, deed);
        let data = self.database.parent().map(Path::to_path_buf).unwrap_or_default();
        // Beside the writer: letters are stored while the backup is checked.
        let steps = Steps::default();
        let counted = steps.clone();
        let staging = tokio::task::spawn_blocking(move || {
            counted.during(|| restore::stage(&from, &data, &limits, &note))
        });
        let staged = async {
            staging.await.map_err(|e| StoreError::Refused(format!("a restore did not finish: {e}")))?
        };
        let staged = steps.within(self.limits.deadline, staged).await?;
        self.write_long(move |writer| restore::swap(writer, &database, &staged)).await
    }

    async fn ping(&self) -> Result<(), StoreError> {
        self.write(|writer| writer.connection.query_row(PROBE, [], |_| Ok(())).map_err(read_error)).await?;
        self.shared.space.check()
    }

    async fn close(&self) -> Result<(), StoreError> {
        let (done, closed) = oneshot::channel();
        if self.jobs.send(Job::Close(done)).is_ok() {
            let _ = closed.await;
        }
        self.readers.close();
        self.shared.space.close();
        Ok(())
    }
}

/// Reads a page of each table without which nothing can be answered.
const PROBE: &str = "SELECT (SELECT count(*) FROM (SELECT 1 FROM letters LIMIT 1)), (SELECT count(*) FROM (SELECT 1 FROM
    blocks LIMIT 1)), (SELECT count(*) FROM (SELECT 1 FROM groups LIMIT 1)), (SELECT count(*) FROM (SELECT 1 FROM audit LIMIT 1))";

fn closed() -> StoreError {
    StoreError::Unavailable("the store is closed".into())
}

/// The first block number that no block has.
fn next_block(connection: &Connection) -> Result<i64, StoreError> {
    connection
        .query_row("SELECT ifnull(max(id), 0) + 1 FROM blocks", [], |row| row.get(0))
        .map_err(read_error)
}

/// What SQLite says, as something to do. Codes are extended: the low byte is the kind.
fn read_error(error: rusqlite::Error) -> StoreError {
    use rusqlite::ffi::ErrorCode;
    match &error {
        rusqlite::Error::SqliteFailure(failure, _) => match failure.code {
            ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Unavailable(error.to_string()),
            ErrorCode::DiskFull => StoreError::DiskFull(Disk::DataDirectory),
            _ => StoreError::Refused(error.to_string()),
        },
        rusqlite::Error::InvalidColumnName(column) => {
            StoreError::Unreadable(format!("{column} holds a value this version does not know"))
        }
        _ => StoreError::Refused(error.to_string()),
    }
}
