//! Searching the index of texts: segments newest first, each opened only when its newest letter could be next.
//!
//! Of an open segment the blocks that have every term are listed, and their letters are candidates. Segments overlap in
//! time where letters came late; a heap puts their letters in order. A letter that moved since its segment was written is
//! left to whoever has its mark, or the newer segment.

use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension, params};

use super::index::{chunk_key, first_term, places_of};
use super::read_error;
use crate::StoreError;
use crate::grams::Term;
use crate::place::{Place, Range};
use crate::postings::{BlockSet, collect};

#[derive(Debug)]
pub(super) struct Segments {
    wanted: Vec<RangeInclusive<Term>>,
    /// Not opened yet, the newest last.
    closed: Vec<Segment>,
    places: BinaryHeap<Place>,
}

#[derive(Debug)]
struct Segment {
    id: i64,
    top: Place,
}

impl Segments {
    /// Those that have letters in the range.
    pub(super) fn new(
        db: &Connection,
        wanted: Vec<RangeInclusive<Term>>,
        range: Range,
    ) -> Result<Self, StoreError> {
        let sql = "SELECT id, top FROM segments WHERE top >= ?1 AND low < ?2 ORDER BY top, id";
        let closed = db
            .prepare_cached(sql)
            .map_err(read_error)?
            .query_map([range.low.0, range.high.0], |row| {
                Ok(Segment { id: row.get(0)?, top: Place(row.get(1)?) })
            })
            .and_then(Iterator::collect)
            .map_err(read_error)?;
        Ok(Self { wanted, closed, places: BinaryHeap::new() })
    }

    /// The next candidate before `range.high`.
    pub(super) fn next(&mut self, db: &Connection, range: Range) -> Result<Option<Place>, StoreError> {
        loop {
            let newest = self.places.peek().copied();
            if self.closed.last().is_some_and(|segment| newest.is_none_or(|newest| segment.top >= newest)) {
                self.open_next(db, range)?;
                continue;
            }
            match self.places.pop() {
                // The same block may stand in two segments.
                Some(place) if place >= range.high => {}
                next => return Ok(next),
            }
        }
    }

    /// How many candidates there are, counted until there are more than `most`.
    pub(super) fn hits(&mut self, db: &Connection, range: Range, most: usize) -> Result<usize, StoreError> {
        while self.places.len() <= most && !self.closed.is_empty() {
            self.open_next(db, range)?;
        }
        Ok(self.places.len())
    }

    fn open_next(&mut self, db: &Connection, range: Range) -> Result<(), StoreError> {
        let Some(segment) = self.closed.pop() else { return Ok(()) };
        let mut found = BlockSet::ALL;
        for wanted in &self.wanted {
            found.keep(&having(db, segment.id, wanted)?);
            if found.is_empty() {
                return Ok(());
            }
        }
        let list: Option<Vec<u8>> = db
            .prepare_cached("SELECT blocks FROM segments WHERE id = ?1")
            .map_err(read_error)?
            .query_row([segment.id], |row| row.get(0))
            .optional()
            .map_err(read_error)?;
        let mut places = db.prepare_cached("SELECT places FROM blocks WHERE id = ?1").map_err(read_error)?;
        let last = range.high.min(Place(segment.top.0.saturating_add(1)));
        for (_, id) in places_of(&list.unwrap_or_default()).enumerate().filter(|(n, _)| found.has(*n)) {
            let listed: Option<Vec<u8>> =
                places.query_row([id], |row| row.get(0)).optional().map_err(read_error)?;
            let listed = listed.unwrap_or_default();
            let inside = places_of(&listed).map(Place).filter(|place| *place >= range.low && *place < last);
            self.places.extend(inside.filter(|place| place.0 > 0));
        }
        Ok(())
    }
}

/// The blocks of a segment that have a term of the range.
fn having(db: &Connection, segment: i64, wanted: &RangeInclusive<Term>) -> Result<BlockSet, StoreError> {
    let (low, high) = (chunk_key(segment, *wanted.start()), chunk_key(segment, *wanted.end()));
    let mut found = BlockSet::default();
    let mut add = |row: &rusqlite::Row<'_>| -> rusqlite::Result<bool> {
        Ok(collect(first_term(row.get(0)?), row.get_ref(1)?.as_blob()?, wanted, &mut found))
    };
    // The chunk that begins at or before the range, and those that begin inside it.
    let before = "SELECT key, data FROM grams WHERE key <= ?1 AND key >= ?2 ORDER BY key DESC LIMIT 1";
    let mut whole = db
        .prepare_cached(before)
        .map_err(read_error)?
        .query_row(params![low, chunk_key(segment, 0)], &mut add)
        .optional()
        .map_err(read_error)?
        .unwrap_or(true);
    if high > low {
        let inside = "SELECT key, data FROM grams WHERE key > ?1 AND key <= ?2";
        let mut statement = db.prepare_cached(inside).map_err(read_error)?;
        let mut rows = statement.query(params![low, high]).map_err(read_error)?;
        while let Some(row) = rows.next().map_err(read_error)? {
            whole &= add(row).map_err(read_error)?;
        }
    }
    // A damaged chunk may have held anything.
    Ok(if whole { found } else { BlockSet::ALL })
}
