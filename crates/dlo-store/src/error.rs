//! Each variant is a different thing for the caller to *do*; the text is for the person reading it.
//!
//! A driver's error is read into a variant beside that driver's queries, never here: the codes of the two databases collide.

use dlo_core::id::{GroupId, LetterId, ReplayId};
use dlo_core::letter::Status;
use dlo_core::replay::{PlanRefusal, ReplayState};

/// Which disk is full. It is named by its role: an answer to a client shows no path of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Disk {
    /// Of the embedded store.
    DataDirectory,
    /// Of the PostgreSQL server.
    Database,
    /// Of the file that a backup is written to.
    Backup,
}

impl std::fmt::Display for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::DataDirectory => "the file system of the data directory",
            Self::Database => "the disk of the PostgreSQL server",
            Self::Backup => "the file system that the backup is written to",
        })
    }
}

#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    #[error("there is no letter {0}")]
    NoLetter(LetterId),

    #[error("there is no group {0}")]
    NoGroup(GroupId),

    #[error("there is no replay {0}")]
    NoReplay(ReplayId),

    /// Nothing was changed. A letter that is on its way, or closed, is not repaired.
    #[error("the letter {letter} is {found}; only an open letter can be repaired")]
    NotOpen { letter: LetterId, found: Status },

    /// It stands elsewhere than the caller thought. Nothing was changed: look again, then decide.
    #[error("the replay is {found}; {what}")]
    Conflict { found: ReplayState, what: String },

    /// Nothing was written.
    #[error(transparent)]
    PlanRefused(PlanRefusal),

    /// Somebody wrote it meanwhile. Nothing was changed: read it again, then decide.
    #[error("it was changed meanwhile: version {found} is there now, {known} was read")]
    Stale { found: i64, known: i64 },

    /// Busy, restarting, out of reach, or too slow for the deadline of the call. The same call may succeed later.
    #[error("the database did not answer: {0}")]
    Unavailable(String),

    /// Nothing was written. The same call succeeds when there is space again; to repeat it at once is no use.
    #[error("{0} is full: nothing was written, free some space on it")]
    DiskFull(Disk),

    /// The answer to a commit was lost: letters may be stored, or not. Sent again, those that have coordinates or a key of
    /// their own are recognised.
    #[error("the database did not answer: {0}")]
    Unconfirmed(String),

    /// More work is waiting than is held in memory. Slow down, then try again.
    #[error("the store has as much waiting as it holds; try again shortly")]
    Overloaded,

    /// A lease under which this was to be written is not held any more. Nothing was written: stop that work, somebody
    /// else does it now, or get the lease anew.
    #[error("the lease `{0}` is not held any more; nothing was written")]
    LeaseLost(String),

    /// Another process holds the embedded database. Stop it, or use PostgreSQL, where several work together.
    #[error(
        "{path} is in use by another dlo process (pid {pid}); stop it, use another `server.data`, or share a PostgreSQL database by `server.database`"
    )]
    InUse { path: String, pid: String },

    /// Written by a newer version. Nothing was changed; run that version or a later one.
    #[error(
        "the database was written by a newer version of dlo (schema {found}, this one knows up to {known}); nothing was changed: run that version or a later one"
    )]
    Newer { found: i64, known: i64 },

    /// A file that was to be restored and is not a backup, or is damaged. Nothing was changed.
    #[error("this backup cannot be restored: {0}; nothing was changed")]
    BadBackup(String),

    /// The question cannot be asked that way; the text says how.
    #[error("{0}")]
    Unsupported(String),

    /// A cursor that this store did not give.
    #[error("the cursor is not one of ours; start again without it")]
    BadCursor,

    /// A row that this version cannot read. It is left as it is.
    #[error("a stored value cannot be read: {0}")]
    Unreadable(String),

    /// A defect of ours, or a disk that fails: a query that the schema refuses, a write that the disk refuses.
    #[error("the database refused: {0}")]
    Refused(String),
}

impl StoreError {
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Unconfirmed(_) | Self::Overloaded | Self::DiskFull(_))
    }

    pub const fn is_disk_full(&self) -> bool {
        matches!(self, Self::DiskFull(_))
    }
}
