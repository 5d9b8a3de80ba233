//! A numbered place below the directory of the journal: a lock, the map, the suspects.
//!
//! Who holds the lock owns the place; the kernel lets go of it when the owner dies. The lock's file is never
//! removed, or two could hold one place. A file that cannot be understood is set aside under another name: it is
//! there to be looked at, and nobody is kept from starting.

use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use dlo_core::poison::{Crash, Mark};
use dlo_core::time::Timestamp;

use super::layout::{self, Layout, Note};
use super::{Down, JournalError, MOST_PLACES, kept};
use crate::private;

#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    map: PathBuf,
    suspects: PathBuf,
    _lock: File,
}

/// What the last owner of a place left in it.
#[derive(Debug, Default)]
pub(super) struct Leftover {
    pub(super) down: Option<Down>,
    pub(super) suspects: Vec<(Mark, Crash)>,
    /// In the order in which they were noted.
    pub(super) notes: Vec<Note>,
}

impl Place {
    /// The lowest that nobody holds.
    pub(super) fn take(directory: &Path) -> Result<Self, JournalError> {
        for number in 0..MOST_PLACES {
            let path = directory.join(number.to_string());
            private::create_directory(&path).map_err(failed("create", &path))?;
            if let Some(place) = Self::lock(path)? {
                return Ok(place);
            }
        }
        Err(JournalError::NoPlace { directory: directory.to_owned() })
    }

    /// The other places that are there and that nobody holds, with what was left in them. Held until they are cleared.
    pub(super) fn others(&self, directory: &Path) -> Vec<(Self, Leftover)> {
        let paths = (0..MOST_PLACES).map(|number| directory.join(number.to_string()));
        let mut others = Vec::new();
        for path in paths.filter(|path| *path != self.path && path.is_dir()) {
            let taken = Self::lock(path.clone()).and_then(|place| match place {
                Some(place) => place.leftover().map(|leftover| Some((place, leftover))),
                None => Ok(None),
            });
            match taken {
                Ok(taken) => others.extend(taken),
                // It is not ours: what cannot be read there keeps nobody from starting here.
                Err(error) => tracing::warn!(%error, "left alone what another instance left in its journal"),
            }
        }
        others
    }

    fn lock(path: PathBuf) -> Result<Option<Self>, JournalError> {
        let file = path.join("lock");
        let lock = private::options().create(true).truncate(false).write(true).open(&file);
        let lock = lock.map_err(failed("open", &file))?;
        match lock.try_lock() {
            Ok(()) => {
                let (map, suspects) = (path.join("map"), path.join("suspects"));
                Ok(Some(Self { path, map, suspects, _lock: lock }))
            }
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(failed("lock", &file)(source)),
        }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    pub(super) fn map(&self) -> &Path {
        &self.map
    }

    pub(super) fn leftover(&self) -> Result<Leftover, JournalError> {
        let mut leftover = understood(&self.map, layout::LONGEST, read_map)?.unwrap_or_default();
        leftover.suspects = understood(&self.suspects, kept::LONGEST, kept::read)?.unwrap_or_default();
        Ok(leftover)
    }

    /// Puts these suspects in the place of those before, in one step.
    pub(super) fn keep(&self, suspects: &[u8]) -> Result<(), JournalError> {
        replace(&self.suspects, suspects).map(drop)
    }

    /// Puts a map in the place of the one before, in one step, and returns it open.
    pub(super) fn renew(&self, bytes: &[u8]) -> Result<File, JournalError> {
        replace(&self.map, bytes)
    }

    /// Removes what was taken over. What stays because of an error is found again, and is the same then.
    pub(super) fn clear(self) {
        for path in [&self.map, &self.suspects] {
            match fs::remove_file(path) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => {
                    tracing::warn!(path = %path.display(), %error, "cannot remove a file that was taken over")
                }
            }
        }
    }
}

fn read_map(bytes: &[u8]) -> Option<Leftover> {
    let layout = Layout::of(bytes)?;
    let (marks, entered): (Vec<Mark>, Vec<Timestamp>) = layout.sitting(bytes).unzip();
    let down = entered.into_iter().max().map(|last_entered| Down { marks, last_entered });
    let mut notes: Vec<Note> = layout.notes(bytes).collect();
    notes.sort_by_key(|note| note.number);
    Some(Leftover { down, notes, suspects: Vec::new() })
}

/// What a file says; nothing if it is not there, or if it was set aside because it says nothing that `read` knows.
fn understood<T>(
    path: &Path,
    longest: usize,
    read: impl Fn(&[u8]) -> Option<T>,
) -> Result<Option<T>, JournalError> {
    let mut bytes = Vec::new();
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(failed("open", path)(error)),
    };
    // One byte more than there can be: what is longer is not ours and need not be read.
    file.take(longest as u64 + 1).read_to_end(&mut bytes).map_err(failed("read", path))?;
    if let Some(said) = Some(&bytes).filter(|bytes| bytes.len() <= longest).and_then(|bytes| read(bytes)) {
        return Ok(Some(said));
    }
    let aside = path.with_extension("damaged");
    fs::rename(path, &aside).map_err(failed("set aside", path))?;
    tracing::warn!(
        path = %path.display(),
        aside = %aside.display(),
        "set aside a file of the journal that is damaged, foreign or of another version; \
         nobody is a suspect because of it"
    );
    Ok(None)
}

/// Every byte is written and synced before the file has its name: a disk that is full says so now, and not when a
/// page of the map is written back.
fn replace(path: &Path, bytes: &[u8]) -> Result<File, JournalError> {
    let new = path.with_extension("new");
    let file = private::options().create(true).truncate(true).read(true).write(true).open(&new);
    let mut file = file.map_err(failed("create", &new))?;
    file.write_all(bytes).and_then(|()| file.sync_all()).map_err(failed("write", &new))?;
    fs::rename(&new, path).map_err(failed("replace", path))?;
    Ok(file)
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> JournalError {
    let path = path.to_owned();
    move |source| JournalError::Io { what, path, source }
}
