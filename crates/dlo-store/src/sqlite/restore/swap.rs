//! The last step: the content of the office is replaced in one transaction, and taken back if the new one does not serve.
//!
//! | the process dies | the next start finds |
//! |---|---|
//! | before the commit | the old office: pages of the backup are in the write-ahead log without a commit |
//! | behind the commit | the new office, with the audit entry of the restore: it was in the copy before |
//! | while the old content is put back | the new office, or the old one behind that commit |
//!
//! In each case the staging directory is left, and the start removes it. Nothing is read from the database between the
//! commit and the change in memory: what the memory needs was read from the copy before. Letters that were stored while
//! the backup was checked are replaced like all others.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};

use super::super::catalog::Catalog;
use super::super::writer::{InMemory, Writer};
use super::super::{open, read_error};
use super::Staged;
use crate::StoreError;

/// Pages that are copied between two looks at how many are left.
const PAGES: i32 = 4_096;
/// Nobody else writes; only a checkpoint may hold the file for a moment.
const PAUSE: Duration = Duration::from_millis(5);

/// Replaces the content of `database`, which is the writer's, by the staged one.
pub(in super::super) fn swap(
    writer: &mut Writer,
    database: &Path,
    staged: &Staged,
) -> Result<(), StoreError> {
    swap_if(writer, database, staged, || serves(database))
}

fn swap_if(
    writer: &mut Writer,
    database: &Path,
    staged: &Staged,
    serves: impl FnOnce() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    let new = InMemory::read(&staged.writer.connection)?;
    // The snapshot keeps the old pages: no checkpoint overwrites what a reader may still ask for.
    let old = open::reader(database)?;
    let old = old.unchecked_transaction().map_err(read_error)?;
    open::version(&old)?;
    let former = replace(writer, &staged.writer.connection, new)?;
    let Err(error) = serves() else { return Ok(()) };
    tracing::error!(%error, "the restored office does not serve; the former one is put back");
    replace(writer, &old, former)?;
    Err(StoreError::Refused(format!(
        "the restored office does not serve, and the former one was put back: {error}"
    )))
}

/// Copies every page in one transaction and changes the memory with the commit. Returns what was in memory.
fn replace(writer: &mut Writer, from: &Connection, new: InMemory) -> Result<InMemory, StoreError> {
    let shared = Arc::clone(&writer.shared);
    let InMemory { catalog, numbers } = new;
    let catalog = {
        // Dropped without the last step, it rolls back.
        let copying = Backup::new(from, &mut writer.connection).map_err(read_error)?;
        step(&copying, 0)?;
        while copying.progress().remaining > PAGES {
            step(&copying, PAGES)?;
        }
        // Readers wait for the commit: none sees the groups of one office and the letters of the other.
        shared.change(|current| {
            while step(&copying, PAGES)? != StepResult::Done {}
            Ok::<_, StoreError>(std::mem::replace(current, catalog))
        })?
    };
    Ok(InMemory { catalog, numbers: writer.take_over(numbers) })
}

fn step(copying: &Backup<'_, '_>, pages: i32) -> Result<StepResult, StoreError> {
    let result = copying.step(pages).map_err(read_error)?;
    if matches!(result, StepResult::Busy | StepResult::Locked) {
        std::thread::sleep(PAUSE);
    }
    Ok(result)
}

/// Whether a start would find an office: opened anew, of this version, with its groups, and with a log for writing.
fn serves(database: &Path) -> Result<(), StoreError> {
    let fresh = open::reader(database)?;
    let mode: String = fresh.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(read_error)?;
    let version = open::version(&fresh)?;
    if mode != "wal" || version != open::known_version() {
        return Err(StoreError::Refused(format!("it has the journal `{mode}` and the version {version}")));
    }
    Catalog::load(&fresh)?;
    fresh.query_row(super::super::PROBE, [], |_| Ok(())).map_err(read_error)
}

#[cfg(test)]
mod tests;
