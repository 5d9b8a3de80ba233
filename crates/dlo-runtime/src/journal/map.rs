//! A file as memory. The only unsafe line of this crate stands here.

#![expect(unsafe_code, reason = "no call maps a file safely: somebody else might shorten it")]

use std::fs::File;
use std::path::Path;

use memmap2::MmapMut;

use super::JournalError;

#[derive(Debug)]
pub(super) struct Map(MmapMut);

impl Map {
    /// `file` must have its full length, written and not sparse: a store to it never asks the disk for space.
    pub(super) fn new(file: File, path: &Path) -> Result<Self, JournalError> {
        // SAFETY: the file was made by this process for this map, and its place is locked: no other instance opens it
        // for writing or changes its length before this process has ended. Whoever cuts it by hand while
        // it is in use stops this process, as with every program that maps files.
        let map = unsafe { MmapMut::map_mut(&file) };
        map.map(Self).map_err(|source| JournalError::Io { what: "map", path: path.to_owned(), source })
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        &mut self.0
    }
}
