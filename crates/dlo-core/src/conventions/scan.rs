//! Which conventions are there at all, found by looking once at every header name.
//!
//! A table by first letter says which conventions a name could belong to, so that a business header costs one look-up. The
//! payload is opened only where no client has told its story in headers: whoever republishes with headers does not wrap.

use std::sync::LazyLock;

use super::Reading;
use super::catalogue::{ALL, Convention, Mark, Writer};
use super::view::View;

/// Conventions as bits of a number; a test holds their count below its width.
type Set = u64;

/// For every first byte of a header name, in lower case: the conventions that have such a name.
static BY_FIRST_BYTE: LazyLock<[Set; 256]> = LazyLock::new(|| {
    let mut table = [0; 256];
    for (index, convention) in ALL.iter().enumerate() {
        for mark in convention.marks {
            if let Mark::Name(text) | Mark::Prefix(text) = mark
                && let Some(first) = text.bytes().next()
            {
                table[usize::from(first.to_ascii_lowercase())] |= 1 << index;
            }
        }
    }
    table
});

/// One convention's story, and where in the header list its marks ended.
pub(super) struct Story {
    pub(super) id: &'static str,
    pub(super) writer: Writer,
    pub(super) position: usize,
    pub(super) reading: Reading,
}

/// The conventions that left a mark.
pub(super) struct Seen {
    set: Set,
    /// Per convention the place of its last mark.
    positions: [usize; 64],
}

pub(super) fn scan(view: &View<'_>) -> Seen {
    let mut seen = Seen { set: 0, positions: [0; 64] };
    let table = &*BY_FIRST_BYTE;
    for (position, header) in view.message.headers.0.iter().enumerate() {
        let Some(first) = header.name.bytes().next() else { continue };
        let mut candidates = table[usize::from(first.to_ascii_lowercase())];
        while candidates != 0 {
            let index = candidates.trailing_zeros() as usize;
            candidates &= candidates - 1;
            if ALL[index].marks.iter().any(|mark| mark.is(&header.name, view.exact)) {
                seen.set |= 1 << index;
                seen.positions[index] = position;
            }
        }
    }
    seen.look_elsewhere(view);
    seen
}

impl Seen {
    /// Marks that are no headers: the queue's name, the payload's fields.
    fn look_elsewhere(&mut self, view: &View<'_>) {
        let told = ALL.iter().enumerate().any(|(index, one)| self.has(index) && one.writer == Writer::Client);
        for (index, convention) in ALL.iter().enumerate() {
            let marked = convention.marks.iter().any(|mark| match mark {
                Mark::Queue(part) => contains(view.found.queue, part),
                Mark::Field(name) => !told && view.body().is_some_and(|body| body.field(name).is_some()),
                Mark::Name(_) | Mark::Prefix(_) => false,
            });
            if marked && !self.has(index) {
                self.set |= 1 << index;
                // Behind all headers: what wraps a payload came after what the headers tell.
                self.positions[index] = view.message.headers.len();
            }
        }
    }

    fn has(&self, index: usize) -> bool {
        self.set & (1 << index) != 0
    }

    /// Asks those that left a mark. A mark is a hint: the detector has the last word.
    pub(super) fn stories(&self, view: &View<'_>) -> Vec<Story> {
        let mut stories = Vec::new();
        let mut set = self.set;
        while set != 0 {
            let index = set.trailing_zeros() as usize;
            set &= set - 1;
            let Convention { id, writer, read, .. } = &ALL[index];
            if let Some(reading) = read(view) {
                stories.push(Story { id, writer: *writer, position: self.positions[index], reading });
            }
        }
        stories
    }
}

/// Whether `part` is in `text`, without regard to ASCII case.
fn contains(text: &str, part: &str) -> bool {
    text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_convention_has_its_bit_and_its_own_id() {
        assert!(ALL.len() <= Set::BITS as usize);
        let mut ids: Vec<_> = super::super::ids().collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), super::super::ids().count());
    }
}
