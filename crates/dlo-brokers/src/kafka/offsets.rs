//! What of one partition is done, when messages are settled in any order.
//!
//! Kafka keeps one number per group and partition: everything before it is done. We may only say so of what is, so the
//! number is the first open offset. What is done above it would come again after a crash or a rebalance; therefore the
//! commit carries, in its metadata, which stretches above the number are open and which are done, and the next
//! owner of the partition passes over what is done. The metadata has room for some two thousand stretches; beyond
//! that the tail is told as open, and may be delivered twice.

use std::collections::BTreeSet;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

/// Kafka takes 4,096 bytes of metadata by default (`offset.metadata.max.bytes`).
const METADATA: usize = 4_000;
/// Metadata that speaks of more open offsets than this is not ours, or not sane.
const OPEN: u64 = 100_000;
const VERSION: &str = "dlo1";

/// One partition since it was assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offsets {
    /// Everything from here on is still to come.
    end: i64,
    /// In somebody's hand, or waiting to be handed out again.
    delivered: BTreeSet<i64>,
    /// Open at the last commit of the partition's former owner; did not come yet.
    expected: BTreeSet<i64>,
    /// How often something was done, and how much of it the group was told.
    changes: u64,
    told: u64,
}

/// What the group is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Commit {
    pub(super) offset: i64,
    pub(super) metadata: String,
    changes: u64,
}

impl Offsets {
    /// A partition of which nothing is known but where to begin.
    pub(super) fn from(begin: i64) -> Self {
        Self { end: begin, delivered: BTreeSet::new(), expected: BTreeSet::new(), changes: 0, told: 0 }
    }

