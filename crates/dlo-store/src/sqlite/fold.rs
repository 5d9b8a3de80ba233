//! Folding the write-ahead log into the database, beside the writer.
//!
//! Left to SQLite, the commit that fills the log also folds it, and every letter behind it waits for the disk. A thread
//! with a connection of its own does it passively instead: the writer goes on, and what is folded once more after a
//! crash is folded to the same bytes. If the log grows faster than it is folded, the writer's own bound still holds.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use rusqlite::Connection;

use super::writer::Shared;
use super::{open, read_error};
use crate::StoreError;

/// Bytes of the log that are worth folding.
const WORTHWHILE: u64 = 24 * 1024 * 1024;
/// How often the log is looked at.
const LOOK: Duration = Duration::from_millis(100);
/// After a failure it is tried again this much later.
const PAUSE: Duration = Duration::from_secs(5);

/// The thread ends when this is dropped.
#[derive(Debug)]
pub(super) struct Folding {
    _end: Sender<()>,
}

impl Folding {
    pub(super) fn start(database: &Path, shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let connection = open::folder(database)?;
        let log = PathBuf::from(format!("{}-wal", database.display()));
        let (end, ended) = std::sync::mpsc::channel();
        let shared = Arc::clone(shared);
        std::thread::Builder::new()
            .name("dlo-store-fold".into())
            .spawn(move || run(&connection, &log, &shared, &ended))
            .map_err(|e| StoreError::Refused(format!("cannot start the folding thread: {e}")))?;
        Ok(Self { _end: end })
    }
}

fn run(connection: &Connection, log: &Path, shared: &Shared, ended: &Receiver<()>) {
    let mut patience = LOOK;
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(patience) {
        patience = LOOK;
        let bytes = std::fs::metadata(log).map_or(0, |file| file.len());
        if bytes > WORTHWHILE
            && let Err(error) = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |_| Ok(()))
        {
            let error = shared.space.judge(read_error(error));
            patience = PAUSE;
            if !error.is_disk_full() {
                tracing::warn!(%error, "the write-ahead log could not be folded; the writer will do it");
            }
        }
    }
}
