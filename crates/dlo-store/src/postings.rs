//! Postings on disk: which terms stand in which blocks of a segment, in chunks that are read one at a time.
//!
//! A posting is a term and the number of a block in its segment, as one number. Postings are kept ascending, cut into
//! chunks between terms, and each chunk holds the distances between them in a Rice code: about nine bits each. A chunk
//! that cannot be read says so, and whoever asked takes every block for a candidate.

use std::ops::RangeInclusive;

use crate::grams::{GRAMS, Term};

/// Bits for the number of a block in its segment.
const BLOCK_BITS: u32 = 10;
/// Blocks of the largest segment.
pub(crate) const MOST_BLOCKS: usize = 1 << BLOCK_BITS;
/// Postings from which on a chunk ends with its term: two chunks fit on a page.
const CHUNK: usize = 1_500;
/// Version, parameter of the code, how many, the first posting's block.
const HEADER: usize = 8;
const VERSION: u8 = 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Posting(u64);

impl Posting {
    pub(crate) fn new(term: Term, block: usize) -> Self {
        Self((u64::from(term) << BLOCK_BITS) | (block as u64 & (MOST_BLOCKS as u64 - 1)))
    }

    pub(crate) fn term(self) -> Term {
        (self.0 >> BLOCK_BITS) as Term
    }

    pub(crate) fn block(self) -> usize {
        (self.0 & (MOST_BLOCKS as u64 - 1)) as usize
    }
}

/// A run of postings, by its first term.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub(crate) first: Term,
    pub(crate) data: Vec<u8>,
}

/// Cuts ascending postings into chunks. The same posting twice is kept once.
#[derive(Debug, Default)]
pub(crate) struct Chunker {
    run: Vec<Posting>,
    chunks: Vec<Chunk>,
}

impl Chunker {
    pub(crate) fn push(&mut self, posting: Posting) {
        if let (Some(first), Some(last)) = (self.run.first(), self.run.last()) {
            if *last == posting {
                return;
            }
            // Exact values are far apart and grams are not: one code does not suit both.
            let border = first.term() < GRAMS && posting.term() >= GRAMS;
            if border || (self.run.len() >= CHUNK && last.term() != posting.term()) {
                self.cut();
            }
        }
        self.run.push(posting);
    }

    fn cut(&mut self) {
        if let Some(first) = self.run.first() {
            self.chunks.push(Chunk { first: first.term(), data: encode(&self.run) });
        }
        self.run.clear();
    }

    pub(crate) fn finish(mut self) -> Vec<Chunk> {
        self.cut();
        self.chunks
    }
}

fn encode(run: &[Posting]) -> Vec<u8> {
    let (Some(first), Some(last)) = (run.first(), run.last()) else { return Vec::new() };
    let mean = (last.0 - first.0) / run.len() as u64;
    let parameter = mean.checked_ilog2().unwrap_or(0);
    let mut data = vec![VERSION, parameter as u8];
    data.extend_from_slice(&(run.len() as u32).to_le_bytes());
    data.extend_from_slice(&(first.block() as u16).to_le_bytes());
    let mut bits = BitWriter { data, held: 0, count: 0 };
    for pair in run.windows(2) {
        let gap = pair[1].0 - pair[0].0 - 1;
        for _ in 0..gap >> parameter {
            bits.push(1, 1);
        }
        bits.push(0, 1);
        bits.push(gap & ((1 << parameter) - 1), parameter);
    }
    bits.finish()
}

/// Reads a chunk, posting by posting. `None` inside: it is damaged from there on.
pub(crate) fn decode(first: Term, data: &[u8]) -> impl Iterator<Item = Option<Posting>> + '_ {
    let header = data.get(..HEADER).filter(|header| header[0] == VERSION);
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0_usize, |sum, byte| (sum << 8) | usize::from(*byte));
    let (parameter, mut left, block) =
        header.map_or((0, 1, None), |h| (u32::from(h[1]), number(&h[2..6]), Some(number(&h[6..8]))));
    let mut bits = BitReader { data: data.get(HEADER..).unwrap_or_default(), at: 0 };
    let mut last: Option<Posting> = None;
    std::iter::from_fn(move || {
        left = left.checked_sub(1)?;
        let next = match last {
            None => block.map(|block| Posting::new(first, block)),
            Some(last) => bits.gap(parameter).and_then(|gap| last.0.checked_add(gap + 1)).map(Posting),
        };
        if next.is_none() {
            left = 0;
        }
        last = next;
        Some(next)
    })
}

