//! Dead letters that wait on disk, in order, while the dead-letter queue cannot be written.
//!
//! Letters stand in numbered segments, oldest first; `head` says how far they were confirmed. A batch is on the disk
//! before `push` returns. `pop` is remembered without waiting for the disk: after a power loss confirmed letters
//! may come once more, never fewer. A segment whose letters are all confirmed is deleted, which gives its space back.
//!
//! The originals are still unsettled at the broker. So what is found damaged is set aside and not mourned: its
//! original comes again. All calls block on the disk; whoever is on an async runtime calls them on a blocking thread.

mod head;
mod record;
mod segment;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, VecDeque};
use std::fs::{File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use dlo_core::broker::Destination;
use dlo_core::id::DeathId;
use dlo_core::message::Message;
use dlo_core::units::ByteSize;

use crate::private;
use head::Head;
use segment::{Entry, Reading, Segment};

/// Letters that wait at once, however small: each has a row of some 100 bytes in memory.
pub(crate) const MOST_LETTERS: usize = 1_000_000;

/// A dead letter on its way to the dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Spooled {
    pub(crate) death: DeathId,
    pub(crate) to: Destination,
    pub(crate) message: Message,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum SpoolError {
    /// Nothing of the batch was written.
    #[error(
        "the spool in {} is full: it may hold {most} and {MOST_LETTERS} letters; \
         once the dead-letter queue can be written it empties itself, and `spool` sets its size",
        directory.display()
    )]
    Full { directory: PathBuf, most: ByteSize },
    #[error(
        "the spool cannot {what} {}: {source}; the directory of `state` must be writable and have free space",
        path.display()
    )]
    Io { what: &'static str, path: PathBuf, source: io::Error },
    #[error("the spool in {} is held by another instance; give each a directory of its own", directory.display())]
    Held { directory: PathBuf },
}

#[derive(Debug)]
pub(crate) struct Spool {
    directory: PathBuf,
    most: ByteSize,
    /// Oldest first. Only the last one is written to, and only by the life that began it.
    segments: VecDeque<Segment>,
    writing: Option<File>,
    next: u64,
    /// All letters, oldest first.
    waiting: VecDeque<Entry>,
    deaths: HashMap<DeathId, u32>,
    lost: Vec<DeathId>,
    head: Head,
    _lock: File,
}

impl Spool {
    /// Finds what an earlier life left. What it was writing when it died is cut off: nobody was told that it was kept.
    pub(crate) fn open(directory: &Path, most: ByteSize) -> Result<Self, SpoolError> {
        private::create_directory(directory).map_err(failed("create", directory))?;
        let lock = lock(directory)?;
        let head = Head::open(directory)?;
        let mut spool = Self {
            directory: directory.to_owned(),
            most,
            segments: VecDeque::new(),
            writing: None,
            next: head.segment().map_or(0, |segment| segment.saturating_add(1)),
            waiting: VecDeque::new(),
            deaths: HashMap::new(),
            lost: Vec::new(),
            head,
            _lock: lock,
        };
        for number in segment::numbers(directory)? {
            spool.next = spool.next.max(number.saturating_add(1));
            let Some((mut segment, mut entries)) = segment::scan(directory, number)? else { continue };
            entries.drain(..spool.head.confirmed(number, &entries));
            segment.waiting = entries.len();
            spool.segments.push_back(segment);
            entries.into_iter().for_each(|entry| spool.add(entry));
        }
        spool.give_back();
        Ok(spool)
    }

    /// Adds letters behind the others: all of them, and on the disk, or none.
    pub(crate) fn push(&mut self, letters: &[Spooled]) -> Result<(), SpoolError> {
        if letters.is_empty() {
            return Ok(());
        }
        let full = || SpoolError::Full { directory: self.directory.clone(), most: self.most };
        let mut bytes = Vec::new();
        let mut lengths = Vec::with_capacity(letters.len());
        for letter in letters {
            lengths.push(record::write(letter, &mut bytes).ok_or_else(full)?);
        }
        let after = self.bytes().saturating_add((segment::HEAD.len() + bytes.len()) as u64);
        if after > self.most.0 || self.len().saturating_add(letters.len()) > MOST_LETTERS {
            return Err(full());
        }
        self.write(&bytes)?;
        if let Some(segment) = self.segments.back_mut() {
            let (number, mut start) = (segment.number, segment.bytes);
            segment.bytes += bytes.len() as u64;
            segment.waiting += letters.len();
            for (letter, length) in letters.iter().zip(lengths) {
                self.add(Entry { death: letter.death, segment: number, start, length });
                start += u64::from(length);
            }
        }
        Ok(())
    }

