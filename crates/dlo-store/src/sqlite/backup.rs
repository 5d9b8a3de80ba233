//! A consistent copy while the store works, by SQLite's own copying of pages. `restore/` is the way back.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::{open, read_error};
use crate::{Disk, StoreError};

/// Copies everything to `to`, which must not be there yet.
pub(super) fn backup(db: &Connection, to: &Path) -> Result<(), StoreError> {
    copy(db, to).map_err(|error| match error {
        StoreError::DiskFull(_) => StoreError::DiskFull(Disk::Backup),
        other => other,
    })
}

fn copy(db: &Connection, to: &Path) -> Result<(), StoreError> {
    open::make_private(to).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => {
            StoreError::Unsupported(format!("{} is there already; name a new file", to.display()))
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => StoreError::DiskFull(Disk::Backup),
        _ => StoreError::Refused(format!("{}: {e}", to.display())),
    })?;
    let mut copy = Connection::open(to).map_err(read_error)?;
    // A snapshot held open: without it every commit of the writer would make the copying begin anew.
    let snapshot = db.unchecked_transaction().map_err(read_error)?;
    snapshot.query_row("SELECT count(*) FROM sources", [], |row| row.get::<_, i64>(0)).map_err(read_error)?;
    Backup::new(&snapshot, &mut copy)
        .and_then(|run| run.run_to_completion(4_096, Duration::ZERO, None))
        .map_err(read_error)?;
    drop(snapshot);
    copy.execute_batch("PRAGMA journal_mode = DELETE;").map_err(read_error)?;
    copy.close().map_err(|(_, e)| read_error(e))?;
    std::fs::File::open(to)
        .and_then(|file| file.sync_all())
        .map_err(|e| StoreError::Refused(format!("{}: {e}", to.display())))
}
