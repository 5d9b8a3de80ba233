//! How far the letters were confirmed: `magic and version 8 · segment 8 · offset 8 · crc 4`, written over itself.
//!
//! It is not synced. If it is lost, or half of it, letters that were confirmed come once more; it never runs ahead of
//! what was confirmed, and no number of a segment is used twice, so it never hides one that was not.

use std::fs::File;
use std::io::{Read, Seek, Write};
use std::path::{Path, PathBuf};

use super::segment::Entry;
use super::{SpoolError, failed};
use crate::crc32::crc32;
use crate::private;

const MAGIC: [u8; 8] = *b"DLOHEAD\x01";
const LENGTH: usize = 28;

#[derive(Debug)]
pub(super) struct Head {
    file: File,
    path: PathBuf,
    at: Option<(u64, u64)>,
}

impl Head {
    pub(super) fn open(directory: &Path) -> Result<Self, SpoolError> {
        let path = directory.join("head");
        let file = private::options().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = file.map_err(failed("open", &path))?;
        let mut bytes = Vec::new();
        (&mut file).take(LENGTH as u64).read_to_end(&mut bytes).map_err(failed("read", &path))?;
        let at = read(&bytes);
        if at.is_none() && !bytes.is_empty() {
            tracing::warn!(path = %path.display(), "damaged; letters that were confirmed may be sent once more");
        }
        Ok(Self { file, path, at })
    }

    pub(super) fn segment(&self) -> Option<u64> {
        self.at.map(|(segment, _)| segment)
    }

    /// How many of a segment's letters, from the first on, were confirmed.
    pub(super) fn confirmed(&self, number: u64, entries: &[Entry]) -> usize {
        match self.at {
            Some((segment, _)) if number < segment => entries.len(),
            Some((segment, offset)) if number == segment => {
                entries.partition_point(|entry| entry.end() <= offset)
            }
            Some(_) | None => 0,
        }
    }

    pub(super) fn advance(&mut self, segment: u64, offset: u64) -> Result<(), SpoolError> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(segment.to_le_bytes());
        bytes.extend(offset.to_le_bytes());
        let check = crc32(&bytes);
        bytes.extend(check.to_le_bytes());
        self.file.rewind().and_then(|()| self.file.write_all(&bytes)).map_err(failed("write", &self.path))?;
        self.at = Some((segment, offset));
        Ok(())
    }
}

fn read(bytes: &[u8]) -> Option<(u64, u64)> {
    let (body, check) = bytes.split_last_chunk::<4>()?;
    let fields = body.strip_prefix(&MAGIC)?;
    let (segment, rest) = fields.split_first_chunk()?;
    let offset: &[u8; 8] = rest.try_into().ok()?;
    let whole = crc32(body) == u32::from_le_bytes(*check);
    whole.then(|| (u64::from_le_bytes(*segment), u64::from_le_bytes(*offset)))
}
