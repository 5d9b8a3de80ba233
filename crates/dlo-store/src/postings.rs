//! Postings on disk: which terms stand in which blocks of a segment, in chunks that are read one at a time.
//!
//! A posting is a term and the number of a block in its segment. Postings are kept ascending, cut into chunks between terms,
//! and each chunk holds the distances between them in a Rice code: about nine bits each. For that a posting is one number,
//! with as many bits for its block as the segment needs: more would only make the way from term to term longer. A term
//! of many blocks has a chunk to itself, so that how many they are is known before they are read. A chunk that cannot be
//! read says so, and whoever asked takes every block for a candidate.

use std::ops::RangeInclusive;

use crate::bits::{BitReader, BitWriter};
use crate::grams::{GRAMS, TERM_BITS, Term};

/// Blocks of the largest segment: two million small letters.
pub(crate) const MOST_BLOCKS: usize = 1 << 16;
/// Bits for the number of a block that a chunk may claim; more is damage.
const MOST_BITS: u32 = 24;
/// Postings from which on a chunk ends with its term: two chunks fit on a page.
const CHUNK: usize = 1_500;
/// Version, parameter of the code, bits for a block, how many, the first posting's block.
const VERSION: u8 = 2;
const HEADER: usize = 11;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Posting {
    pub(crate) term: Term,
    pub(crate) block: u32,
}

impl Posting {
    pub(crate) fn new(term: Term, block: usize) -> Self {
        Self { term, block: block as u32 }
    }

    /// As one number, with so many bits for the block.
    fn number(self, bits: u32) -> u64 {
        (u64::from(self.term) << bits) | u64::from(self.block)
    }
}

/// A run of postings, by its first term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) first: Term,
    pub(crate) data: Vec<u8>,
}

/// Cuts ascending postings into chunks. The same posting twice is kept once.
#[derive(Debug)]
pub(crate) struct Chunker {
    /// Bits for the number of a block.
    bits: u32,
    run: Vec<Posting>,
    /// Where the last term of the run begins.
    begin: usize,
    chunks: Vec<Chunk>,
    bytes: usize,
}

impl Chunker {
    /// For a segment of so many blocks.
    pub(crate) fn new(blocks: usize) -> Self {
        let bits = blocks.saturating_sub(1).checked_ilog2().map_or(0, |log| log + 1);
        Self { bits, run: Vec::new(), begin: 0, chunks: Vec::new(), bytes: 0 }
    }

    pub(crate) fn push(&mut self, posting: Posting) {
        if let (Some(first), Some(last)) = (self.run.first(), self.run.last()) {
            if *last == posting {
                return;
            }
            if last.term != posting.term {
                // Exact values are far apart and grams are not: one code does not suit both.
                let border = first.term < GRAMS && posting.term >= GRAMS;
                if border || self.run.len() >= CHUNK {
                    self.cut(self.run.len());
                }
                self.begin = self.run.len();
            } else if self.begin > 0 && self.run.len() - self.begin >= CHUNK {
                self.cut(self.begin);
            }
        }
        self.run.push(posting);
    }

    /// Ends a chunk before this posting of the run.
    fn cut(&mut self, end: usize) {
        if let Some(first) = self.run[..end].first() {
            let data = encode(&self.run[..end], self.bits);
            self.bytes += data.len();
            self.chunks.push(Chunk { first: first.term, data });
        }
        self.run.drain(..end);
        self.begin = 0;
    }

    /// Bytes of the chunks that are ready.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The chunks that are ready.
    pub(crate) fn take(&mut self) -> Vec<Chunk> {
        self.bytes = 0;
        std::mem::take(&mut self.chunks)
    }

    /// All that are left.
    pub(crate) fn finish(&mut self) -> Vec<Chunk> {
        self.cut(self.run.len());
        self.take()
    }
}