/// Adds the blocks that have a term of the range to `found`; `false` if the chunk is damaged.
pub(crate) fn collect(first: Term, data: &[u8], range: &RangeInclusive<Term>, found: &mut BlockSet) -> bool {
    for posting in decode(first, data) {
        let Some(posting) = posting else { return false };
        if posting.term() > *range.end() {
            break;
        }
        if posting.term() >= *range.start() {
            found.add(posting.block());
        }
    }
    true
}

/// Blocks of one segment, by their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct BlockSet([u64; MOST_BLOCKS / 64]);

impl BlockSet {
    pub(crate) const ALL: Self = Self([u64::MAX; MOST_BLOCKS / 64]);

    fn add(&mut self, block: usize) {
        if let Some(word) = self.0.get_mut(block / 64) {
            *word |= 1 << (block % 64);
        }
    }

    pub(crate) fn has(&self, block: usize) -> bool {
        self.0.get(block / 64).is_some_and(|word| word & (1 << (block % 64)) != 0)
    }

    pub(crate) fn keep(&mut self, others: &Self) {
        self.0.iter_mut().zip(others.0).for_each(|(word, other)| *word &= other);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|word| *word == 0)
    }

    /// How many they are.
    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
}

struct BitWriter {
    data: Vec<u8>,
    held: u64,
    count: u32,
}

impl BitWriter {
    /// At most 40 bits at once, the lowest first.
    fn push(&mut self, value: u64, bits: u32) {
        self.held |= value << self.count;
        self.count += bits;
        while self.count >= 8 {
            self.data.push(self.held as u8);
            self.held >>= 8;
            self.count -= 8;
        }
    }

    fn finish(mut self) -> Vec<u8> {
        if self.count > 0 {
            self.data.push(self.held as u8);
        }
        self.data
    }
}

struct BitReader<'d> {
    data: &'d [u8],
    at: usize,
}

impl BitReader<'_> {
    /// The next bits, as many as there are up to 56; beyond the end are zeros.
    fn peek(&self) -> u64 {
        let bytes = self.data.get(self.at / 8..).unwrap_or_default();
        let word = match bytes.first_chunk::<8>() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => bytes.iter().rev().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)),
        };
        word >> (self.at % 8)
    }

    fn gap(&mut self, parameter: u32) -> Option<u64> {
        let mut quotient = 0;
        loop {
            let ones = self.peek().trailing_ones().min(48);
            quotient += u64::from(ones);
            self.at += ones as usize;
            if ones < 48 {
                break;
            }
        }
        self.at += 1;
        let rest = self.peek() & (1_u64.checked_shl(parameter)?.checked_sub(1)?);
        self.at += parameter as usize;
        // Damage may claim anything; what lies behind the end was not written.
        (self.at <= self.data.len() * 8 && parameter <= 40).then(|| (quotient << parameter) | rest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read(chunks: &[Chunk]) -> Option<Vec<Posting>> {
        chunks.iter().flat_map(|chunk| decode(chunk.first, &chunk.data)).collect()
    }

    proptest! {
        #[test]
        fn postings_come_back_as_they_were(
            pairs in proptest::collection::btree_set((0_u32..1 << 25, 0_usize..MOST_BLOCKS), 0..4_000),
            dense in proptest::collection::btree_set((0_u32..500, 0_usize..MOST_BLOCKS), 0..4_000),
        ) {
            let postings: std::collections::BTreeSet<Posting> =
                pairs.iter().chain(&dense).map(|(term, block)| Posting::new(*term, *block)).collect();
            let mut chunker = Chunker::default();
            postings.iter().for_each(|posting| { chunker.push(*posting); chunker.push(*posting) });
            let chunks = chunker.finish();
            prop_assert_eq!(read(&chunks), Some(postings.into_iter().collect()));
            prop_assert!(chunks.windows(2).all(|pair| pair[0].first < pair[1].first));
        }

        #[test]
        fn any_bytes_are_a_chunk_or_damage(first in 0_u32..1 << 25, data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let read = decode(first, &data).take(100_000).count();
            prop_assert!(read <= 100_000);
            let mut found = BlockSet::default();
            let _ = collect(first, &data, &(0..=Term::MAX), &mut found);
        }
    }

    #[test]
    fn a_chunk_that_was_cut_off_says_so() {
        let mut chunker = Chunker::default();
        (0..100).for_each(|n| chunker.push(Posting::new(n * 1_000, 7)));
        let [chunk] = &chunker.finish()[..] else { panic!("one chunk") };
        let cut = &chunk.data[..chunk.data.len() / 2];
        assert!(!collect(chunk.first, cut, &(0..=Term::MAX), &mut BlockSet::default()));
        assert!(collect(chunk.first, &chunk.data, &(0..=Term::MAX), &mut BlockSet::default()));
    }
}
