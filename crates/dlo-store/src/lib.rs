//! What the office remembers. Only here is SQL written.
//!
//! One trait, two engines, one conformance suite. **SQLite** is embedded: one process, a file in the data
//! directory, nothing to install. **PostgreSQL** serves when one machine is not enough: several processes share it
//! and divide work by leases. The shape of both is the same, and follows from measuring:
//!
//! - *Groups carry the words, letters carry numbers.* A filter on source, type, class, consumer or owner is first
//!   resolved to groups, then read through (group, status, place).
//! - *A letter's place is its time.* Its row key is the failure's millisecond and a running number, so every index
//!   that ends in the key is ordered newest first, and a page is one range of it.
//! - *Counts are rows,* per group and status, changed in the same transaction as the letters.
//! - *Payloads stand apart,* compressed in blocks, written in the same transaction. Listing never reads them.
//! - *Exact values of a row are indexed at write time, texts and fields of payloads behind it;* what is not indexed yet is
//!   scanned.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::group::Group;
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::{LetterDetail, Step};
use dlo_core::query::complete::Known;
use dlo_core::query::{Named, Query, ShownBy};
use dlo_core::time::Timestamp;

mod audit_row;
mod bits;
mod block;
mod error;
mod filter;
mod gathered;
mod grams;
mod model;
mod moves;
mod names;
mod place;
mod planned;
#[cfg(feature = "postgres")]
pub mod postgres;
mod postings;
mod prepare;
mod repairs;
pub mod replays;
pub mod sqlite;
pub mod triage;

pub use error::{Disk, StoreError};
pub use model::{
    AuditEntry, AuditPage, Batch, CauseCount, Checkpoint, Cursor, Deed, Event, Glimpse, GroupFilter,
    GroupPage, Inserted, Lease, LetterPage, Page, SourceStats, SourceVerification, Stats, Stepped,
    StoreLimits, StoredPayload, TimelineEntry, Verification,
};
pub use repairs::{AS_CAPTURED, NewRepair, Repair, Repaired};
pub use replays::Replays;
pub use triage::{Splits, Triage};

/// The store's promises. Every method has a conformance test that runs on both engines.
///
/// All methods may be called from any task at any time. Dropping a call leaves its effect either whole or absent.
#[async_trait]
pub trait Store: replays::Replays + triage::Triage + triage::Splits {
    /// Stores letters, groups them, counts them and writes audit rows and checkpoints: all of it or nothing.
    ///
    /// Returns when it is durable, with one result per letter in the order given. A letter whose dedupe key is stored
    /// already, or stands earlier in the same batch, is a duplicate and changes nothing. A letter with `replay_of`
    /// naming a letter that is here becomes a new death of it, and the letter is open again unless somebody closed it
    /// meanwhile; it belongs to the source of its new death from then on, and is counted there. If that letter is not
    /// here, it is stored as a new one. Checkpoints only move forward, and a mark moves with its checkpoint. `now` is
    /// the office's clock. Batches may share a transaction.
    /// [`StoreError::LeaseLost`] when a lease of the batch is not held any more: nothing of it was written. Whoever
    /// takes that lease over sees everything that was written under it.
    /// [`StoreError::Overloaded`] when too much is waiting, or [`StoreError::Unavailable`]: nothing of the batch was taken.
    /// [`StoreError::Unconfirmed`]: all of it is stored, or nothing.
    async fn insert(&self, batch: Batch, now: Timestamp) -> Result<Vec<Inserted>, StoreError>;

    /// The checkpoints of a source, in no order.
    async fn checkpoints(&self, source: &str) -> Result<Vec<Checkpoint>, StoreError>;

    /// Letters that match, newest failure first. Pages never show a letter twice nor skip one that was there all along.
    async fn letters(&self, query: &Query, page: &Page) -> Result<LetterPage, StoreError>;

    /// How many letters match, counted exactly now, up to `at_most`.
    async fn count(&self, query: &Query, at_most: u64) -> Result<u64, StoreError>;

    /// How many letters match as far as a look says whose work is bounded, up to `at_most`: for people who wait.
    async fn glimpse(&self, query: &Query, at_most: u64) -> Result<Glimpse, StoreError>;

    /// One letter whole, without its payload. [`StoreError::NoLetter`] if it is not here.
    async fn letter(&self, id: LetterId) -> Result<LetterDetail, StoreError>;

    /// The payload byte for byte. With `reader`, the reading is audited before anything is returned.
    async fn payload(
        &self,
        id: LetterId,
        reader: Option<(&Deed, Timestamp)>,
    ) -> Result<StoredPayload, StoreError>;

    /// What happened to a letter, oldest first. It begins with its capture.
    async fn timeline(&self, id: LetterId) -> Result<Vec<TimelineEntry>, StoreError>;