fn encode(run: &[Posting], block_bits: u32) -> Vec<u8> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Vec::new() };
    let mean = (last.number(block_bits) - first.number(block_bits)) / run.len() as u64;
    let parameter = mean.checked_ilog2().unwrap_or(0);
    let mut data = vec![VERSION, parameter as u8, block_bits as u8];
    data.extend_from_slice(&(run.len() as u32).to_le_bytes());
    data.extend_from_slice(&first.block.to_le_bytes());
    let mut bits = BitWriter::behind(data);
    for pair in run.windows(2) {
        let gap = pair[1].number(block_bits) - pair[0].number(block_bits) - 1;
        let mut ones = gap >> parameter;
        while ones >= 8 {
            bits.push(0xff, 8);
            ones -= 8;
        }
        // The ones that are left, the zero behind them, and the rest.
        let rest = gap & ((1 << parameter) - 1);
        bits.push(((1 << ones) - 1) | (rest << (ones + 1)), ones as u32 + 1 + parameter);
    }
    bits.finish()
}

/// A chunk that is read, posting by posting.
struct Reader<'d> {
    bits: BitReader<'d>,
    block_bits: u32,
    parameter: u32,
    /// Postings that are still to come.
    left: usize,
    /// The next one as a number, if it is known already.
    next: Option<u64>,
    last: u64,
}

impl<'d> Reader<'d> {
    /// `None`: the chunk is damaged.
    fn new(first: Term, data: &'d [u8]) -> Option<Self> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0_u64, |sum, byte| (sum << 8) | u64::from(*byte));
        let head = data.first_chunk::<HEADER>().filter(|head| head[0] == VERSION)?;
        let (parameter, block_bits, left, block) =
            (head[1], u32::from(head[2]), number(&head[3..7]), number(&head[7..]));
        // Damage may claim any width, and nothing may be shifted by it before it is known to be one of ours.
        let known = parameter <= 40 && block_bits <= MOST_BITS && block < 1 << block_bits;
        if !known {
            return None;
        }
        let bits = BitReader::new(data.get(HEADER..)?);
        let next = Some((u64::from(first) << block_bits) | block);
        Some(Self { bits, block_bits, parameter: u32::from(parameter), left: left as usize, next, last: 0 })
    }

    /// The next posting as a number. `None`: the chunk is damaged.
    #[inline]
    fn number(&mut self) -> Option<u64> {
        self.left -= 1;
        self.last = match self.next.take() {
            Some(first) => first,
            None => self.last.checked_add(self.bits.gap(self.parameter)?)?.checked_add(1)?,
        };
        Some(self.last)
    }
}

/// Reads a chunk whole; `false` if it is damaged.
pub(crate) fn decode(first: Term, data: &[u8], into: &mut Vec<Posting>) -> bool {
    let Some(mut reader) = Reader::new(first, data) else { return false };
    while reader.left > 0 {
        let Some(number) = reader.number() else { return false };
        let (term, block) = (number >> reader.block_bits, number & ((1 << reader.block_bits) - 1));
        if term >= 1 << TERM_BITS {
            return false;
        }
        into.push(Posting { term: term as Term, block: block as u32 });
    }
    true
}

/// Adds the blocks that have a term of the range to `found`; `false` if the chunk is damaged.
pub(crate) fn collect(first: Term, data: &[u8], range: &RangeInclusive<Term>, found: &mut BlockSet) -> bool {
    let Some(mut reader) = Reader::new(first, data) else { return false };
    let low = u64::from(*range.start()) << reader.block_bits;
    let end = (u64::from(*range.end()) + 1) << reader.block_bits;
    while reader.left > 0 {
        let Some(number) = reader.number() else { return false };
        if number >= end {
            break;
        }
        if number >= low {
            found.add((number & ((1 << reader.block_bits) - 1)) as usize);
        }
    }
    true
}

/// How many postings a chunk says that it has, and whether all are of one term: a chunk of several is cut before it grows so long.
pub(crate) fn promised(data: &[u8]) -> (usize, bool) {
    let count = Reader::new(0, data).map_or(0, |reader| reader.left);
    (count, count >= 2 * CHUNK)
}

/// Blocks of one segment, by their numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BlockSet(Vec<u64>);

impl BlockSet {
    /// None of so many.
    pub(crate) fn none(blocks: usize) -> Self {
        Self(vec![0; blocks.div_ceil(64)])
    }

    /// All of so many.
    pub(crate) fn all(blocks: usize) -> Self {
        let mut words = vec![u64::MAX; blocks.div_ceil(64)];
        if let Some(last) = words.last_mut().filter(|_| !blocks.is_multiple_of(64)) {
            *last = (1 << (blocks % 64)) - 1;
        }
        Self(words)
    }

