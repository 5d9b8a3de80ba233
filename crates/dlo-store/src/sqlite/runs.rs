//! Runs of neighbouring blocks: which blocks a segment has, in the order of the numbers that it gives them.
//!
//! Blocks are indexed newest first, some hundred at a time, and merged segment behind segment. One by one they would be half a
//! megabyte in the largest segment, read whenever it has a hit; as runs that go down they are a few kilobytes.

use crate::postings::MOST_BLOCKS;

/// Bytes of a run: its first block, and how many there are, negative where they go down.
const BYTES: usize = 12;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Run {
    /// The number of its first block in the segment.
    number: usize,
    first: i64,
    /// From each block to the next: one up or one down.
    step: i64,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Runs {
    runs: Vec<Run>,
    blocks: usize,
}

impl Runs {
    /// Of these blocks, in this order.
    pub(super) fn of(blocks: &[i64]) -> Self {
        let mut runs = Self::default();
        let mut rest = blocks;
        while let [first, behind @ ..] = rest {
            let step = if behind.first() == Some(&(first - 1)) { -1 } else { 1 };
            let goes_on = |pair: &[i64]| pair[0].checked_add(step) == Some(pair[1]);
            let count = 1 + rest.windows(2).take_while(|pair| goes_on(pair)).count();
            runs.add(*first, step, count);
            rest = &rest[count..];
        }
        runs
    }

    /// As they stand in the row of a segment. A run that cannot be one ends them: damage may claim anything.
    pub(super) fn read(data: &[u8]) -> Self {
        let mut runs = Self::default();
        for run in data.chunks_exact(BYTES) {
            let (Some(first), Some(count)) = (run.first_chunk::<8>(), run.last_chunk::<4>()) else { break };
            let (first, count) = (i64::from_le_bytes(*first), i32::from_le_bytes(*count));
            let (blocks, step) = (count.unsigned_abs() as usize, i64::from(count.signum()));
            let known = runs.blocks.saturating_add(blocks) <= MOST_BLOCKS && step != 0;
            if !known || first.checked_add(i64::from(count)).is_none() {
                break;
            }
            runs.add(first, step, blocks);
        }
        runs
    }

    fn add(&mut self, first: i64, step: i64, count: usize) {
        self.runs.push(Run { number: self.blocks, first, step });
        self.blocks += count;
    }

    pub(super) fn bytes(&self) -> Vec<u8> {
        let ends = self.runs.iter().skip(1).map(|run| run.number).chain([self.blocks]);
        let mut bytes = Vec::with_capacity(self.runs.len() * BYTES);
        for (run, end) in self.runs.iter().zip(ends) {
            bytes.extend_from_slice(&run.first.to_le_bytes());
            bytes.extend_from_slice(&((end - run.number) as i32 * run.step as i32).to_le_bytes());
        }
        bytes
    }

    /// The block that has this number in the segment.
    pub(super) fn block(&self, number: usize) -> Option<i64> {
        let run = self.runs[..self.runs.partition_point(|run| run.number <= number)].last()?;
        (number < self.blocks).then(|| run.first + (number - run.number) as i64 * run.step)
    }

    /// All of them, in order.
    pub(super) fn iter(&self) -> impl Iterator<Item = i64> + '_ {
        let ends = self.runs.iter().skip(1).map(|run| run.number).chain([self.blocks]);
        self.runs
            .iter()
            .zip(ends)
            .flat_map(|(run, end)| (0..(end - run.number) as i64).map(|n| run.first + n * run.step))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn blocks_come_back_in_their_order(
            runs in proptest::collection::vec((1_i64..1 << 40, 1_i64..300, any::<bool>()), 0..40),
        ) {
            let run = |(first, count, down): (i64, i64, bool)| (0..count).map(move |n| if down { first + count - n } else { first + n });
            let blocks: Vec<i64> = runs.into_iter().flat_map(run).collect();
            let made = Runs::of(&blocks);
            let read = Runs::read(&made.bytes());
            prop_assert_eq!(&read, &made);
            prop_assert_eq!(read.iter().collect::<Vec<_>>(), &blocks[..]);
            let by_number: Option<Vec<i64>> = (0..blocks.len()).map(|number| read.block(number)).collect();
            prop_assert_eq!(by_number, Some(blocks.clone()));
            prop_assert_eq!(read.block(blocks.len()), None);
        }

        #[test]
        fn any_bytes_are_runs_of_no_more_than_a_segment_has(data in proptest::collection::vec(any::<u8>(), 0..200)) {
            let read = Runs::read(&data);
            prop_assert!(read.iter().count() <= MOST_BLOCKS);
        }
    }

    #[test]
    fn what_was_indexed_together_is_one_run_and_a_largest_segment_fits() {
        let down: Vec<i64> = (1..=256).rev().collect();
        assert_eq!(Runs::of(&down).bytes().len(), BYTES);
        let all: Vec<i64> = (1..=MOST_BLOCKS as i64).collect();
        assert_eq!(Runs::read(&Runs::of(&all).bytes()).iter().count(), MOST_BLOCKS);
        let claims_too_much = [1_i64.to_le_bytes().as_slice(), &i32::MAX.to_le_bytes()].concat();
        assert_eq!(Runs::read(&claims_too_much), Runs::default());
        let beyond = [i64::MAX.to_le_bytes().as_slice(), &2_i32.to_le_bytes()].concat();
        assert_eq!(Runs::read(&beyond), Runs::default());
    }
}
