//! A consistent copy while the store works, by SQLite's own copying of pages. `restore/` is the way back.

use std::io::ErrorKind;
use std::path::Path;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::{deadline, open, read_error};
use crate::{Disk, StoreError};

/// Pages of a piece, 16 MiB; and pieces between two waits for the disk.
const PAGES: i32 = 4_096;
const PIECES: u32 = 4;

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
    copy_pages(&snapshot, &mut copy, to)?;
    drop(snapshot);
    copy.execute_batch("PRAGMA journal_mode = DELETE;").map_err(read_error)?;
    copy.close().map_err(|(_, e)| read_error(e))?;
    sync(to)
}

/// Copies piece by piece. Each is on the disk before the next, so that no single wait grows with the store.
fn copy_pages(from: &Connection, copy: &mut Connection, to: &Path) -> Result<(), StoreError> {
    let pages = Backup::new(from, copy).map_err(read_error)?;
    for piece in 1_u32.. {
        if pages.step(PAGES).map_err(read_error)? == StepResult::Done {
            break;
        }
        if piece.is_multiple_of(PIECES) {
            sync(to)?;
        }
        deadline::step();
    }
    Ok(())
}

fn sync(file: &Path) -> Result<(), StoreError> {
    std::fs::File::open(file)
        .and_then(|file| file.sync_all())
        .map_err(|e| StoreError::Refused(format!("{}: {e}", file.display())))
}
