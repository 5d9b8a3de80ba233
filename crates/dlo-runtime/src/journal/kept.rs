//! Suspects as bytes: `magic and version 8 · (mark 8 · crashes 1 · (at 8 · alone 1)…)… · crc 4`.
//!
//! Bounded as the suspects themselves are: so many messages, and of each the last crashes only.

use std::collections::BTreeMap;

use dlo_core::poison::{Crash, MOST_SUSPECTS, Mark};
use dlo_core::time::Timestamp;

use crate::crc32::crc32;

const MAGIC: [u8; 8] = *b"DLOSUSP\x01";
/// What `poison.crashes` may be at most: earlier ones change no verdict.
const MOST_CRASHES: usize = 100;
/// No file of ours is longer.
pub(super) const LONGEST: usize = 8 + MOST_SUSPECTS * (9 + MOST_CRASHES * 9) + 4;

pub(super) fn write<'a>(suspects: impl Iterator<Item = (Mark, &'a [Crash])>) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for (mark, crashes) in suspects.take(MOST_SUSPECTS) {
        let last = &crashes[crashes.len().saturating_sub(MOST_CRASHES)..];
        bytes.extend(mark.0.to_le_bytes());
        bytes.push(last.len() as u8);
        for crash in last {
            bytes.extend(crash.at.as_micros().to_le_bytes());
            bytes.push(u8::from(crash.alone));
        }
    }
    let check = crc32(&bytes);
    bytes.extend(check.to_le_bytes());
    bytes
}

/// `None`: damaged, foreign, or of another version.
pub(super) fn read(bytes: &[u8]) -> Option<Vec<(Mark, Crash)>> {
    let (body, check) = bytes.split_last_chunk::<4>()?;
    if crc32(body) != u32::from_le_bytes(*check) {
        return None;
    }
    let mut rest = body.strip_prefix(&MAGIC)?;
    let mut suspects = Vec::new();
    while !rest.is_empty() {
        let mark = Mark(u64::from_le_bytes(take(&mut rest)?));
        let [crashes] = take(&mut rest)?;
        for _ in 0..crashes {
            let at = Timestamp::from_micros(i64::from_le_bytes(take(&mut rest)?));
            let [alone] = take(&mut rest)?;
            suspects.push((mark, Crash { at, alone: alone == 1 }));
        }
    }
    Some(suspects)
}

fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, behind) = rest.split_first_chunk::<N>()?;
    *rest = behind;
    Some(*taken)
}

/// Suspects from several places, each crash once, in the order of time.
#[derive(Debug, Default)]
pub(super) struct Merged(BTreeMap<Mark, Vec<Crash>>);

impl Merged {
    pub(super) fn add(&mut self, mark: Mark, crash: Crash) {
        if self.0.len() >= MOST_SUSPECTS && !self.0.contains_key(&mark) {
            return;
        }
        let crashes = self.0.entry(mark).or_default();
        if crashes.contains(&crash) {
            return;
        }
        let behind = crashes.partition_point(|known| known.at <= crash.at);
        crashes.insert(behind, crash);
        if crashes.len() > MOST_CRASHES {
            crashes.remove(0);
        }
    }

    pub(super) fn into_vec(self) -> Vec<(Mark, Vec<Crash>)> {
        self.0.into_iter().collect()
    }
}