    /// Takes one step with each letter, counts and audit in the same transaction. At most [`Page::MOST`] ids a call;
    /// more is [`StoreError::Unsupported`]. Each letter stands for itself: what is illegal or missing is said
    /// in its result and does not stop the others.
    async fn step(
        &self,
        ids: &[LetterId],
        step: Step,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<Stepped>, StoreError>;

    /// Groups that match, in the order asked for. A group that was merged is not listed: its head speaks for it.
    async fn groups(&self, filter: &GroupFilter, page: &Page) -> Result<GroupPage, StoreError>;

    /// One group; if it was merged, its head. [`StoreError::NoGroup`] if it is not here.
    async fn group(&self, id: GroupId) -> Result<Group, StoreError>;

    /// The office in numbers, from what is kept at write time.
    async fn stats(&self) -> Result<Stats, StoreError>;

    /// Letters by (event type, error class, status), of one source or all, from what is kept at write time.
    async fn causes(&self, source: Option<&str>) -> Result<Vec<CauseCount>, StoreError>;

    /// Names that groups with letters carry, for somebody who types one: those that contain `typed` without regard to
    /// case, those that begin with it first, of these the ones with the most open letters. At most `most`. A name that
    /// these rules hide is left out before they are counted; sources, queues and owners are never hidden.
    async fn names(
        &self,
        named: &[Named],
        typed: &str,
        shown_by: Option<&ShownBy>,
        most: usize,
    ) -> Result<Vec<Known>, StoreError>;

    /// Sets the owner of every group anew by `owner_of`, except where a person said whose it is; returns how many changed.
    /// A merged group has its head's owner. Run at start and when rules change.
    async fn assign_owners(
        &self,
        owner_of: &(dyn for<'a> Fn(&'a Group) -> Option<String> + Send + Sync),
    ) -> Result<u64, StoreError>;

    /// Appends an audit row about no letter in particular (an export).
    async fn note(&self, event: Event, count: u64, deed: &Deed, now: Timestamp) -> Result<(), StoreError>;

    /// The audit log, newest first.
    async fn audit(&self, page: &Page) -> Result<AuditPage, StoreError>;

    /// Counts every letter anew and compares with what is kept: conservation. Reads everything; takes its time.
    async fn verify(&self) -> Result<Verification, StoreError>;

    /// Gets or keeps the lease `name` for `holder` for `ttl`. `None`: somebody else holds it.
    ///
    /// A lease that ran out can be taken by anybody. Keeping one's own lease does not change its fence. Processes that share a
    /// store go by the clock of the database; `now` is the clock of the caller, and that of [`Lease::until`].
    async fn lease(
        &self,
        name: &str,
        holder: &str,
        ttl: Duration,
        now: Timestamp,
    ) -> Result<Option<Lease>, StoreError>;

    /// The leases that are held now and whose names begin with `prefix`, by name.
    async fn leases(&self, prefix: &str, now: Timestamp) -> Result<Vec<Lease>, StoreError>;

    /// Whether several processes may have it open, so that work is divided by leases.
    fn is_shared(&self) -> bool;

    /// Gives a lease back before it runs out. Giving back what one does not hold changes nothing.
    async fn release(&self, name: &str, holder: &str) -> Result<(), StoreError>;

    /// Indexes letters whose texts and fields are not in the index yet; returns how many are left. Stores do so by
    /// themselves, behind the rows; tests and whoever fills a store call it to be done.
    async fn index_payloads(&self) -> Result<u64, StoreError>;

    /// Writes a consistent copy of everything to a new file while the store goes on working.
    async fn backup(&self, to: &Path) -> Result<(), StoreError>;

    /// Replaces everything by a backup, in one transaction, while the store goes on working. The backup is copied and
    /// checked first; `from` is not changed. What is stored meanwhile is replaced as well. The audit log is the backup's,
    /// with one entry for this restore.
    ///
    /// [`StoreError::BadBackup`] if the file is not a backup, or is damaged; [`StoreError::Newer`] if a newer version
    /// wrote it. Nothing was changed then, and the text names no path.
    async fn restore(&self, from: &Path, deed: &Deed, now: Timestamp) -> Result<(), StoreError>;

    /// Whether the store can be read and its writer answers.
    async fn ping(&self) -> Result<(), StoreError>;

    /// Finishes what is waiting and closes.
    async fn close(&self) -> Result<(), StoreError>;
}

/// A store, ready.
pub type DynStore = Arc<dyn Store>;

/// Opens the shared store at a `postgres://` URL. Without the feature `postgres` the answer is
/// [`StoreError::Unsupported`].
#[cfg(feature = "postgres")]
pub async fn open_postgres(url: &str, limits: StoreLimits) -> Result<DynStore, StoreError> {
    Ok(postgres::PostgresStore::connect(url, limits).await?)
}

#[cfg(not(feature = "postgres"))]
pub async fn open_postgres(_url: &str, _limits: StoreLimits) -> Result<DynStore, StoreError> {
    Err(StoreError::Unsupported("this program was built without the feature `postgres`".to_owned()))
}
