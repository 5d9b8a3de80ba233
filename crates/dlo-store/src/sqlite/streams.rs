//! Streams of places, newest first, and their merge.
//!
//! A stream is one index read in descending order, a chunk at a time, so that a page that is full after fifty letters
//! has read little more. The merge hands out each place once, even if several streams have it.

use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use dlo_core::letter::Status;
use rusqlite::Connection;
use rusqlite::types::Value;

use super::catalog::GroupRow;
use super::segments::Segments;
use super::{index, read_error};
use crate::StoreError;
use crate::grams::Term;
use crate::place::{Place, Range};

/// Places fetched at once: the first chunk is small, since most pages need little of most streams, and each that follows
/// four times as large up to the last size. A stream that stands alone begins with a page.
const FIRST_CHUNK: usize = 16;
const PAGE_CHUNK: usize = 64;
const CHUNK: usize = 512;

#[derive(Debug)]
pub(super) struct Stream {
    kind: Kind,
    /// Fetched and not handed out, newest last.
    buffer: Vec<Place>,
    chunk: usize,
}

#[derive(Debug)]
enum Kind {
    /// An index: the SQL takes two bounds and a limit behind its own parameters.
    Index { sql: &'static str, own: Vec<Value> },
    /// The index of texts.
    Grams(Segments),
    /// All there is stands in the buffer.
    Listed,
}

impl Stream {
    fn index(sql: &'static str, own: Vec<Value>) -> Self {
        Self { kind: Kind::Index { sql, own }, buffer: Vec::new(), chunk: FIRST_CHUNK }
    }

    pub(super) fn everything() -> Self {
        let sql = "SELECT place FROM letters WHERE place >= ?1 AND place < ?2 ORDER BY place DESC LIMIT ?3";
        Self::index(sql, Vec::new())
    }

    pub(super) fn status(status: Status) -> Self {
        let sql = "SELECT place FROM letters INDEXED BY letters_by_status
                    WHERE status = ?4 AND place >= ?1 AND place < ?2 ORDER BY place DESC LIMIT ?3";
        Self::index(sql, vec![Value::Integer(status.number().into())])
    }

    pub(super) fn pair(group: GroupRow, status: Status) -> Self {
        let sql = "SELECT place FROM letters INDEXED BY letters_by_group
                    WHERE group_id = ?4 AND status = ?5 AND place >= ?1 AND place < ?2 ORDER BY place DESC LIMIT ?3";
        Self::index(sql, vec![Value::Integer(group), Value::Integer(status.number().into())])
    }

    pub(super) fn quick(tokens: &[String]) -> Self {
        let sql = "SELECT rowid FROM quick WHERE quick MATCH ?4 AND rowid >= ?1 AND rowid < ?2
                    ORDER BY rowid DESC LIMIT ?3";
        Self::index(sql, vec![Value::Text(all_of(tokens))])
    }

    /// Letters in blocks that have a term of each of these ranges.
    pub(super) fn grams(
        db: &Connection,
        wanted: Vec<RangeInclusive<Term>>,
        range: Range,
    ) -> Result<Self, StoreError> {
        let kind = Kind::Grams(Segments::new(db, wanted, range)?);
        Ok(Self { kind, buffer: Vec::new(), chunk: CHUNK })
    }

    /// Every letter whose texts are not indexed yet.
    pub(super) fn unindexed(db: &Connection, range: Range) -> Result<Self, StoreError> {
        let mut statement = db
            .prepare_cached("SELECT b.places FROM unindexed u JOIN blocks b ON b.id = u.block")
            .map_err(read_error)?;
        let lists: Vec<Vec<u8>> =
            statement.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(read_error)?;
        let inside = |place: &i64| *place >= range.low.0 && *place < range.high.0 && *place > 0;
        let mut buffer: Vec<Place> =
            lists.iter().flat_map(|list| index::places_of(list)).filter(inside).map(Place).collect();
        buffer.sort_unstable();
        Ok(Self { kind: Kind::Listed, buffer, chunk: CHUNK })
    }

    /// How many places it has, counted up to a little more than `most`.
    pub(super) fn hits(&mut self, db: &Connection, range: Range, most: usize) -> Result<usize, StoreError> {
        match &mut self.kind {
            Kind::Listed => Ok(self.buffer.len()),
            Kind::Grams(segments) => segments.hits(db, range, most),
            Kind::Index { .. } => Ok(self.fetch(db, range, most + 1)?.len()),
        }
    }

    /// Everything in the range at once, no more than `most`.
    pub(super) fn all(&self, db: &Connection, range: Range, most: usize) -> Result<Vec<Place>, StoreError> {
        self.fetch(db, range, most)
    }

    fn fetch(&self, db: &Connection, range: Range, most: usize) -> Result<Vec<Place>, StoreError> {
        let Kind::Index { sql, own } = &self.kind else { return Ok(Vec::new()) };
        let mut values =
            vec![Value::Integer(range.low.0), Value::Integer(range.high.0), Value::Integer(most as i64)];
        values.extend(own.iter().cloned());
        let mut statement = db.prepare_cached(sql).map_err(read_error)?;
        statement
            .query_map(rusqlite::params_from_iter(values), |row| row.get(0).map(Place))
            .and_then(Iterator::collect)
            .map_err(read_error)
    }

    /// The next place before `range.high`.
    fn next(&mut self, db: &Connection, range: Range) -> Result<Option<Place>, StoreError> {
        if let Kind::Grams(segments) = &mut self.kind {
            return segments.next(db, range);
        }
        if self.buffer.is_empty() {
            self.buffer = self.fetch(db, range, self.chunk)?;
            self.buffer.reverse();
            self.chunk = (self.chunk * 4).min(CHUNK);
        }
        Ok(self.buffer.pop())
    }
}

/// A full-text query for letters that have every token. Tokens are letters and digits only, so quoting is safe.
fn all_of(tokens: &[String]) -> String {
    let quoted: Vec<String> = tokens.iter().map(|token| format!("\"{token}\"")).collect();
    quoted.join(" AND ")
}

/// Several streams as one, newest first, each place once.
#[derive(Debug)]
pub(super) struct Merged {
    streams: Vec<Stream>,
    range: Range,
    /// The next place of each stream that has one.
    heads: BinaryHeap<(Place, usize)>,
    started: bool,
}

impl Merged {
    pub(super) fn new(mut streams: Vec<Stream>, range: Range) -> Self {
        if let [alone] = &mut streams[..] {
            alone.chunk = alone.chunk.max(PAGE_CHUNK);
        }
        Self { streams, range, heads: BinaryHeap::new(), started: false }
    }

    pub(super) fn next(&mut self, db: &Connection) -> Result<Option<Place>, StoreError> {
        if !self.started {
            self.started = true;
            for stream in 0..self.streams.len() {
                self.pull(db, stream, self.range.high)?;
            }
        }
        let Some((place, stream)) = self.heads.pop() else { return Ok(None) };
        self.pull(db, stream, place)?;
        while let Some((same, other)) = self.heads.peek().copied().filter(|(next, _)| *next == place) {
            self.heads.pop();
            self.pull(db, other, same)?;
        }
        Ok(Some(place))
    }

    /// Takes the next place of a stream, older than `high`, to the heads.
    fn pull(&mut self, db: &Connection, stream: usize, high: Place) -> Result<(), StoreError> {
        let range = Range { low: self.range.low, high };
        if let Some(place) = self.streams[stream].next(db, range)? {
            self.heads.push((place, stream));
        }
        Ok(())
    }
}