    fn add(&mut self, block: usize) {
        if let Some(word) = self.0.get_mut(block / 64) {
            *word |= 1 << (block % 64);
        }
    }

    /// Their numbers, ascending.
    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().zip(0..).flat_map(|(word, at)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.checked_sub(1)?;
                Some(at * 64 + bit as usize)
            })
        })
    }

    pub(crate) fn keep(&mut self, others: &Self) {
        self.0.iter_mut().zip(&others.0).for_each(|(word, other)| *word &= other);
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[Chunk]) -> Option<Vec<Posting>> {
        let mut read = Vec::new();
        chunks.iter().all(|chunk| decode(chunk.first, &chunk.data, &mut read)).then_some(read)
    }

    fn chunks(postings: impl IntoIterator<Item = Posting>, blocks: usize) -> Vec<Chunk> {
        let mut chunker = Chunker::new(blocks);
        postings.into_iter().for_each(|posting| {
            chunker.push(posting);
            chunker.push(posting);
        });
        chunker.finish()
    }

    fn some_blocks() -> impl Strategy<Value = usize> {
        prop_oneof![Just(1_usize), 2_usize..70, Just(1_024), Just(MOST_BLOCKS - 1), Just(MOST_BLOCKS)]
    }

    proptest! {
        #[test]
        fn postings_come_back_as_they_were(
            blocks in some_blocks(),
            pairs in proptest::collection::btree_set((0_u32..1 << 25, any::<usize>()), 0..4_000),
            dense in proptest::collection::btree_set((0_u32..500, any::<usize>()), 0..4_000),
            common in proptest::collection::btree_set(any::<u16>(), 0..4_000),
        ) {
            let postings: BTreeSet<Posting> = pairs
                .iter()
                .chain(&dense)
                .map(|(term, block)| Posting::new(*term, block % blocks))
                .chain(common.iter().map(|block| Posting::new(77, *block as usize % blocks)))
                .collect();
            let chunks = chunks(postings.iter().copied(), blocks);
            prop_assert_eq!(read(&chunks), Some(postings.iter().copied().collect()));
            prop_assert!(chunks.windows(2).all(|pair| pair[0].first < pair[1].first));
            for chunk in &chunks {
                let (count, alone) = promised(&chunk.data);
                prop_assert!(!alone || postings.iter().filter(|posting| posting.term == chunk.first).count() == count);
            }
            let mut found = BlockSet::none(blocks);
            prop_assert!(chunks.iter().all(|chunk| collect(chunk.first, &chunk.data, &(77..=78), &mut found)));
            let expected: BTreeSet<usize> =
                postings.iter().filter(|posting| (77..=78).contains(&posting.term)).map(|posting| posting.block as usize).collect();
            prop_assert_eq!(found.iter().collect::<BTreeSet<_>>(), expected);
        }

        #[test]
        fn any_bytes_are_a_chunk_or_damage(first in 0_u32..1 << 25, version in 0_u8..4, data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let data: Vec<u8> = std::iter::once(version).chain(data).collect();
            let mut read = Vec::new();
            let _ = decode(first, &data, &mut read);
            prop_assert!(read.len() <= data.len() * 8 + 1);
            let _ = collect(first, &data, &(0..=Term::MAX), &mut BlockSet::none(100));
            let _ = promised(&data);
        }
    }

    #[test]
    fn a_chunk_that_was_cut_off_says_so() {
        let chunks = chunks((0..100).map(|n| Posting::new(n * 1_000, 7)), 8);
        let [chunk] = &chunks[..] else { panic!("one chunk") };
        let cut = &chunk.data[..chunk.data.len() / 2];
        assert!(!collect(chunk.first, cut, &(0..=Term::MAX), &mut BlockSet::none(8)));
        assert!(collect(chunk.first, &chunk.data, &(0..=Term::MAX), &mut BlockSet::none(8)));
    }

    #[test]
    fn all_of_so_many_are_no_more() {
        for blocks in [0, 1, 63, 64, 65, 1_024] {
            assert_eq!(BlockSet::all(blocks).len(), blocks);
            assert_eq!(BlockSet::all(blocks).iter().last(), blocks.checked_sub(1));
        }
    }
}
