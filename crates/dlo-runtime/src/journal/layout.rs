//! Where what stands in the map: a head, the seats, the notes. Pure functions over bytes.
//!
//! ```text
//!  head    32: magic and version 8 · seats 4 · notes 4 · crc of these 4 · nothing 12
//!  seat    24: mark 8 · entered at 8 · crc 4, taken 4
//!  note    32: mark 8 · first failed at 8 · number in the order of noting 8 · attempt 4 · crc 4
//! ```
//! The checksum is stored last. A process that dies half-way leaves a row that does not check, which is an empty one: the
//! handler was not called yet, or the old row of the note still stands. A row of zeros is empty as well.

use std::ops::Range;
use std::sync::atomic::{Ordering, compiler_fence};

use dlo_core::attempt::Attempt;
use dlo_core::poison::Mark;
use dlo_core::time::Timestamp;

use super::{MOST_NOTES, MOST_SEATS};
use crate::crc32::crc32;

const MAGIC: [u8; 8] = *b"DLOJRNL\x01";
const HEAD: usize = 32;
const SEAT: usize = 24;
const NOTE: usize = 32;
const TAKEN: u32 = 0x7365_6174;
/// One row more than there are notes: a note is written anew before its old row is emptied.
const NOTE_ROWS: usize = MOST_NOTES + 1;
/// No file of ours is longer.
pub(super) const LONGEST: usize = HEAD + MOST_SEATS * SEAT + NOTE_ROWS * NOTE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Layout {
    seats: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Note {
    pub(super) mark: Mark,
    pub(super) attempt: Attempt,
    pub(super) first_failed_at: Timestamp,
    /// Later notes have higher numbers.
    pub(super) number: u64,
}

impl Layout {
    pub(super) fn new(seats: usize) -> Self {
        Self { seats: u32::try_from(seats.min(MOST_SEATS)).unwrap_or(u32::MAX) }
    }

    /// Of a file that is whole, by its head and its length. `None`: it is damaged, foreign, or of another version.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let seats = u32::from_le_bytes(*bytes.get(8..)?.first_chunk()?);
        if usize::try_from(seats).ok()? > MOST_SEATS {
            return None;
        }
        let layout = Self { seats };
        (bytes.len() == layout.len() && bytes.get(..HEAD)? == layout.head()).then_some(layout)
    }

    pub(super) fn seats(self) -> u32 {
        self.seats
    }

    pub(super) fn note_rows(self) -> u32 {
        NOTE_ROWS as u32
    }

    /// A map with a head and nothing else.
    pub(super) fn empty(self) -> Vec<u8> {
        let mut bytes = self.head().to_vec();
        bytes.resize(self.len(), 0);
        bytes
    }

    fn len(self) -> usize {
        HEAD + self.seats as usize * SEAT + NOTE_ROWS * NOTE
    }

    fn head(self) -> [u8; HEAD] {
        let mut head = [0; HEAD];
        head[..8].copy_from_slice(&MAGIC);
        head[8..12].copy_from_slice(&self.seats.to_le_bytes());
        head[12..16].copy_from_slice(&self.note_rows().to_le_bytes());
        let check = crc32(&head[..16]);
        head[16..20].copy_from_slice(&check.to_le_bytes());
        head
    }

    fn seat(self, seat: u32) -> Range<usize> {
        let start = HEAD + seat as usize * SEAT;
        start..start + SEAT
    }

    fn note(self, row: u32) -> Range<usize> {
        let start = HEAD + self.seats as usize * SEAT + row as usize * NOTE;
        start..start + NOTE
    }

    pub(super) fn sit(self, bytes: &mut [u8], seat: u32, mark: Mark, now: Timestamp) {
        let mut row = [0; SEAT];
        row[..8].copy_from_slice(&mark.0.to_le_bytes());
        row[8..16].copy_from_slice(&now.as_micros().to_le_bytes());
        let check = crc32(&row[..16]);
        row[16..20].copy_from_slice(&check.to_le_bytes());
        row[20..].copy_from_slice(&TAKEN.to_le_bytes());
        store(&mut bytes[self.seat(seat)], &row, 16);
    }

    pub(super) fn stand_up(self, bytes: &mut [u8], seat: u32) {
        bytes[self.seat(seat)][16..].fill(0);
    }

    /// Who sits, since when.
    pub(super) fn sitting(self, bytes: &[u8]) -> impl Iterator<Item = (Mark, Timestamp)> {
        (0..self.seats).filter_map(move |seat| {
            let row: &[u8; SEAT] = bytes.get(self.seat(seat))?.try_into().ok()?;
            let whole = word(row, 20) == TAKEN && word(row, 16) == crc32(&row[..16]);
            whole.then(|| (Mark(long(row, 0)), time(row, 8)))
        })
    }

    pub(super) fn write_note(self, bytes: &mut [u8], row: u32, note: Note) {
        let mut fields = [0; NOTE];
        fields[..8].copy_from_slice(&note.mark.0.to_le_bytes());
        fields[8..16].copy_from_slice(&note.first_failed_at.as_micros().to_le_bytes());
        fields[16..24].copy_from_slice(&note.number.to_le_bytes());
        fields[24..28].copy_from_slice(&note.attempt.number().to_le_bytes());
        let check = crc32(&fields[..28]);
        fields[28..].copy_from_slice(&check.to_le_bytes());
        store(&mut bytes[self.note(row)], &fields, 28);
    }

    pub(super) fn clear_note(self, bytes: &mut [u8], row: u32) {
        // An attempt of zero is no note, whatever the rest of the row says.
        bytes[self.note(row)][24..].fill(0);
    }

    pub(super) fn read_note(self, bytes: &[u8], row: u32) -> Option<Note> {
        let row: &[u8; NOTE] = bytes.get(self.note(row))?.try_into().ok()?;
        let attempt = Attempt::new(word(row, 24))?;
        (word(row, 28) == crc32(&row[..28])).then(|| Note {
            mark: Mark(long(row, 0)),
            attempt,
            first_failed_at: time(row, 8),
            number: long(row, 16),
        })
    }

    pub(super) fn notes(self, bytes: &[u8]) -> impl Iterator<Item = Note> {
        (0..self.note_rows()).filter_map(move |row| self.read_note(bytes, row))
    }
}

/// Stores a row so that its checksum, from `check` on, comes last.
fn store(to: &mut [u8], row: &[u8], check: usize) {
    to[check..].fill(0);
    compiler_fence(Ordering::SeqCst);
    to[..check].copy_from_slice(&row[..check]);
    compiler_fence(Ordering::SeqCst);
    to[check..].copy_from_slice(&row[check..]);
}

fn word(row: &[u8], at: usize) -> u32 {
    row.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u32::from_le_bytes)
}

fn long(row: &[u8], at: usize) -> u64 {
    row.get(at..).and_then(|rest| rest.first_chunk()).copied().map_or(0, u64::from_le_bytes)
}

fn time(row: &[u8], at: usize) -> Timestamp {
    Timestamp::from_micros(long(row, at).cast_signed())
}
