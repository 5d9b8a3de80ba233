//! Space on the disk of the data directory: a watch, a reserve, and the state in which letters are refused.
//!
//! While there is space, the file `office.reserve` keeps some of it. When the disk is full, letters are refused, the reserve is
//! removed, and its space becomes the free end of the write-ahead log, where no other process can take it. The office then
//! writes there what reading and running work need: audit entries, decisions, results of sends. Letters are accepted again
//! when there is space for a new reserve. The reserve has no content, so a crash leaves nothing to repair.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

use rusqlite::Connection;

use super::writer::Shared;
use crate::{Disk, StoreError};

mod reserve;

use reserve::Reserve;
pub(super) use reserve::give_reserve;

/// The largest reserve, for file systems of 128 MiB and more. Smaller ones keep a sixteenth.
const RESERVE: u64 = 8 << 20;
/// Free bytes below which an error without a clear cause is blamed on the disk.
const EXHAUSTED: u64 = 64 << 10;
/// Time between two looks at the disk.
const LOOK: Duration = Duration::from_millis(500);
/// Letters are refused at least this long after a write failed for want of space.
const HOLD: Duration = Duration::from_secs(2);

/// The watch over one data directory. Without a directory there is always space: that of a staged restore.
#[derive(Debug, Default)]
pub(super) struct Space {
    directory: Option<PathBuf>,
    /// Letters are refused. Read for every batch.
    full: AtomicBool,
    state: Mutex<State>,
    watcher: OnceLock<Thread>,
    closed: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Since when the disk is full.
    since: Option<Instant>,
    /// When a write failed last.
    failed: Option<Instant>,
    /// The reserve was given to the write-ahead log.
    given: bool,
}

/// What the file system says.
#[derive(Debug, Clone, Copy)]
struct Measured {
    available: u64,
    reserve: u64,
}

/// Of a file system that does not say how much is free, only a write tells whether there is space.
const UNKNOWN: Measured = Measured { available: u64::MAX, reserve: RESERVE };

impl Measured {
    /// Free bytes below which letters are refused.
    const fn low(self) -> u64 {
        self.reserve / 4
    }

    /// Free bytes at which a reserve is made. More than a removed reserve leaves, so that the state does not flip.
    const fn ample(self) -> u64 {
        self.reserve + 2 * self.low()
    }
}

impl Space {
    /// Looks at the disk before the database is opened. On a full disk, opening needs the space of the reserve.
    pub(super) fn open(directory: &Path) -> Self {
        let space = Self { directory: Some(directory.to_path_buf()), ..Self::default() };
        // Without a reserve, the disk was full when the last process ended, or is new to us: the higher bound holds.
        let is_full = |found: Measured| {
            let is_kept = Reserve::of(directory).is_there(found.reserve);
            found.available < if is_kept { found.low() } else { found.ample() }
        };
        if space.measure().is_some_and(is_full) {
            space.refuse(false);
            Reserve::of(directory).remove();
        }
        space
    }

    pub(super) fn is_full(&self) -> bool {
        self.full.load(Ordering::Relaxed)
    }

    /// Refuses what takes much space while the disk is full.
    pub(super) fn check(&self) -> Result<(), StoreError> {
        if self.is_full() { Err(StoreError::DiskFull(Disk::DataDirectory)) } else { Ok(()) }
    }

    /// Reads the error of a write: if the disk is full, letters are refused from now on, and the error says so. SQLite reports
    /// some failures on a full disk as plain I/O errors.
    pub(super) fn judge(&self, error: StoreError) -> StoreError {
        let is_full = match &error {
            StoreError::DiskFull(_) => true,
            StoreError::Refused(_) => self.measure().is_some_and(|found| found.available < EXHAUSTED),
            _ => false,
        };
        if !is_full || self.directory.is_none() {
            return error;
        }
        if let StoreError::Refused(cause) = &error {
            tracing::debug!(cause, "a write failed on a full disk");
        }
        self.refuse(true);
        StoreError::DiskFull(Disk::DataDirectory)
    }

