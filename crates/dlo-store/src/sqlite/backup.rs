//! A consistent copy while the store works, and the way back.
//!
//! Both use SQLite's own copying of pages. A restore is one write transaction of the live database: a crash in the
//! middle leaves what was there before, and no reader sees rows of both. Groups and counts are answered from memory, which
//! follows right after that commit: for this moment a reader may find new rows beside the old groups.

use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use rusqlite::backup::Backup;
use rusqlite::{Connection, OpenFlags};

use super::catalog::Catalog;
use super::writer::Writer;
use super::{index, open, read_error, replays};
use crate::StoreError;

/// Copies everything to `to`, which must not be there yet.
pub(super) fn backup(db: &Connection, to: &Path) -> Result<(), StoreError> {
    open::make_private(to).map_err(|e| match e.kind() {
        ErrorKind::AlreadyExists => {
            StoreError::Unsupported(format!("{} is there already; name a new file", to.display()))
        }
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

/// Replaces everything by the copy at `from`, after making sure that it is one of ours and whole.
pub(super) fn restore(writer: &mut Writer, from: &Path) -> Result<(), StoreError> {
    let copy = Connection::open_with_flags(from, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(read_error)?;
    check(&copy, from)?;
    {
        let run = Backup::new(&copy, &mut writer.connection).map_err(read_error)?;
        run.run_to_completion(4_096, Duration::from_millis(5), None).map_err(read_error)?;
    }
    // The pages of the copy bring its settings along.
    writer.connection.execute_batch("PRAGMA journal_mode = WAL;").map_err(read_error)?;
    open::migrate(&mut writer.connection)?;
    writer.reload()
}

fn check(copy: &Connection, from: &Path) -> Result<(), StoreError> {
    let no_backup = |why: &str| {
        StoreError::Unsupported(format!(
            "{} is not a backup of the office: {why}; nothing was changed",
            from.display()
        ))
    };
    let version = open::version(copy).map_err(|_| no_backup("it is not a database"))?;
    if version > open::known_version() {
        return Err(StoreError::Newer { found: version, known: open::known_version() });
    }
    let tables: i64 = copy
        .query_row(
            "SELECT count(*) FROM sqlite_master WHERE name IN ('letters', 'groups', 'audit')",
            [],
            |row| row.get(0),
        )
        .map_err(|_| no_backup("it cannot be read"))?;
    if version < 1 || tables != 3 {
        return Err(no_backup("it has none of the office's tables"));
    }
    let health: String = copy
        .query_row("PRAGMA quick_check(1)", [], |row| row.get(0))
        .map_err(|_| no_backup("it is damaged"))?;
    if health != "ok" {
        return Err(no_backup("it is damaged"));
    }
    // Read again after the copying, when it is too late to refuse. An older copy has to be migrated before it can be read.
    if version == open::known_version() {
        Catalog::load(copy).map_err(|_| no_backup("its groups cannot be read"))?;
    }
    Ok(())
}

impl Writer {
    /// Begins again from what the database holds.
    pub(super) fn reload(&mut self) -> Result<(), StoreError> {
        replays::sweep(&self.connection)?;
        let loaded = Catalog::load(&self.connection)?;
        let waiting = index::waiting(&self.connection)?;
        self.next_block = super::next_block(&self.connection)?;
        self.next_replay = replays::next_row(&self.connection)?;
        self.shared.epoch.fetch_add(1, Ordering::SeqCst);
        self.shared.next_segment.fetch_max(index::next_segment(&self.connection)?, Ordering::SeqCst);
        self.shared.change(|catalog| *catalog = loaded);
        self.shared.unindexed.store(waiting, Ordering::Relaxed);
        Ok(())
    }
}