    /// Goes on where a commit says. `None` if it was written for another life of the topic.
    pub(super) fn resume(offset: i64, metadata: &str, incarnation: Option<&str>) -> Option<Self> {
        let mut offsets = Self::from(offset);
        let mut parts = metadata.split(':');
        let ours = parts.next() == Some(VERSION);
        let (Some(life), Some(stretches), true) = (parts.next(), parts.next(), ours) else {
            // Committed by somebody else's client: the number alone speaks.
            return Some(offsets);
        };
        if incarnation.is_some_and(|incarnation| !life.is_empty() && incarnation != life) {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(stretches).unwrap_or_default();
        let (mut rest, mut open, mut count) = (bytes.as_slice(), true, 0_u64);
        while let Some(length) = varint(&mut rest) {
            let end = i64::try_from(length).ok().and_then(|length| offsets.end.checked_add(length));
            let Some(end) = end else { break };
            if open {
                count = count.saturating_add(length);
                if count > OPEN {
                    break;
                }
                offsets.expected.extend(offsets.end..end);
            }
            offsets.end = end;
            open = !open;
        }
        Some(offsets)
    }

    /// A record came, in its order. `false`: it is done already, or in a hand; pass over it.
    pub(super) fn arrive(&mut self, offset: i64) -> bool {
        // Expected offsets that were passed do not exist any more: compacted, or removed by retention.
        while self.expected.first().is_some_and(|gone| *gone < offset) {
            self.expected.pop_first();
        }
        let comes = self.expected.remove(&offset) || offset >= self.end;
        self.end = self.end.max(offset.saturating_add(1));
        comes && self.delivered.insert(offset)
    }

    pub(super) fn done(&mut self, offset: i64) {
        if self.delivered.remove(&offset) {
            self.changes += 1;
        }
    }

    /// The first offset that is not done.
    pub(super) fn watermark(&self) -> i64 {
        let first = [self.delivered.first(), self.expected.first()].into_iter().flatten().min();
        first.copied().unwrap_or(self.end)
    }

    /// How many records are not done of those that were seen, and where the unseen begin.
    pub(super) fn open(&self) -> (u64, i64) {
        ((self.delivered.len() + self.expected.len()) as u64, self.end)
    }

    /// Whether something is done of which the group was not told.
    pub(super) fn is_dirty(&self) -> bool {
        self.changes != self.told
    }

    /// What the group should be told, if it was not told already.
    pub(super) fn commit(&self, incarnation: Option<&str>) -> Option<Commit> {
        if !self.is_dirty() {
            return None;
        }
        let life = incarnation.unwrap_or_default();
        let stretches = self.stretches(METADATA.saturating_sub(life.len()));
        let metadata = format!("{VERSION}:{life}:{stretches}");
        Some(Commit { offset: self.watermark(), metadata, changes: self.changes })
    }

    /// The group was told.
    pub(super) fn told(&mut self, commit: &Commit) {
        self.told = commit.changes;
    }

    /// Lengths of open and done stretches in turn, from the watermark to the end, open first.
    fn stretches(&self, room: usize) -> String {
        let room = room / 4 * 3;
        let mut bytes = Vec::new();
        let (mut at, mut open_run) = (self.watermark(), 0_u64);
        for offset in self.delivered.union(&self.expected) {
            if *offset != at {
                if bytes.len() + 20 > room {
                    return URL_SAFE_NO_PAD.encode(bytes);
                }
                push_varint(&mut bytes, open_run);
                push_varint(&mut bytes, u64::try_from(*offset - at).unwrap_or(0));
                open_run = 0;
            }
            open_run += 1;
            at = offset.saturating_add(1);
        }
        if open_run > 0 && at < self.end {
            push_varint(&mut bytes, open_run);
            push_varint(&mut bytes, u64::try_from(self.end - at).unwrap_or(0));
        }
        URL_SAFE_NO_PAD.encode(bytes)
    }
}

fn push_varint(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_what_is_done_without_a_gap_moves_the_number() {
        let mut offsets = Offsets::from(10);
        assert!((10..15).all(|offset| offsets.arrive(offset)));
        offsets.done(11);
        assert_eq!(offsets.watermark(), 10);
        offsets.done(10);
        assert_eq!(offsets.watermark(), 12);
        (12..15).for_each(|offset| offsets.done(offset));
        assert_eq!(offsets.watermark(), 15);
    }

    #[test]
    fn offsets_that_do_not_exist_are_no_gap() {
        let mut offsets = Offsets::from(0);
        assert!(offsets.arrive(3) && offsets.arrive(90));
        offsets.done(3);
        offsets.done(90);
        assert_eq!(offsets.watermark(), 91);
    }

    #[test]
    fn the_next_owner_passes_over_what_is_done_and_gets_what_is_open() {
        let mut first = Offsets::from(0);
        assert!((0..10).all(|offset| first.arrive(offset)));
        [0, 1, 4, 5, 8].iter().for_each(|offset| first.done(*offset));
        let commit = first.commit(Some("life")).unwrap();
        assert_eq!(commit.offset, 2);
        let mut next = Offsets::resume(commit.offset, &commit.metadata, Some("life")).unwrap();
        let came: Vec<i64> = (2..12).filter(|offset| next.arrive(*offset)).collect();
        assert_eq!(came, [2, 3, 6, 7, 9, 10, 11]);
    }

    #[test]
    fn a_commit_of_another_life_does_not_count_and_one_of_a_stranger_is_a_number() {
        let mut offsets = Offsets::from(0);
        assert!(offsets.arrive(0));
        offsets.done(0);
        let commit = offsets.commit(Some("old")).unwrap();
        assert_eq!(Offsets::resume(commit.offset, &commit.metadata, Some("new")), None);
        assert_eq!(Offsets::resume(7, "host-1", Some("new")).unwrap().watermark(), 7);
        assert_eq!(Offsets::resume(7, "", None).unwrap().watermark(), 7);
    }

    #[test]
    fn an_open_offset_that_was_removed_meanwhile_holds_nothing_up() {
        let mut first = Offsets::from(0);
        assert!((0..4).all(|offset| first.arrive(offset)));
        first.done(1);
        first.done(3);
        let commit = first.commit(None).unwrap();
        let mut next = Offsets::resume(commit.offset, &commit.metadata, None).unwrap();
        assert!(!next.arrive(3), "0 and 2 were compacted away");
        assert_eq!(next.watermark(), 4);
    }

    #[test]
    fn what_was_told_is_not_told_again() {
        let mut offsets = Offsets::from(5);
        assert_eq!(offsets.commit(None), None);
        assert!(offsets.arrive(5) && offsets.arrive(6));
        assert_eq!(offsets.commit(None), None, "nothing is done yet");
        offsets.done(6);
        let commit = offsets.commit(None).unwrap();
        offsets.told(&commit);
        assert_eq!(offsets.commit(None), None);
    }

    #[test]
    fn the_metadata_fits_however_torn_the_partition_is() {
        let mut offsets = Offsets::from(0);
        for offset in 0..100_000 {
            offsets.arrive(offset);
            if offset % 2 == 1 {
                offsets.done(offset);
            }
        }
        let commit = offsets.commit(Some("AAAAAAAAAAAAAAAAAAAAAA")).unwrap();
        assert!(commit.metadata.len() <= 4_096, "{}", commit.metadata.len());
        let next = Offsets::resume(commit.offset, &commit.metadata, None).unwrap();
        assert!(next.end > 1_000, "a good part is kept: {}", next.end);
    }

    proptest! {
        /// Whatever is settled in whatever order: nothing that is open is passed over, nothing done is delivered twice.
        #[test]
        fn nothing_open_is_lost_and_nothing_done_comes_again(
            gaps in prop::collection::vec(1_i64..4, 1..200),
            done in prop::collection::btree_set(0_usize..200, 0..200),
            begin in 0_i64..1_000_000,
        ) {
            let existing: Vec<i64> = gaps.iter().scan(begin, |at, gap| { *at += gap; Some(*at) }).collect();
            let mut offsets = Offsets::from(begin);
            for offset in &existing {
                prop_assert!(offsets.arrive(*offset));
            }
            let settled: BTreeSet<i64> = done.iter().filter_map(|at| existing.get(*at).copied()).collect();
            settled.iter().for_each(|offset| offsets.done(*offset));
            let (offset, metadata) = match offsets.commit(None) {
                Some(commit) => (commit.offset, commit.metadata),
                None => (begin, String::new()),
            };
            let mut next = Offsets::resume(offset, &metadata, None).unwrap();
            let again: BTreeSet<i64> =
                existing.iter().copied().filter(|at| *at >= offset && next.arrive(*at)).collect();
            let open: BTreeSet<i64> = existing.iter().copied().filter(|at| !settled.contains(at)).collect();
            prop_assert_eq!(again, open);
        }

        #[test]
        fn any_metadata_is_read_without_harm(metadata in ".{0,200}", offset in 0_i64..i64::MAX) {
            let _ = Offsets::resume(offset, &metadata, Some("x"));
        }

        #[test]
        fn any_stretches_are_read_without_harm(bytes in prop::collection::vec(any::<u8>(), 0..40), offset in 0_i64..i64::MAX) {
            let _ = Offsets::resume(offset, &format!("dlo1::{}", URL_SAFE_NO_PAD.encode(bytes)), None);
        }
    }
}