    /// The oldest letters, at most so many and of so many bytes, but at least one if there is one. They stay.
    ///
    /// What cannot be read any more is set aside on the way; `take_lost` says what that was.
    pub(crate) fn front(&mut self, most: usize, bytes: usize) -> Result<Vec<Spooled>, SpoolError> {
        let (mut letters, mut size) = (Vec::new(), 0_usize);
        let mut reading = Reading::new(&self.directory);
        while let Some(entry) = self.waiting.get(letters.len()).copied() {
            let after = size.saturating_add(entry.length as usize);
            if letters.len() >= most || (!letters.is_empty() && after > bytes) {
                break;
            }
            match reading.read(&entry)? {
                Some(letter) => {
                    letters.push(letter);
                    size = after;
                }
                None => {
                    self.waiting.remove(letters.len());
                    self.gone(&entry);
                    self.lost.push(entry.death);
                }
            }
        }
        self.give_back();
        Ok(letters)
    }

    /// The oldest `count` are confirmed elsewhere. After an error none was removed, and it can be called again.
    pub(crate) fn pop(&mut self, count: usize) -> Result<(), SpoolError> {
        let count = count.min(self.waiting.len());
        let Some(last) = count.checked_sub(1).and_then(|last| self.waiting.get(last)) else { return Ok(()) };
        self.head.advance(last.segment, last.end())?;
        let confirmed: Vec<Entry> = self.waiting.drain(..count).collect();
        confirmed.iter().for_each(|entry| self.gone(entry));
        self.give_back();
        Ok(())
    }

    /// Letters that became unreadable while they waited. Their originals are to be treated as if nothing had been decided.
    pub(crate) fn take_lost(&mut self) -> Vec<DeathId> {
        std::mem::take(&mut self.lost)
    }

    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What the segments take on the disk.
    pub(crate) fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.bytes).sum()
    }

    #[cfg(test)]
    /// Whether a letter for this death waits here.
    pub(crate) fn contains(&self, death: DeathId) -> bool {
        self.deaths.contains_key(&death)
    }

    /// The deaths whose letters wait, oldest first.
    pub(crate) fn deaths(&self) -> impl Iterator<Item = DeathId> {
        self.waiting.iter().map(|entry| entry.death)
    }

    fn add(&mut self, entry: Entry) {
        self.waiting.push_back(entry);
        *self.deaths.entry(entry.death).or_default() += 1;
    }

    fn gone(&mut self, entry: &Entry) {
        if let Some(count) = self.deaths.get_mut(&entry.death) {
            *count -= 1;
            if *count == 0 {
                self.deaths.remove(&entry.death);
            }
        }
        if let Some(segment) = self.segments.iter_mut().find(|segment| segment.number == entry.segment) {
            segment.waiting -= 1;
        }
    }

    /// Writes to the segment that is being written, or to a new one if that has grown enough.
    fn write(&mut self, bytes: &[u8]) -> Result<(), SpoolError> {
        let enough = segment::enough(self.most);
        let file = match (self.writing.take(), self.segments.back()) {
            (Some(file), Some(last)) if last.bytes < enough => file,
            (Some(_) | None, _) => {
                // Counted on first: a number that could not be used is not tried again.
                let number = self.next;
                self.next = self.next.saturating_add(1);
                let file = segment::create(&self.directory, number)?;
                self.segments.push_back(Segment::new(number));
                file
            }
        };
        let Some(last) = self.segments.back() else { return Ok(()) };
        let (path, whole) = (segment::path(&self.directory, last.number), last.bytes);
        match (&file).write_all(bytes).and_then(|()| file.sync_data()) {
            Ok(()) => {
                self.writing = Some(file);
                Ok(())
            }
            Err(error) => {
                // The next batch begins a segment of its own: after a failed sync nobody knows what this one holds.
                if let Err(error) = file.set_len(whole) {
                    tracing::warn!(path = %path.display(), %error, "cannot cut a batch off that was not written whole");
                }
                self.give_back();
                Err(failed("write", &path)(error))
            }
        }
    }

    /// Deletes the segments in which nothing waits.
    fn give_back(&mut self) {
        let directory = &self.directory;
        let writing = self.segments.back().map(|segment| segment.number);
        self.segments.retain(|segment| segment.waiting > 0 || !segment::delete(directory, segment.number));
        if self.segments.back().map(|segment| segment.number) != writing {
            self.writing = None;
        }
    }
}

fn lock(directory: &Path) -> Result<File, SpoolError> {
    let path = directory.join("lock");
    let file = private::options().create(true).truncate(false).write(true).open(&path);
    let file = file.map_err(failed("open", &path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(SpoolError::Held { directory: directory.to_owned() }),
        Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source)),
    }
}

fn failed(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> SpoolError {
    let path = path.to_owned();
    move |source| SpoolError::Io { what, path, source }
}
