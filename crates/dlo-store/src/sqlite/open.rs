//! Opening the embedded database: one process at a time, the right pragmas, migrations forward.
//!
//! The lock is a file of its own, held by the operating system for as long as the process lives; a crash
//! frees it. A database written by a newer version is refused before anything is changed. What is made here is for its
//! owner alone: payloads are other people's data. What is there already keeps the rights that somebody gave it.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags};

use super::{deadline, read_error};
use crate::StoreError;

/// Every migration, in order. Added to, never edited: the number of a migration is its place plus one.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_letters.sql"),
    include_str!("../../migrations/sqlite/0002_marks.sql"),
    include_str!("../../migrations/sqlite/0003_replays.sql"),
    include_str!("../../migrations/sqlite/0004_triage.sql"),
    include_str!("../../migrations/sqlite/0005_grams.sql"),
    include_str!("../../migrations/sqlite/0006_splits.sql"),
    include_str!("../../migrations/sqlite/0007_segments.sql"),
    include_str!("../../migrations/sqlite/0008_suspects.sql"),
    include_str!("../../migrations/sqlite/0009_mark_batches.sql"),
];

/// Pages of the write-ahead log, 96 MB, at which the writer folds what `fold.rs` has left of it, so that it begins anew.
const CHECKPOINT_PAGES: i64 = 24_000;

/// The files of an embedded store in its data directory.
#[derive(Debug)]
pub(super) struct Home {
    pub(super) database: PathBuf,
    /// Held for as long as the store lives.
    _lock: File,
}

impl Home {
    /// Makes the directory if needed and takes the lock.
    pub(super) fn take(directory: &Path) -> Result<Self, StoreError> {
        let refused = |what: &str, e: std::io::Error| {
            StoreError::Refused(format!(
                "{what} {}: {e}; check `server.data` and its rights",
                directory.display()
            ))
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(directory)
            .map_err(|e| refused("cannot make the data directory", e))?;
        let path = directory.join("office.lock");
        let mut lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .mode(0o600)
            .open(path)
            .map_err(|e| refused("cannot write in the data directory", e))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(in_use(directory, &mut lock)),
            Err(TryLockError::Error(e)) => return Err(refused("cannot lock the data directory", e)),
        }
        // The number is for people who are refused; losing it to a crash harms nothing.
        let _ = lock
            .set_len(0)
            .and_then(|()| lock.rewind())
            .and_then(|()| write!(lock, "{}", std::process::id()));
        let database = directory.join("office.db");
        match make_private(&database) {
            Err(e) if e.kind() != ErrorKind::AlreadyExists => {
                Err(refused("cannot write in the data directory", e))
            }
            _ => Ok(Self { database, _lock: lock }),
        }
    }
}

/// Makes an empty file that only its owner may read. SQLite takes it for an empty database, and gives the files that it
/// puts beside it the same rights.
pub(super) fn make_private(path: &Path) -> std::io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

fn in_use(directory: &Path, lock: &mut File) -> StoreError {
    let mut pid = String::new();
    let known = lock.rewind().and_then(|()| lock.read_to_string(&mut pid)).is_ok() && !pid.trim().is_empty();
    let pid = if known { pid.trim().to_string() } else { "unknown".to_string() };
    StoreError::InUse { path: directory.display().to_string(), pid }
}

/// The one connection that writes. Migrates first.
pub(super) fn writer(database: &Path) -> Result<Connection, StoreError> {
    // One thread uses it: SQLite need not lock it at every call.
    let flags =
        OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(database, flags).map_err(read_error)?;
    refuse_newer(&connection)?;
    connection
        .execute_batch(&format!(
            "PRAGMA page_size = 4096; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = -16000;
             PRAGMA temp_store = MEMORY; PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES};
             PRAGMA journal_size_limit = 67108864; PRAGMA foreign_keys = OFF;"
        ))
        .map_err(read_error)?;
    connection.set_prepared_statement_cache_capacity(64);
    deadline::report_steps(&mut connection)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// The connection that folds the write-ahead log into the database.
pub(super) fn folder(database: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(database, flags).map_err(read_error)?;
    connection
        .execute_batch("PRAGMA synchronous = FULL; PRAGMA wal_autocheckpoint = 0; PRAGMA cache_size = -1000;")
        .map_err(read_error)?;
    Ok(connection)
}

/// A connection that only reads.
pub(super) fn reader(database: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let mut connection = Connection::open_with_flags(database, flags).map_err(read_error)?;
    connection.execute_batch("PRAGMA cache_size = -4000; PRAGMA temp_store = MEMORY;").map_err(read_error)?;
    deadline::report_steps(&mut connection)?;
    connection.set_prepared_statement_cache_capacity(64);
    Ok(connection)
}

/// The schema version that this build writes.
pub(super) fn known_version() -> i64 {
    MIGRATIONS.len() as i64
}

pub(super) fn version(connection: &Connection) -> Result<i64, StoreError> {
    connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(read_error)
}

/// An empty database in memory with the schema of a version.
pub(super) fn empty(version: i64) -> Result<Connection, StoreError> {
    let connection = Connection::open_in_memory().map_err(read_error)?;
    let known = usize::try_from(version).unwrap_or(0);
    for sql in MIGRATIONS.iter().take(known) {
        connection.execute_batch(sql).map_err(read_error)?;
    }
    Ok(connection)
}

fn refuse_newer(connection: &Connection) -> Result<(), StoreError> {
    let found = version(connection)?;
    if found > known_version() {
        return Err(StoreError::Newer { found, known: known_version() });
    }
    Ok(())
}

/// Brings an older database up to this version, each migration in a transaction of its own.
fn migrate(connection: &mut Connection) -> Result<(), StoreError> {
    refuse_newer(connection)?;
    let found = version(connection)?;
    for (index, sql) in MIGRATIONS.iter().enumerate().skip(usize::try_from(found).unwrap_or(0)) {
        if let Err(error) = migrate_to(connection, index as i64 + 1, sql) {
            let (found, wanted) = (version(connection)?, known_version());
            tracing::error!(found, wanted, "the database of an older version must be migrated first");
            return Err(error);
        }
    }
    Ok(())
}

fn migrate_to(connection: &mut Connection, version: i64, sql: &str) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(read_error)?;
    transaction.execute_batch(sql).map_err(read_error)?;
    transaction.pragma_update(None, "user_version", version).map_err(read_error)?;
    transaction.commit().map_err(read_error)
}
