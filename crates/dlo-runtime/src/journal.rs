//! Who is in the handler, and which attempt a held message is at: kept over the death of the process (B9).
//!
//! A small file is mapped into memory. Writing to it is a store, and the kernel keeps what was stored when the process
//! is killed, aborts or runs out of memory. It does not outlive a power loss, and need not: then no message
//! is to blame. Below the directory are numbered places, one for each instance on this machine; a restarted instance
//! finds its old one, and takes over what others left who never came back.
//!
//! What is thought of a suspect is decided in `dlo_core::poison`; here it is only remembered.

mod kept;
mod layout;
mod map;
mod notes;
mod place;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlo_core::attempt::Attempt;
use dlo_core::poison::{Crash, Mark, Suspects};
use dlo_core::time::Timestamp;

use layout::{Layout, Note};
use map::Map;
use notes::Notes;
use place::{Leftover, Place};

/// Instances on one machine that can share a directory.
pub(crate) const MOST_PLACES: u32 = 256;
/// Messages in the handler that are written down; more go unjournalled.
pub(crate) const MOST_SEATS: usize = 65_536;
/// Held messages whose attempts are remembered; beyond, the one noted longest ago is forgotten.
pub(crate) const MOST_NOTES: usize = 16_384;

#[derive(Debug, thiserror::Error)]
pub(crate) enum JournalError {
    #[error(
        "the journal cannot {what} {}: {source}; the directory of `state` must be writable and have some free space",
        path.display()
    )]
    Io { what: &'static str, path: PathBuf, source: std::io::Error },
    #[error(
        "all {MOST_PLACES} places of the journal in {} are held by running instances; \
         give some of them another directory as `state`",
        directory.display()
    )]
    NoPlace { directory: PathBuf },
}

/// An owner of a place that died with messages in the handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Down {
    /// Who was in the handler. One alone: it is likely the cause.
    pub(crate) marks: Vec<Mark>,
    /// When the last of them went in: the crash was not before.
    pub(crate) last_entered: Timestamp,
}

/// What earlier lives left.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// One for each owner that died with somebody in the handler. To be told; they are among `suspects` already.
    pub(crate) crashes: Vec<Down>,
    /// All suspects: those that were kept, and those that `crashes` made.
    pub(crate) suspects: Vec<(Mark, Vec<Crash>)>,
}

/// A message's seat in the handler. One that is never left counts as in the handler until `close`.
#[derive(Debug)]
#[must_use = "who enters must leave"]
pub(crate) struct Seat(Option<u32>);

#[derive(Debug)]
pub(crate) struct Journal {
    table: Mutex<Table>,
    /// Its file is locked as long as this lives; behind the map, so that it is let go last.
    place: Mutex<Place>,
    path: PathBuf,
}

#[derive(Debug)]
struct Table {
    layout: Layout,
    map: Map,
    free: Vec<u32>,
    notes: Notes,
}

impl Journal {
    /// Takes the lowest free place below `directory`, and everything that dead owners left in any.
    ///
    /// What was found is written down in the new place before it is removed from the old ones, and a crash that is found
    /// twice is one: whoever dies in here loses nothing and invents nothing.
    pub(crate) fn open(directory: &Path, seats: usize) -> Result<(Self, Found), JournalError> {
        let place = Place::take(directory)?;
        let own = place.leftover()?;
        let others = place.others(directory);
        let left = || std::iter::once(&own).chain(others.iter().map(|(_, leftover)| leftover));

        let found = found(left());
        place.keep(&kept::write(found.suspects.iter().map(|(mark, crashes)| (*mark, crashes.as_slice()))))?;

        let layout = Layout::new(seats.clamp(1, MOST_SEATS));
        let mut bytes = layout.empty();
        let mut notes = Notes::new(layout);
        // The own ones last: if there is no room for all, those of strangers are forgotten first.
        let noted: Vec<&Leftover> = left().collect();
        for leftover in noted.iter().rev() {
            leftover.notes.iter().for_each(|note| notes.merge(&mut bytes, *note));
        }
        let map = Map::new(place.renew(&bytes)?, place.map())?;
        for (other, _) in others {
            other.clear();
        }
        let free = (0..layout.seats()).rev().collect();
        let path = place.path().to_owned();
        let table = Table { layout, map, free, notes };
        Ok((Self { table: Mutex::new(table), place: Mutex::new(place), path }, found))
    }

    /// The directory of this instance alone, as long as the journal is open.
    pub(crate) fn place(&self) -> &Path {
        &self.path
    }

    /// To be called right before the handler gets the message.
    pub(crate) fn enter(&self, mark: Mark, now: Timestamp) -> Seat {
        let table = &mut *self.table();
        let seat = table.free.pop();
        if let Some(seat) = seat {
            table.layout.sit(table.map.bytes(), seat, mark, now);
        }
        Seat(seat)
    }

    /// To be called as soon as the handler is done with it, whatever came of it.
    pub(crate) fn leave(&self, seat: Seat) {
        let Seat(Some(seat)) = seat else { return };
        let table = &mut *self.table();
        table.layout.stand_up(table.map.bytes(), seat);
        table.free.push(seat);
    }

    /// Remembers the attempt that a message held here has come to, for as long as no broker counts it.
    pub(crate) fn note(&self, mark: Mark, attempt: Attempt, first_failed_at: Timestamp) {
        let table = &mut *self.table();
        table.notes.put(table.map.bytes(), mark, attempt, first_failed_at);
    }

    pub(crate) fn recall(&self, mark: Mark) -> Option<(Attempt, Timestamp)> {
        let table = &mut *self.table();
        let Note { attempt, first_failed_at, .. } = table.notes.get(table.map.bytes(), mark)?;
        Some((attempt, first_failed_at))
    }

    pub(crate) fn forget(&self, mark: Mark) {
        let table = &mut *self.table();
        table.notes.remove(table.map.bytes(), mark);
    }

    /// Writes all suspects down, in place of those before: at every moment the file holds the old or the new ones.
    /// Blocks on the disk.
    pub(crate) fn keep(&self, suspects: &Suspects) -> Result<(), JournalError> {
        let place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        place.keep(&kept::write(suspects.all()))
    }

    /// A clean end: whoever is still in the handler is put off by a deployment, and no suspect. Notes and suspects stay.
    pub(crate) fn clear(&self) {
        let table = &mut *self.table();
        for seat in 0..table.layout.seats() {
            table.layout.stand_up(table.map.bytes(), seat);
        }
    }

    #[cfg(test)]
    fn close(self) {
        self.clear();
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        // A panic with the lock held leaves at worst one seat taken: the journal goes on.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts together what was left, each crash once.
fn found<'a>(left: impl Iterator<Item = &'a Leftover>) -> Found {
    let mut crashes = Vec::new();
    let mut suspects = kept::Merged::default();
    for leftover in left {
        for (mark, crash) in &leftover.suspects {
            suspects.add(*mark, *crash);
        }
        if let Some(down) = &leftover.down {
            let crash = Crash { at: down.last_entered, alone: down.marks.len() == 1 };
            down.marks.iter().for_each(|mark| suspects.add(*mark, crash));
            crashes.push(down.clone());
        }
    }
    Found { crashes, suspects: suspects.into_vec() }
}
