//! Restore: check a backup in a file of its own, then replace everything by it in one transaction.
//!
//! | step | file | what it refuses |
//! |---|---|---|
//! | copy to the staging directory | here | a file that cannot be read, a full disk |
//! | read the first 100 bytes | [`header`] | not SQLite, a cut file, another page size or encoding |
//! | compare the schema | [`schema`] | an unknown version; a table, column, index, trigger or view that differs |
//! | `PRAGMA integrity_check` | here | damaged pages, indexes that differ from their tables, a damaged token index |
//! | open it as at a start | here | a migration that fails, groups that cannot be read |
//! | read every cell | [`cells`] | a value that has not the type of its column |
//! | compare the tables | [`relations`] | counts that differ, rows that point to nothing |
//! | read everything as the pages do | [`contents`] | a payload, a letter, a replay or an audit entry that cannot be read |
//! | check the text index | [`text_index`] | nothing: a damaged one is made again |
//! | write the audit entry | here | |
//! | replace the office's content | [`swap`] | |
//!
//! Up to the last step nothing but the staging directory is written, so a refusal changes nothing. If the process dies
//! between two steps, the next start finds the old office and removes the staging directory. See [`swap`] for a crash in
//! the last step.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::writer::{Shared, Writer};
use super::{audit, deadline, open, read_error};
use crate::{Disk, StoreError, StoreLimits};

mod cells;
mod contents;
mod header;
mod relations;
mod schema;
mod swap;
mod text_index;

pub(super) use swap::swap;

/// Names of staging directories begin with this, inside the data directory.
const STAGING: &str = "restoring-";

/// Bytes of a file that are copied in one step.
const PIECE: u64 = 16 * 1024 * 1024;

/// A directory for one restore, removed when it is dropped.
#[derive(Debug)]
struct Staging(PathBuf);

impl Staging {
    fn new(data: &Path) -> Result<Self, StoreError> {
        let directory = data.join(format!("{STAGING}{:016x}", rand::random::<u64>()));
        DirBuilder::new().mode(0o700).create(&directory).map_err(cannot_stage)?;
        Ok(Self(directory))
    }

    fn database(&self) -> PathBuf {
        self.0.join("office.db")
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_dir_all(&self.0) {
            tracing::warn!(%error, "a staging directory of a restore is left; the next start removes it");
        }
    }
}

/// Removes what a crash left of a restore. The caller holds the lock of the data directory.
pub(super) fn sweep(data: &Path) {
    for entry in std::fs::read_dir(data).into_iter().flatten().filter_map(Result::ok) {
        if !entry.file_name().to_str().is_some_and(|name| name.starts_with(STAGING)) {
            continue;
        }
        match std::fs::remove_dir_all(entry.path()) {
            Ok(()) => {
                tracing::info!("removed what a crash left of a restore; nothing of it was in the office")
            }
            Err(error) => tracing::warn!(%error, "a staging directory of a restore cannot be removed"),
        }
    }
}

/// A backup that passed every check, opened and of this version.
#[derive(Debug)]
pub(super) struct Staged {
    // Before the directory: it is closed before its file is removed.
    writer: Writer,
    _directory: Staging,
}

/// Copies the file at `from` into the data directory and checks it; `note` is written into its audit log.
///
/// Reads everything and may take minutes. Memory: the groups, as at a start, and one block or page of rows at a time.
pub(super) fn stage(
    from: &Path,
    data: &Path,
    limits: &StoreLimits,
    note: &audit::Row,
) -> Result<Staged, StoreError> {
    let directory = Staging::new(data)?;
    let database = directory.database();
    copy(from, &database)?;
    header::check(&database)?;
    {
        let unknown = open_unknown(&database)?;
        schema::check(&unknown)?;
        check_integrity(&unknown)?;
    }
    let writer = Writer::open(&database, limits, Arc::new(Shared::default())).map_err(refusal)?;
    // The copy is thrown away by a crash in any case.
    writer.connection.execute_batch("PRAGMA synchronous = OFF;").map_err(read_error)?;
    let (db, shared) = (&writer.connection, &writer.shared);
    cells::check(db).map_err(refusal)?;
    relations::check(db).map_err(refusal)?;
    contents::check(db, shared).map_err(refusal)?;
    text_index::mend(db).map_err(refusal)?;
    audit::append(db, note).map_err(refusal)?;
    Ok(Staged { writer, _directory: directory })
}

fn copy(from: &Path, to: &Path) -> Result<(), StoreError> {
    let mut source = File::open(from).map_err(cannot_stage)?;
    open::make_private(to).map_err(cannot_stage)?;
    let mut target = OpenOptions::new().write(true).open(to).map_err(cannot_stage)?;
    while std::io::copy(&mut source.by_ref().take(PIECE), &mut target).map_err(cannot_stage)? > 0 {
        deadline::step();
    }
    Ok(())
}

/// Opens a file that anybody may have written: its schema runs nothing, and pages are checked as they are read.
fn open_unknown(database: &Path) -> Result<Connection, StoreError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let unread = |error| refused(format!("it cannot be opened: {}", said(&error)));
    let mut connection = Connection::open_with_flags(database, flags).map_err(unread)?;
    deadline::report_steps(&mut connection)?;
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_DEFENSIVE, true).map_err(unread)?;
    connection
        .execute_batch(
            "PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA temp_store = MEMORY;",
        )
        .map_err(unread)?;
    Ok(connection)
}

/// Also compares indexes with their tables, `NOT NULL` with the rows, and the tokens with their index.
fn check_integrity(db: &Connection) -> Result<(), StoreError> {
    let damaged = |why: &str| refused(format!("it is damaged: {}", printable(why)));
    let mut statement = db.prepare("PRAGMA integrity_check(1)").map_err(|error| damaged(&said(&error)))?;
    let found: String = statement.query_row([], |row| row.get(0)).map_err(|error| damaged(&said(&error)))?;
    if found == "ok" { Ok(()) } else { Err(damaged(&found)) }
}

fn cannot_stage(error: std::io::Error) -> StoreError {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::DiskFull(Disk::DataDirectory),
        kind => StoreError::Refused(format!("the backup cannot be copied: {kind}")),
    }
}

fn refused(why: impl Into<String>) -> StoreError {
    StoreError::BadBackup(why.into())
}

/// What a check of the staged office found, as a refusal of the backup. A full disk is no fault of the backup.
fn refusal(error: StoreError) -> StoreError {
    match error {
        StoreError::BadBackup(_)
        | StoreError::Newer { .. }
        | StoreError::Unavailable(_)
        | StoreError::DiskFull(_) => error,
        StoreError::Unreadable(why) | StoreError::Refused(why) => refused(printable(&why)),
        error => refused(printable(&error.to_string())),
    }
}

/// What SQLite says, without the file or the statement it says it of.
fn said(error: &rusqlite::Error) -> String {
    match error {
        rusqlite::Error::SqliteFailure(_, Some(message)) => printable(message),
        rusqlite::Error::SqliteFailure(failure, None) => failure.to_string(),
        rusqlite::Error::SqlInputError { msg, .. } => printable(msg),
        error => printable(&error.to_string()),
    }
}

/// Text that a backup brings: on one line, and no longer than a sentence.
fn printable(text: &str) -> String {
    const MOST: usize = 200;
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(MOST).collect();
    line.trim().to_string()
}
