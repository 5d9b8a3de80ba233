//! The one thread that writes.
//!
//! Inserts that wait share a transaction, and so an fsync; everything else is a closure that runs between them, the
//! chunks of the text index among it, which `indexer.rs` builds beside this thread.

use std::path::Path;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Arc, RwLock};
use std::time::Duration;

use dlo_core::time::Timestamp;
use rusqlite::Connection;
use tokio::sync::{Notify, oneshot};

use super::catalog::{Catalog, Staged};
use super::space::Space;
use super::{index, leases, open, read_error, replays, write};
use crate::prepare::Prepared;
use crate::{Inserted, StoreError, StoreLimits};

/// After so long without anything to write the pages that were kept for it are given back. They are read again from the
/// system's own cache, a few for a letter.
const QUIET: Duration = Duration::from_millis(500);

/// What readers and the writer share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub(super) catalog: RwLock<Catalog>,
    /// Bytes of inserts that wait.
    pub(super) waiting: AtomicUsize,
    /// Letters whose texts are not indexed yet.
    pub(super) unindexed: AtomicU64,
    /// Some were indexed.
    pub(super) indexed: Notify,
    /// The number of the next segment of the index.
    pub(super) next_segment: AtomicI64,
    /// How often everything was put back from a backup or indexed by hand: a merge that was begun before is void. Changed
    /// by the writer only.
    pub(super) epoch: AtomicU64,
    /// Whether the disk has space.
    pub(super) space: Space,
}

