//! A segment: a file with a head and letters behind each other.
//!
//! Reading one trusts nothing. A tail that is not whole is cut off. A letter that does not check is copied to a file
//! of its own beside and passed over; behind a frame that does not check nothing can be found, and all of the
//! rest is. A file with another head is renamed. What is said about it names files and places, never content.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use dlo_core::id::DeathId;
use dlo_core::units::ByteSize;

use super::record::{self, FRAME};
use super::{SpoolError, Spooled, failed};
use crate::private;

/// Magic and version.
pub(super) const HEAD: [u8; 12] = *b"DLOLETTERS\0\x01";

#[derive(Debug)]
pub(super) struct Segment {
    pub(super) number: u64,
    pub(super) bytes: u64,
    pub(super) waiting: usize,
}

impl Segment {
    pub(super) fn new(number: u64) -> Self {
        Self { number, bytes: HEAD.len() as u64, waiting: 0 }
    }
}

/// Where a letter stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) death: DeathId,
    pub(super) segment: u64,
    pub(super) start: u64,
    /// With its frame.
    pub(super) length: u32,
}

impl Entry {
    pub(super) fn end(&self) -> u64 {
        self.start.saturating_add(u64::from(self.length))
    }
}

/// How far a segment grows: space comes back by whole segments, so there are several of them in a spool.
pub(super) fn enough(most: ByteSize) -> u64 {
    (most.0 / 16).clamp(64 * 1024, 8 * 1024 * 1024)
}

pub(super) fn path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:020}.letters"))
}

/// The segments that are there, in order. Other files are none of ours.
pub(super) fn numbers(directory: &Path) -> Result<Vec<u64>, SpoolError> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed("list", directory))? {
        let name = entry.map_err(failed("list", directory))?.file_name();
        let number = name.to_str().and_then(|name| name.strip_suffix(".letters")?.parse().ok());
        numbers.extend(number.filter(|number| path(directory, *number).ends_with(&name)));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// A new one, whose name is on the disk.
pub(super) fn create(directory: &Path, number: u64) -> Result<File, SpoolError> {
    let path = path(directory, number);
    let file =
        private::options().create_new(true).append(true).open(&path).map_err(failed("create", &path))?;
    let written = (&file).write_all(&HEAD).and_then(|()| File::open(directory)?.sync_all());
    if let Err(error) = written {
        delete(directory, number);
        return Err(failed("create", &path)(error));
    }
    Ok(file)
}

/// Whether it is gone.
pub(super) fn delete(directory: &Path, number: u64) -> bool {
    let path = path(directory, number);
    match fs::remove_file(&path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::NotFound => true,
        Err(error) => {
            tracing::warn!(path = %path.display(), %error, "cannot delete a segment of the spool that is done with");
            false
        }
    }
}

/// Finds the letters of a segment. `None`: it is none of ours, and was set aside.
pub(super) fn scan(directory: &Path, number: u64) -> Result<Option<(Segment, Vec<Entry>)>, SpoolError> {
    let path = path(directory, number);
    let file = File::options().read(true).write(true).open(&path).map_err(failed("open", &path))?;
    let length = file.metadata().map_err(failed("read", &path))?.len();
    let mut reader = BufReader::new(&file);
    let mut head = Vec::new();
    reader.by_ref().take(HEAD.len() as u64).read_to_end(&mut head).map_err(failed("read", &path))?;
    if !HEAD.starts_with(&head) {
        let aside = path.with_extension("damaged");
        fs::rename(&path, &aside).map_err(failed("set aside", &path))?;
        tracing::warn!(
            path = %path.display(), aside = %aside.display(),
            "set aside a segment of the spool that is damaged, foreign or of another version"
        );
        return Ok(None);
    }
    let (mut entries, mut start) = (Vec::new(), head.len() as u64);
    while start < length {
        match next(&mut reader, length - start).map_err(failed("read", &path))? {
            Next::Letter { death, length } => {
                entries.push(Entry { death, segment: number, start, length });
                start += u64::from(length);
            }
            Next::Rotten { length } => {
                set_aside(&path, start, length)?;
                start += length;
            }
            Next::NoFrame => {
                set_aside(&path, start, length - start)?;
                break;
            }
            Next::Torn => break,
        }
    }
    if start < length {
        file.set_len(start).map_err(failed("cut the tail of", &path))?;
    }
    Ok(Some((Segment { number, bytes: start, waiting: entries.len() }, entries)))
}

enum Next {
    Letter { death: DeathId, length: u32 },
    Rotten { length: u64 },
    NoFrame,
    Torn,
}

fn next(reader: &mut impl Read, left: u64) -> io::Result<Next> {
    let mut frame = [0; FRAME];
    if left < FRAME as u64 {
        return Ok(Next::Torn);
    }
    reader.read_exact(&mut frame)?;
    let Some(length) = record::framed(&frame) else { return Ok(Next::NoFrame) };
    if length > left {
        return Ok(Next::Torn);
    }
    let mut bytes = frame.to_vec();
    reader.take(length - FRAME as u64).read_to_end(&mut bytes)?;
    Ok(match (record::read(&bytes), u32::try_from(length)) {
        (Some(letter), Ok(length)) => Next::Letter { death: letter.death, length },
        (Some(_) | None, _) => Next::Rotten { length },
    })
}

/// Copies bytes that are no letter to a file of their own, named after the place where they stood.
fn set_aside(path: &Path, start: u64, length: u64) -> Result<(), SpoolError> {
    let aside = path.with_extension(format!("{start}.damaged"));
    let copy = || {
        let mut from = File::open(path)?;
        from.seek(SeekFrom::Start(start))?;
        let mut to = private::options().write(true).create(true).truncate(true).open(&aside)?;
        io::copy(&mut from.take(length), &mut to)
    };
    copy().map_err(failed("set aside a part of", path))?;
    tracing::warn!(
        path = %path.display(), start, length, aside = %aside.display(),
        "set aside what is damaged in the spool; the original of such a letter comes again from its queue"
    );
    Ok(())
}

/// Reads letters one after the other, opening each segment once.
#[derive(Debug)]
pub(super) struct Reading {
    directory: PathBuf,
    open: Option<(u64, File)>,
}

impl Reading {
    pub(super) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), open: None }
    }

    /// `None`: it is damaged, or the file was removed or cut by somebody. Said, and set aside as far as it is there.
    pub(super) fn read(&mut self, entry: &Entry) -> Result<Option<Spooled>, SpoolError> {
        let path = path(&self.directory, entry.segment);
        let mut bytes = vec![0_u8; entry.length as usize];
        let read = self.segment(entry.segment, &path).and_then(|mut file| {
            file.seek(SeekFrom::Start(entry.start))?;
            file.read_exact(&mut bytes)
        });
        match read {
            Ok(()) => {}
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::UnexpectedEof) => {
                tracing::warn!(path = %path.display(), start = entry.start, %error, "a letter is gone from the spool");
                return Ok(None);
            }
            Err(error) => return Err(failed("read", &path)(error)),
        }
        let letter = record::read(&bytes).filter(|letter| letter.death == entry.death);
        if letter.is_none() {
            set_aside(&path, entry.start, u64::from(entry.length))?;
        }
        Ok(letter)
    }

    fn segment(&mut self, number: u64, path: &Path) -> io::Result<&File> {
        let open = match self.open.take() {
            Some((open, file)) if open == number => file,
            Some(_) | None => File::open(path)?,
        };
        Ok(&self.open.insert((number, open)).1)
    }
}