    fn refuse(&self, by_failure: bool) {
        let mut state = self.state();
        if by_failure {
            state.failed = Some(Instant::now());
        }
        if self.full.swap(true, Ordering::Relaxed) {
            return;
        }
        state.since = Some(Instant::now());
        drop(state);
        if let Some(directory) = &self.directory {
            tracing::error!(
                directory = %directory.display(),
                "the file system of the data directory is full: letters are refused until there is space again"
            );
        }
        self.wake();
    }

    fn accept(&self) {
        let mut state = self.state();
        let since = std::mem::take(&mut *state).since;
        self.full.store(false, Ordering::Relaxed);
        let seconds = since.map_or(0, |since| since.elapsed().as_secs());
        tracing::warn!(
            seconds,
            recovered = true,
            "the file system of the data directory has space again: letters are accepted"
        );
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self) {
        if let Some(watcher) = self.watcher.get() {
            watcher.unpark();
        }
    }

    /// `None` if the file system does not say, or has no size.
    fn measure(&self) -> Option<Measured> {
        let found = rustix::fs::statvfs(self.directory.as_ref()?).ok()?;
        let total = found.f_blocks.saturating_mul(found.f_frsize);
        let available = found.f_bavail.saturating_mul(found.f_frsize);
        (total > 0).then(|| Measured { available, reserve: RESERVE.min(total / 16) })
    }

    /// One look: `true` if the reserve is to be given to the write-ahead log now.
    fn look(&self) -> bool {
        let found = self.measure().unwrap_or(UNKNOWN);
        if !self.is_full() {
            if found.available < found.low() {
                self.refuse(false);
            } else if found.available >= found.ample() {
                // Without it, reading may fail on a full disk. The next look tries again.
                let _ = self.reserve(found.reserve);
            }
        } else if self.may_accept(found) && self.reserve(found.reserve).is_ok() {
            self.accept();
        }
        self.take_turn_to_give()
    }

    fn may_accept(&self, found: Measured) -> bool {
        let held = self.state().failed.is_some_and(|failed| failed.elapsed() < HOLD);
        !held && found.available >= found.ample()
    }

    fn take_turn_to_give(&self) -> bool {
        self.is_full() && !std::mem::replace(&mut self.state().given, true)
    }

    fn reserve(&self, size: u64) -> std::io::Result<()> {
        self.directory.as_ref().map_or(Ok(()), |directory| Reserve::of(directory).make(size))
    }

    /// Gives the space of the reserve to the write-ahead log. On the writing thread, between two transactions. SQLite ignores
    /// zeros behind its last frame, and overwrites them.
    pub(super) fn give(&self, connection: &Connection) {
        let Some(directory) = &self.directory else { return };
        let found = self.measure().unwrap_or(UNKNOWN);
        self.state().given = true;
        Reserve::of(directory).remove();
        if let Err(error) = reserve::extend(connection, &directory.join("office.db-wal"), found.reserve) {
            tracing::debug!(%error, "the write-ahead log has no reserve");
        }
    }

    /// Keeps what space there is for the next start. Called when the database is closed.
    pub(super) fn close(&self) {
        let Some(found) = self.measure() else { return };
        let mut size = found.reserve;
        while size >= reserve::LEAST && self.reserve(size).is_err() {
            size /= 2;
        }
    }
}

/// The thread that looks. It ends when this is dropped.
#[derive(Debug)]
pub(super) struct Watching(Arc<Shared>);

impl Watching {
    /// `give` hands the reserve to the write-ahead log, on the writing thread.
    pub(super) fn start(shared: &Arc<Shared>, give: impl Fn() + Send + 'static) -> Result<Self, StoreError> {
        let watched = Arc::clone(shared);
        let thread = std::thread::Builder::new().name("dlo-store-space".into()).spawn(move || {
            while !watched.space.closed.load(Ordering::Relaxed) {
                if watched.space.look() {
                    give();
                }
                std::thread::park_timeout(LOOK);
            }
        });
        let thread = thread.map_err(|e| {
            StoreError::Refused(format!("cannot start the thread that watches the disk: {e}"))
        })?;
        let _ = shared.space.watcher.set(thread.thread().clone());
        Ok(Self(Arc::clone(shared)))
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.space.closed.store(true, Ordering::Relaxed);
        self.0.space.wake();
    }
}

#[cfg(test)]
mod tests;