impl Shared {
    /// Reads the catalog. A writer that panicked while merging cannot happen short of a defect; its state is still whole.
    pub(super) fn catalog<T>(&self, read: impl FnOnce(&Catalog) -> T) -> T {
        read(&self.catalog.read().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Catalog) -> T) -> T {
        change(&mut self.catalog.write().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

pub(super) struct InsertJob {
    pub(super) prepared: Prepared,
    pub(super) now: Timestamp,
    pub(super) reply: oneshot::Sender<Result<Written, StoreError>>,
}

/// What became of a batch, and what is left of it: the caller frees that, the writer has better things to do.
pub(super) type Written = (Vec<Inserted>, Prepared);

pub(super) enum Job {
    Insert(Box<InsertJob>),
    Run(Box<dyn FnOnce(&mut Writer) + Send>),
    /// Finish and end; the sender learns when the database is closed.
    Close(oneshot::Sender<()>),
}

#[derive(Debug)]
pub(super) struct Writer {
    pub(super) connection: Connection,
    pub(super) shared: Arc<Shared>,
    pub(super) limits: StoreLimits,
    /// The running number of the next place.
    pub(super) running: i64,
    pub(super) next_block: i64,
    pub(super) next_replay: i64,
}

/// What is kept in memory of a database.
#[derive(Debug)]
pub(super) struct InMemory {
    pub(super) catalog: Catalog,
    pub(super) numbers: Numbers,
}

/// The next numbers, and how many letters wait for the index.
#[derive(Debug, Clone, Copy)]
pub(super) struct Numbers {
    next_block: i64,
    next_replay: i64,
    next_segment: i64,
    unindexed: u64,
}

impl InMemory {
    pub(super) fn read(db: &Connection) -> Result<Self, StoreError> {
        let numbers = Numbers {
            next_block: super::next_block(db)?,
            next_replay: replays::next_row(db)?,
            next_segment: index::next_segment(db)?,
            unindexed: index::waiting(db)?,
        };
        Ok(Self { catalog: Catalog::load(db)?, numbers })
    }
}

impl Writer {
    /// Opens a database as a start does: migrates it, sweeps what a crash left, and reads what is kept in memory.
    pub(super) fn open(
        database: &Path,
        limits: &StoreLimits,
        shared: Arc<Shared>,
    ) -> Result<Self, StoreError> {
        let connection = open::writer(database)?;
        match replays::sweep(&connection) {
            Err(StoreError::DiskFull(_)) => {
                tracing::warn!("unfinished plans stay until a start finds space on the disk");
            }
            swept => swept?,
        }
        let InMemory { catalog, numbers } = InMemory::read(&connection)?;
        let mut writer = Self {
            connection,
            shared,
            limits: limits.clone(),
            // Where the last process stopped is not known; any beginning does, since a taken place is passed over.
            running: rand::random_range(0..1 << 20),
            next_block: 1,
            next_replay: 1,
        };
        writer.shared.change(|current| *current = catalog);
        writer.take_over(numbers);
        Ok(writer)
    }

    /// Goes on with these numbers, behind the commit of what they count. Returns the former ones. A segment that is built
    /// of the former content is void, and its number is not used again.
    pub(super) fn take_over(&mut self, numbers: Numbers) -> Numbers {
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        Numbers {
            next_block: std::mem::replace(&mut self.next_block, numbers.next_block),
            next_replay: std::mem::replace(&mut self.next_replay, numbers.next_replay),
            next_segment: self.shared.next_segment.fetch_max(numbers.next_segment, Ordering::SeqCst),
            unindexed: self.shared.unindexed.swap(numbers.unindexed, Ordering::Relaxed),
        }
    }

    /// Works until every sender is gone or one says to close.
    pub(super) fn run(mut self, jobs: &Receiver<Job>) {
        let mut held = None;
        loop {
            let Some(job) = held.take().or_else(|| self.next(jobs)) else { return };
            match job {
                Job::Insert(first) => held = self.insert_together(*first, jobs),
                Job::Run(work) => work(&mut self),
                Job::Close(done) => {
                    self.fold_all();
                    drop(self);
                    let _ = done.send(());
                    return;
                }
            }
        }
    }

    /// Waits for the next job; gives back memory when none comes for a while.
    fn next(&self, jobs: &Receiver<Job>) -> Option<Job> {
        match jobs.recv_timeout(QUIET) {
            Ok(job) => Some(job),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => {
                if let Err(error) = self.connection.release_memory() {
                    tracing::debug!(%error, "the pages kept for writing could not be given back");
                }
                jobs.recv().ok()
            }
        }
    }

    /// Leaves everything in the database itself: whoever copies that one file behind a clean stop has all letters, though
    /// threads beside this one may still hold the log. Nothing is lost where it does not work: it is read from the log.
    fn fold_all(&self) {
        let folded =
            self.connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, bool>(0));
        if !matches!(folded, Ok(false)) {
            tracing::debug!("the write-ahead log could not be folded whole; it stays beside the database");
        }
    }

    /// Takes whatever inserts wait behind `first` into one transaction. Returns a job of another kind that came up.
    fn insert_together(&mut self, first: InsertJob, jobs: &Receiver<Job>) -> Option<Job> {
        let mut letters = first.prepared.letters.len();
        let mut together = vec![first];
        let mut held = None;
        while letters < self.limits.batch {
            match jobs.try_recv() {
                Ok(Job::Insert(job)) => {
                    letters += job.prepared.letters.len();
                    together.push(*job);
                }
                Ok(other) => {
                    held = Some(other);
                    break;
                }
                Err(_) => break,
            }
        }
        let weight: usize = together.iter().map(|job| job.prepared.weight()).sum();
        // Callers that were told that it did not happen in time send it again.
        together.retain(|job| !job.reply.is_closed());
        let outcome = self.transact(|transaction, staged, tools| {
            together.iter().map(|job| insert_one(transaction, staged, tools, job)).collect()
        });
        self.shared.waiting.fetch_sub(weight, Ordering::Relaxed);
        answer(together, outcome);
        held
    }

    /// Runs `work` in a transaction and merges what it staged after the commit.
    pub(super) fn transact<T>(
        &mut self,
        work: impl FnOnce(&Connection, &mut Staged, &mut write::Tools<'_>) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let mut staged = Staged::default();
        let transaction = self.connection.transaction().map_err(read_error)?;
        let mut tools = write::Tools {
            shared: &self.shared,
            limits: &self.limits,
            running: &mut self.running,
            next_block: &mut self.next_block,
            unindexed: 0,
        };
        let result = work(&transaction, &mut staged, &mut tools)?;
        write::flush(&transaction, &staged)?;
        let unindexed = tools.unindexed;
        let announced = self.shared.change(|catalog| catalog.announce(&mut staged));
        if let Err(failed) = transaction.commit() {
            self.shared.change(|catalog| catalog.withdraw(&announced));
            return Err(read_error(failed));
        }
        self.shared.change(|catalog| catalog.merge(staged));
        self.shared.unindexed.fetch_add(unindexed, Ordering::Relaxed);
        Ok(result)
    }
}

/// What became of one batch of a transaction: a lost lease refuses that batch, not those beside it.
type Answered = Result<Vec<Inserted>, StoreError>;

fn insert_one(
    db: &Connection,
    staged: &mut Staged,
    tools: &mut write::Tools<'_>,
    job: &InsertJob,
) -> Result<Answered, StoreError> {
    match leases::check(db, &job.prepared.leases, job.now) {
        Ok(()) => write::insert(db, staged, tools, &job.prepared, job.now).map(Ok),
        Err(lost @ StoreError::LeaseLost(_)) => Ok(Err(lost)),
        Err(error) => Err(error),
    }
}

fn answer(jobs: Vec<InsertJob>, outcome: Result<Vec<Answered>, StoreError>) {
    match outcome {
        Ok(results) => {
            for (job, result) in jobs.into_iter().zip(results) {
                let _ = job.reply.send(result.map(|inserted| (inserted, job.prepared)));
            }
        }
        Err(error) => {
            for job in jobs {
                let _ = job.reply.send(Err(error.clone()));
            }
        }
    }
}
