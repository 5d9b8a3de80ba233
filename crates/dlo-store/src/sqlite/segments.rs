//! Searching the index of texts: segments newest first, each opened only when its newest letter could be next.
//!
//! Of an open segment the blocks that have every term are listed, and their letters are candidates. Segments overlap in
//! time where letters came late; a heap puts their letters in order. A letter that moved since its segment was written is
//! left to whoever has its mark, or the newer segment. Every segment is asked for what is rare first: most have none of it,
//! and need not be asked for the common words beside it.

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
    /// As they are asked for, the rarest first.
    wanted: Vec<Wanted>,
    /// Not opened yet, the newest last.
    closed: Vec<Segment>,
    places: BinaryHeap<Place>,
}

#[derive(Debug)]
struct Wanted {
    terms: RangeInclusive<Term>,
    /// Blocks that had one of them, in the segment that was last asked.
    blocks: usize,
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
        let mut wanted: Vec<_> = wanted.into_iter().map(|terms| Wanted { terms, blocks: 0 }).collect();
        // Before anything is known: a single term is rarer than all that begin alike.
        wanted.sort_by_key(|wanted| wanted.terms.end() - wanted.terms.start());
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
        let found = self.blocks(db, segment.id)?;
        if found.is_empty() {
            return Ok(());
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

    /// The blocks of a segment that have everything that is wanted.
    fn blocks(&mut self, db: &Connection, segment: i64) -> Result<BlockSet, StoreError> {
        let mut found = BlockSet::ALL;
        for wanted in &mut self.wanted {
            let having = having(db, segment, &wanted.terms)?;
            wanted.blocks = having.len();
            found.keep(&having);
            if found.is_empty() {
                break;
            }
        }
        // What is rare in one segment is rare in the next. What was not asked for keeps its turn.
        self.wanted.sort_by_key(|wanted| wanted.blocks);
        Ok(found)
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

#[cfg(test)]
mod tests {
    use super::super::index::write_segment;
    use super::*;
    use crate::postings::{Chunker, Posting};

    const COMMON: Term = 700;
    const RARE: Term = 900;

    /// Three segments of four blocks, a letter each. The blocks of `rare` have the rare term, and all have the common one, but
    /// for the last two of the first segment.
    fn segments(rare: &[usize]) -> Connection {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch(
            "CREATE TABLE blocks (id INTEGER PRIMARY KEY, places BLOB);
             CREATE TABLE segments (id INTEGER PRIMARY KEY, low INTEGER, top INTEGER, blocks BLOB);
             CREATE TABLE grams (key INTEGER PRIMARY KEY, data BLOB);",
        )
        .unwrap();
        let transaction = db.transaction().unwrap();
        for segment in 0..3_i64 {
            let blocks: Vec<i64> = (1..=4).map(|block| segment * 4 + block).collect();
            let common = if segment == 0 { 2 } else { 4 };
            let mut postings: Vec<Posting> = (0..common).map(|block| Posting::new(COMMON, block)).collect();
            let has = |block: &usize| rare.contains(&(segment as usize * 4 + block));
            postings.extend((0..4).filter(has).map(|block| Posting::new(RARE, block)));
            let mut chunker = Chunker::default();
            postings.into_iter().for_each(|posting| chunker.push(posting));
            write_segment(&transaction, (blocks[0], blocks[3]), &blocks, &chunker.finish()).unwrap();
            for block in blocks {
                let places = block.to_le_bytes();
                transaction.execute("INSERT INTO blocks VALUES (?1, ?2)", params![block, places]).unwrap();
            }
        }
        transaction.commit().unwrap();
        db
    }

    fn asked(db: &Connection) -> Segments {
        let range = Range { low: Place(0), high: Place::END };
        Segments::new(db, vec![COMMON..=COMMON, RARE..=RARE], range).unwrap()
    }

    #[test]
    fn only_blocks_that_have_everything_are_candidates_newest_first() {
        let db = segments(&[0, 2, 9]);
        let mut asked = asked(&db);
        let range = Range { low: Place(0), high: Place::END };
        let found: Vec<i64> =
            std::iter::from_fn(|| asked.next(&db, range).unwrap()).map(|place| place.0).collect();
        assert_eq!(found, [10, 1]);
    }

    #[test]
    fn a_segment_without_the_rare_word_is_not_asked_for_the_common_one() {
        let db = segments(&[9]);
        let mut asked = asked(&db);
        assert!(!asked.blocks(&db, 3).unwrap().is_empty());
        assert!(asked.blocks(&db, 1).unwrap().is_empty());
        let counts: Vec<_> =
            asked.wanted.iter().map(|wanted| (*wanted.terms.start(), wanted.blocks)).collect();
        // The four are of the segment before: this one has two.
        assert_eq!(counts, [(RARE, 0), (COMMON, 4)]);
    }
}
