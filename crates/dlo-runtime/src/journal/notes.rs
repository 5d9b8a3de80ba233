//! The index of the notes: which row has whose, which was noted longest ago, which rows are free.
//!
//! Only rows in the map outlive the process; this is made anew at each start. A note is written to a free row before its old
//! row is emptied, so a message never loses its count between the two; of two rows the later number speaks.

use std::collections::{BTreeMap, HashMap};

use dlo_core::attempt::Attempt;
use dlo_core::poison::Mark;
use dlo_core::time::Timestamp;

use super::MOST_NOTES;
use super::layout::{Layout, Note};

#[derive(Debug)]
pub(super) struct Notes {
    layout: Layout,
    rows: HashMap<Mark, u32>,
    /// Rows by the number of their note: the first was noted longest ago.
    order: BTreeMap<u64, u32>,
    free: Vec<u32>,
    next: u64,
}

impl Notes {
    pub(super) fn new(layout: Layout) -> Self {
        let free = (0..layout.note_rows()).rev().collect();
        Self { layout, rows: HashMap::new(), order: BTreeMap::new(), free, next: 0 }
    }

    pub(super) fn put(&mut self, bytes: &mut [u8], mark: Mark, attempt: Attempt, first_failed_at: Timestamp) {
        let Some(row) = self.free.pop() else { return };
        let number = self.next;
        self.next = self.next.saturating_add(1);
        self.layout.write_note(bytes, row, Note { mark, attempt, first_failed_at, number });
        if let Some(old) = self.rows.insert(mark, row) {
            self.release(bytes, old);
        }
        self.order.insert(number, row);
        if self.rows.len() > MOST_NOTES {
            self.forget_oldest(bytes);
        }
    }

    /// Takes a note from an earlier life. Of two about one message, the one that counts further speaks.
    pub(super) fn merge(&mut self, bytes: &mut [u8], note: Note) {
        let known = self.get(bytes, note.mark).is_some_and(|known| known.attempt > note.attempt);
        if !known {
            self.put(bytes, note.mark, note.attempt, note.first_failed_at);
        }
    }

    pub(super) fn get(&self, bytes: &[u8], mark: Mark) -> Option<Note> {
        self.layout.read_note(bytes, *self.rows.get(&mark)?)
    }

    pub(super) fn remove(&mut self, bytes: &mut [u8], mark: Mark) {
        if let Some(row) = self.rows.remove(&mark) {
            self.release(bytes, row);
        }
    }

    fn forget_oldest(&mut self, bytes: &mut [u8]) {
        let oldest = self.order.first_key_value().and_then(|(_, row)| self.layout.read_note(bytes, *row));
        if let Some(oldest) = oldest {
            self.remove(bytes, oldest.mark);
        }
    }

    fn release(&mut self, bytes: &mut [u8], row: u32) {
        if let Some(note) = self.layout.read_note(bytes, row) {
            self.order.remove(&note.number);
        }
        self.layout.clear_note(bytes, row);
        self.free.push(row);
    }
}
