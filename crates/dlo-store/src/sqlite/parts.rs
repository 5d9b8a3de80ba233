//! Parts of a segment: runs of its blocks with the newest place in each, so that whoever wants the newest letters need not
//! look at all blocks of two million.
//!
//! A segment that was indexed is one part. Merged, it stays one, unless it is small: then it shares a part with its neighbour.

use super::index::places_of;

/// Blocks that may share a part.
const TOGETHER: usize = 256;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Part {
    /// The number of its first block in the segment.
    pub(super) first: usize,
    /// The place of its newest letter when it was written.
    pub(super) top: i64,
}

/// The parts of a segment, in the order of its blocks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Parts(Vec<Part>);

impl Parts {
    /// All blocks in one.
    pub(super) fn whole(top: i64) -> Self {
        Self(vec![Part { first: 0, top }])
    }

    /// As they stand in the row of a segment with this newest place and so many blocks: sixteen bytes each. Nothing there, or
    /// nothing that could be: all is one.
    pub(super) fn read(data: &[u8], top: i64, blocks: usize) -> Self {
        let numbers: Vec<i64> = places_of(data).collect();
        let part = |pair: &[i64]| {
            let first = usize::try_from(pair[0]).ok()?;
            (first < blocks && pair[1] <= top).then_some(Part { first, top: pair[1] })
        };
        let parts: Option<Vec<Part>> = numbers.chunks_exact(2).map(part).collect();
        let in_order = |parts: &Vec<Part>| {
            parts.first().is_some_and(|part| part.first == 0) && parts.is_sorted_by(|a, b| a.first < b.first)
        };
        parts.filter(in_order).map_or_else(|| Self::whole(top), Self)
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        self.0.iter().flat_map(|part| [part.first as i64, part.top]).flat_map(i64::to_le_bytes).collect()
    }

    /// Adds a part behind the others.
    pub(super) fn add(&mut self, part: Part, blocks: usize) {
        match self.0.last_mut() {
            Some(last) if part.first + blocks - last.first <= TOGETHER => last.top = last.top.max(part.top),
            _ => self.0.push(part),
        }
    }

    /// Every part with where the next one begins; the last one ends with the blocks.
    pub(super) fn ranges(&self, blocks: usize) -> impl Iterator<Item = (Part, usize)> + '_ {
        let ends = self.0.iter().skip(1).map(|part| part.first).chain([blocks]);
        self.0.iter().copied().zip(ends)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_come_back_and_what_cannot_be_is_one() {
        let mut parts = Parts::default();
        for (first, blocks, top) in [(0, 200, 7), (200, 56, 9), (256, 1, 3), (257, 255, 2), (512, 300, 8)] {
            parts.add(Part { first, top }, blocks);
        }
        let ranges: Vec<_> = parts.ranges(812).map(|(part, end)| (part.first, end, part.top)).collect();
        assert_eq!(ranges, [(0, 256, 9), (256, 512, 3), (512, 812, 8)]);
        let bytes = parts.bytes();
        assert_eq!(Parts::read(&bytes, 9, 812), parts);
        for damaged in [&[][..], &bytes[..7], &bytes[16..], &[0xff; 32], &bytes.repeat(2)] {
            assert_eq!(Parts::read(damaged, 9, 812), Parts::whole(9));
        }
        assert_eq!(Parts::read(&bytes, 8, 812), Parts::whole(8), "one is newer than all");
        assert_eq!(Parts::read(&bytes, 9, 512), Parts::whole(9), "one has no blocks");
    }
}
