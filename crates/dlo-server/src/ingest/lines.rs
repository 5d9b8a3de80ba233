//! A stream of bytes cut into lines, and lines gathered into chunks.
//!
//! Pure: bytes are pushed in, chunks are taken out. A line that is too long is skipped as it flows by and leaves
//! a mark, so that its place in the answer is kept and it never stands in memory.

use std::ops::Range;

use bytes::{Bytes, BytesMut};

use crate::memory::Held;

/// Items of one chunk, more or less: a chunk ends with the piece of the body that fills it.
const ITEMS: usize = 1_000;
/// Bytes of one chunk, likewise.
const BYTES: usize = 1024 * 1024;

/// Items that go to the store together.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// The place of the first one in the request, from zero.
    pub(crate) first: u64,
    pub(crate) slab: Bytes,
    /// Where each item stands in the slab; `None`: it was too long and is not there.
    pub(crate) items: Vec<Option<Range<usize>>>,
    /// The room that the slab takes, where it is this chunk's own.
    pub(crate) held: Held,
}

impl Chunk {
    /// The items of one document, in chunks that share its memory.
    pub(crate) fn of_ranges(slab: &Bytes, ranges: &[Range<usize>]) -> Vec<Self> {
        let mut chunks: Vec<Self> = Vec::new();
        let mut bytes = 0;
        for (place, range) in (0..).zip(ranges) {
            bytes += range.len();
            match chunks.last_mut() {
                Some(chunk) if chunk.items.len() < ITEMS && bytes <= BYTES => {
                    chunk.items.push(Some(range.clone()))
                }
                _ => {
                    bytes = range.len();
                    let items = vec![Some(range.clone())];
                    chunks.push(Self { first: place, slab: slab.clone(), items, held: Held::default() });
                }
            }
        }
        chunks
    }
}

#[derive(Debug)]
pub(crate) struct Lines {
    buffer: BytesMut,
    /// Where the line begins whose end has not come yet.
    line: usize,
    /// How far the end of a line was looked for.
    searched: usize,
    items: Vec<Option<Range<usize>>>,
    skipping: bool,
    taken: u64,
    longest: usize,
}

impl Lines {
    pub(crate) fn new(longest: usize) -> Self {
        let buffer = BytesMut::new();
        Self { buffer, line: 0, searched: 0, items: Vec::new(), skipping: false, taken: 0, longest }
    }

    pub(crate) fn push(&mut self, mut bytes: &[u8]) {
        if self.skipping {
            let Some(end) = memchr::memchr(b'\n', bytes) else { return };
            self.skipping = false;
            self.items.push(None);
            bytes = &bytes[end + 1..];
        }
        self.buffer.extend_from_slice(bytes);
        while let Some(found) = memchr::memchr(b'\n', &self.buffer[self.searched..]) {
            let end = self.searched + found;
            self.end_line(end);
            self.line = end + 1;
            self.searched = end + 1;
        }
        self.searched = self.buffer.len();
        if self.buffer.len() - self.line > self.longest {
            self.buffer.truncate(self.line);
            self.searched = self.line;
            self.skipping = true;
        }
    }

    /// Blank lines are no items.
    fn end_line(&mut self, end: usize) {
        let line = &self.buffer[self.line..end];
        if line.iter().all(u8::is_ascii_whitespace) {
            return;
        }
        self.items.push((line.len() <= self.longest).then_some(self.line..end));
    }

