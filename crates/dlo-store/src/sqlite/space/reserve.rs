//! The file that keeps space on the disk, and how its space becomes the free end of the write-ahead log.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

use rusqlite::Connection;

use super::super::writer::Job;

/// The smallest part of the reserve that is worth a try.
pub(super) const LEAST: u64 = 64 << 10;

/// The file in a data directory. It has no content that matters.
#[derive(Debug)]
pub(super) struct Reserve(PathBuf);

impl Reserve {
    pub(super) fn of(directory: &Path) -> Self {
        Self(directory.join("office.reserve"))
    }

    /// Makes it, unless it is there in this size. Half a reserve does not stay.
    pub(super) fn make(&self, size: u64) -> std::io::Result<()> {
        if self.is_there(size) {
            return Ok(());
        }
        let mut file =
            OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&self.0)?;
        let made = allocate(&mut file, 0, size);
        if made.is_err() {
            self.remove();
        }
        made
    }

    pub(super) fn is_there(&self, size: u64) -> bool {
        std::fs::metadata(&self.0).is_ok_and(|file| file.len() >= size)
    }

    pub(super) fn remove(&self) {
        if let Err(error) = std::fs::remove_file(&self.0)
            && error.kind() != ErrorKind::NotFound
        {
            tracing::debug!(%error, "the reserve cannot be removed");
        }
    }
}

/// Makes the log so long that `reserve` bytes follow its last frame, or as many as there are.
pub(super) fn extend(connection: &Connection, log: &Path, reserve: u64) -> std::io::Result<()> {
    /// Bytes of a frame: a page and its header. The header of the file adds less.
    const FRAME: u64 = 4096 + 24;
    let mut file = OpenOptions::new().write(true).open(log)?;
    let length = file.metadata()?.len();
    // A reader may keep the log from beginning at its start again: the reserve follows the last frame in any case.
    let frames = connection.query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |row| row.get::<_, i64>(1));
    let used = frames.map_or(length, |frames| (frames.unsigned_abs() + 1) * FRAME);
    let mut missing = (used + reserve).saturating_sub(length);
    while missing >= LEAST {
        match allocate(&mut file, length, missing) {
            Ok(()) => return Ok(()),
            Err(_) => missing /= 2,
        }
    }
    Ok(())
}

/// Makes the file system set aside `size` bytes at `from`.
fn allocate(file: &mut File, from: u64, size: u64) -> std::io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    use rustix::io::Errno;
    match fallocate(&*file, FallocateFlags::empty(), from, size) {
        Ok(()) => Ok(()),
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
            file.seek(SeekFrom::Start(from))?;
            std::io::copy(&mut std::io::repeat(0).take(size), file)?;
            file.flush()
        }
        Err(error) => Err(error.into()),
    }
}

/// Has the writing thread give the reserve to the write-ahead log.
pub(in super::super) fn give_reserve(jobs: &Sender<Job>) {
    // Without a writer nothing is written any more.
    let _ = jobs.send(Job::Run(Box::new(|writer| writer.shared.space.give(&writer.connection))));
}