    /// Whether enough is there to be worth a transaction.
    pub(crate) fn is_full(&self) -> bool {
        self.items.len() >= ITEMS || self.line >= BYTES
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Whether the line that flows by is too long to be kept.
    pub(crate) fn is_skipping(&self) -> bool {
        self.skipping
    }

    /// Bytes that are in memory.
    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// All lines that are complete.
    pub(crate) fn take(&mut self) -> Chunk {
        let slab = self.buffer.split_to(self.line).freeze();
        self.line = 0;
        self.searched = self.buffer.len();
        let items = std::mem::take(&mut self.items);
        let first = self.taken;
        self.taken += items.len() as u64;
        Chunk { first, slab, items, held: Held::default() }
    }

    /// The last line may come without its end. Called again, there is nothing left.
    pub(crate) fn finish(&mut self) -> Chunk {
        if self.skipping {
            self.skipping = false;
            self.items.push(None);
        } else if self.line < self.buffer.len() {
            self.end_line(self.buffer.len());
            self.line = self.buffer.len();
        }
        self.take()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(pieces: &[&[u8]], longest: usize) -> Vec<Option<Vec<u8>>> {
        let mut lines = Lines::new(longest);
        let mut found = Vec::new();
        let mut next = 0;
        let mut keep = |chunk: Chunk| {
            assert_eq!(chunk.first, next);
            next += chunk.items.len() as u64;
            found.extend(chunk.items.into_iter().map(|at| at.map(|at| chunk.slab[at].to_vec())));
        };
        for (at, piece) in pieces.iter().enumerate() {
            lines.push(piece);
            if at % 3 == 0 {
                keep(lines.take());
            }
        }
        keep(lines.finish());
        found
    }

    #[test]
    fn an_endless_last_line_is_one_item_however_often_the_end_is_asked_for() {
        let mut lines = Lines::new(4);
        lines.push(b"far too long for a line");
        assert_eq!(lines.finish().items, [None]);
        assert!(lines.finish().items.is_empty());
    }

    #[test]
    fn lines_are_found_across_pieces_and_without_a_last_newline() {
        let found = read(&[b"{\"a\"", b":1}\n\r\n{}", b"\n", b"x"], 100);
        assert_eq!(found, [Some(b"{\"a\":1}".to_vec()), Some(b"{}".to_vec()), Some(b"x".to_vec())]);
    }

    #[test]
    fn a_line_that_is_too_long_leaves_a_mark_and_no_bytes() {
        let long = [b'x'; 50];
        let found = read(&[b"a\n", &long, &long, b"xx\nb\n"], 10);
        assert_eq!(found, [Some(b"a".to_vec()), None, Some(b"b".to_vec())]);
        assert_eq!(read(&[&long], 10), [None]);
    }

    #[test]
    fn the_items_of_a_document_are_chunked_by_number_and_by_size() {
        let slab = Bytes::from(vec![b'x'; 3 * BYTES]);
        let of = |size: usize, count: usize| {
            let ranges: Vec<_> = (0..count).map(|n| n * size..(n + 1) * size).collect();
            Chunk::of_ranges(&slab, &ranges)
                .iter()
                .map(|chunk| (chunk.first, chunk.items.len()))
                .collect::<Vec<_>>()
        };
        assert_eq!(of(10, 2_500), [(0, 1_000), (1_000, 1_000), (2_000, 500)]);
        assert_eq!(of(BYTES / 2, 5), [(0, 2), (2, 2), (4, 1)]);
        assert_eq!(of(BYTES + 1, 2), [(0, 1), (1, 1)]);
    }

    proptest! {
        #[test]
        fn how_the_bytes_are_cut_into_pieces_changes_nothing(
            text in "[a-c\n ]{0,200}", cuts in proptest::collection::vec(0..200_usize, 0..8), longest in 1..40_usize
        ) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
            let expected: Vec<Option<Vec<u8>>> = text
                .split('\n')
                .filter(|line| !line.trim().is_empty() || line.len() > longest)
                .map(|line| (line.len() <= longest).then(|| line.as_bytes().to_vec()))
                .collect();
            let found = read(&pieces, longest);
            // Spaces longer than a line may be are counted or not, depending on where they are cut.
            if text.split('\n').all(|line| !line.trim().is_empty() || line.len() <= longest) {
                prop_assert_eq!(found, expected);
            }
        }
    }
}
