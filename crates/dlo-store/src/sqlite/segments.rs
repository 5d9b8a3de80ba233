//! Searching the index of texts: segments newest first, each opened only when its newest letter could be next.
//!
//! Of an open segment the blocks that have every term are listed, part by part, and their letters are candidates. Segments
//! and parts overlap in time where letters came late; heaps put their letters in order. A letter that moved since its segment was written is
//! left to whoever has its mark, or the newer segment. Every segment is asked for what is rare first: most have none of it,
//! and need not be asked for the common words beside it.

use std::collections::BinaryHeap;
use std::ops::RangeInclusive;

use rusqlite::{Connection, OptionalExtension, params};

use super::index::{chunk_key, first_term, places_of};
use super::runs::Runs;
use super::{merging, read_error};
use crate::StoreError;
use crate::grams::Term;
use crate::place::{Place, Range};
use crate::postings::{BlockSet, collect, promised};

#[derive(Debug)]
pub(super) struct Segments {
    /// As they are asked for, the rarest first.
    wanted: Vec<Wanted>,
    /// Not opened yet, the newest last.
    closed: Vec<Segment>,
    /// Of opened segments: blocks that were not looked at yet.
    parts: BinaryHeap<Found>,
    places: BinaryHeap<Place>,
}

/// Blocks of a part of a segment that have everything, by the newest place of the part.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    top: Place,
    blocks: Vec<i64>,
}

#[derive(Debug)]
struct Wanted {
    terms: RangeInclusive<Term>,
    /// Of 65,536 blocks so many have one of them, as far as the segment that was last asked shows.
    share: usize,
}

#[derive(Debug, Clone, Copy)]
struct Segment {
    id: i64,
    top: Place,
    blocks: usize,
}

/// Of so many blocks a share is told.
const WHOLE: usize = 1 << 16;
/// What is not known yet is asked behind what is rare, and before what is common.
const UNKNOWN: usize = WHOLE / 8;
/// Postings that are read in the time that it takes to look through the letters of one block.
const WORTH: usize = 32_000;

impl Segments {
    /// Those that have letters in the range.
    pub(super) fn new(
        db: &Connection,
        wanted: Vec<RangeInclusive<Term>>,
        range: Range,
    ) -> Result<Self, StoreError> {
        let sql = "SELECT id, top, size FROM segments WHERE top >= ?1 AND low < ?2 ORDER BY top, id";
        let closed = db
            .prepare_cached(sql)
            .map_err(read_error)?
            .query_map([range.low.0, range.high.0], |row| {
                Ok(Segment {
                    id: row.get(0)?,
                    top: Place(row.get(1)?),
                    blocks: row.get::<_, u32>(2)? as usize,
                })
            })
            .and_then(Iterator::collect)
            .map_err(read_error)?;
        let mut wanted: Vec<_> = wanted.into_iter().map(|terms| Wanted { terms, share: UNKNOWN }).collect();
        // Before anything is known: a single term is rarer than all that begin alike.
        wanted.sort_by_key(|wanted| wanted.terms.end() - wanted.terms.start());
        Ok(Self { wanted, closed, parts: BinaryHeap::new(), places: BinaryHeap::new() })
    }

    /// The next candidate before `range.high`.
    pub(super) fn next(&mut self, db: &Connection, range: Range) -> Result<Option<Place>, StoreError> {
        loop {
            if self.open_next(db, range, self.places.peek().copied())? {
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
        while self.places.len() <= most && self.open_next(db, range, None)? {}
        Ok(self.places.len())
    }

    /// Opens the segment or looks at the part that may have the newest letter, if it may be newer than this one. `false`: there
    /// is none.
    fn open_next(
        &mut self,
        db: &Connection,
        range: Range,
        newest: Option<Place>,
    ) -> Result<bool, StoreError> {
        let (part, segment) =
            (self.parts.peek().map(|part| part.top), self.closed.last().map(|segment| segment.top));
        if part.max(segment) < newest || part.max(segment).is_none() {
            return Ok(false);
        }
        if part > segment {
            self.look_at_part(db, range)?;
        } else {
            self.open_segment(db)?;
        }
        Ok(true)
    }

    fn open_segment(&mut self, db: &Connection) -> Result<(), StoreError> {
        let Some(segment) = self.closed.pop() else { return Ok(()) };
        let found = self.blocks(db, segment)?;
        if found.len() == 0 {
            return Ok(());
        }
        let parts = merging::parts(db, segment.id, segment.blocks)?;
        let mut statement =
            db.prepare_cached("SELECT blocks FROM segments WHERE id = ?1").map_err(read_error)?;
        let listed = statement
            .query_row([segment.id], |row| Ok(Runs::read(row.get_ref(0)?.as_blob()?)))
            .optional()
            .map_err(read_error)?;
        let Some(listed) = listed else { return Ok(()) };
        let mut numbers = found.iter().peekable();
        for (part, end) in parts.ranges(segment.blocks) {
            let of_part = std::iter::from_fn(|| numbers.next_if(|number| *number < end));
            let blocks: Vec<i64> = of_part.filter_map(|number| listed.block(number)).collect();
            if !blocks.is_empty() {
                self.parts.push(Found { top: Place(part.top), blocks });
            }
        }
        Ok(())
    }

    fn look_at_part(&mut self, db: &Connection, range: Range) -> Result<(), StoreError> {
        let Some(part) = self.parts.pop() else { return Ok(()) };
        let mut places = db.prepare_cached("SELECT places FROM blocks WHERE id = ?1").map_err(read_error)?;
        let last = range.high.min(Place(part.top.0.saturating_add(1)));
        for id in part.blocks {
            let listed: Option<Vec<u8>> =
                places.query_row([id], |row| row.get(0)).optional().map_err(read_error)?;
            let listed = listed.unwrap_or_default();
            let inside = places_of(&listed).map(Place).filter(|place| *place >= range.low && *place < last);
            self.places.extend(inside.filter(|place| place.0 > 0));
        }
        Ok(())
    }

    /// The blocks of a segment that have everything that is wanted, and some that may not: where few are left, to look at them
    /// is sooner done than to read where a common word stands.
    fn blocks(&mut self, db: &Connection, segment: Segment) -> Result<BlockSet, StoreError> {
        let mut found = BlockSet::all(segment.blocks);
        let mut left = segment.blocks;
        for wanted in &mut self.wanted {
            let (having, count) = having(db, segment, &wanted.terms, left.saturating_mul(WORTH))?;
            wanted.share = count * WHOLE / segment.blocks.max(1);
            if let Some(having) = having {
                found.keep(&having);
                left = found.len();
            }
            if left == 0 {
                break;
            }
        }
        // What is rare in one segment is rare in the next. What was not asked for keeps its turn.
        self.wanted.sort_by_key(|wanted| wanted.share);
        Ok(found)
    }
}

/// The blocks of a segment that have a term of the range, and how many they are; only how many, if to know which is not worth
/// reading so many postings.
fn having(
    db: &Connection,
    segment: Segment,
    wanted: &RangeInclusive<Term>,
    worth: usize,
) -> Result<(Option<BlockSet>, usize), StoreError> {
    let (low, high) = (chunk_key(segment.id, *wanted.start()), chunk_key(segment.id, *wanted.end()));
    let mut found = BlockSet::none(segment.blocks);
    let (mut whole, mut read) = (true, 0);
    // `Some`: it is not worth it, and about so many blocks have one.
    let mut add = |row: &rusqlite::Row<'_>| -> rusqlite::Result<Option<usize>> {
        let (first, data) = (first_term(row.get(0)?), row.get_ref(1)?.as_blob()?);
        let (count, alone) = promised(data);
        read += count;
        if alone && !wanted.contains(&first) {
            return Ok(None);
        }
        // The fewer blocks are without it, the less is won.
        let without = segment.blocks.saturating_sub(if alone { count } else { 0 });
        if read > worth.saturating_mul(without) / segment.blocks.max(1) {
            return Ok(Some(if alone { count } else { segment.blocks }));
        }
        whole &= collect(first, data, wanted, &mut found);
        Ok(None)
    };
    // The chunk that begins at or before the range, and those that begin inside it.
    let before = "SELECT key, data FROM grams WHERE key <= ?1 AND key >= ?2 ORDER BY key DESC LIMIT 1";
    let begun = db
        .prepare_cached(before)
        .map_err(read_error)?
        .query_row(params![low, chunk_key(segment.id, 0)], &mut add)
        .optional()
        .map_err(read_error)?;
    if let Some(Some(count)) = begun {
        return Ok((None, count));
    }
    if high > low {
        let inside = "SELECT key, data FROM grams WHERE key > ?1 AND key <= ?2";
        let mut statement = db.prepare_cached(inside).map_err(read_error)?;
        let mut rows = statement.query(params![low, high]).map_err(read_error)?;
        while let Some(row) = rows.next().map_err(read_error)? {
            if let Some(count) = add(row).map_err(read_error)? {
                return Ok((None, count));
            }
        }
    }
    // A damaged chunk may have held anything.
    let found = if whole { found } else { BlockSet::all(segment.blocks) };
    let count = found.len();
    Ok((Some(found), count))
}

#[cfg(test)]
mod tests {
    use super::super::index::{Row, write_chunks};
    use super::super::parts::Parts;
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
             CREATE TABLE segments (id INTEGER PRIMARY KEY, low INTEGER, top INTEGER, size INTEGER, blocks BLOB, parts BLOB);
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
            let mut chunker = Chunker::new(blocks.len());
            postings.into_iter().for_each(|posting| chunker.push(posting));
            write_chunks(&transaction, segment + 1, &chunker.finish()).unwrap();
            let row = Row { low: blocks[0], top: blocks[3], parts: Parts::whole(blocks[3]), blocks };
            row.write(&transaction, segment + 1).unwrap();
            for block in row.blocks {
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
        let segment = |id| Segment { id, top: Place(id * 4), blocks: 4 };
        assert_eq!(asked.blocks(&db, segment(3)).unwrap().len(), 1);
        assert_eq!(asked.blocks(&db, segment(1)).unwrap().len(), 0);
        let shares: Vec<_> =
            asked.wanted.iter().map(|wanted| (*wanted.terms.start(), wanted.share)).collect();
        // All is of the segment before: half of this one has it.
        assert_eq!(shares, [(RARE, 0), (COMMON, WHOLE)]);
    }

    #[test]
    fn where_few_blocks_are_left_a_common_word_is_not_read() {
        const BLOCKS: usize = 50_000;
        let mut db = segments(&[]);
        let mut chunker = Chunker::new(BLOCKS);
        (0..BLOCKS - 5_000).for_each(|block| chunker.push(Posting::new(COMMON, block)));
        (0..4_000).for_each(|block| chunker.push(Posting::new(RARE, block)));
        let transaction = db.transaction().unwrap();
        write_chunks(&transaction, 9, &chunker.finish()).unwrap();
        transaction.commit().unwrap();
        let segment = Segment { id: 9, top: Place(9), blocks: BLOCKS };
        let asked = |term: Term, left: usize| {
            let (found, count) = having(&db, segment, &(term..=term), left * WORTH).unwrap();
            (found.map(|found| found.len()), count)
        };
        assert_eq!(asked(COMMON, 1), (None, BLOCKS - 5_000));
        assert_eq!(asked(COMMON, BLOCKS), (Some(BLOCKS - 5_000), BLOCKS - 5_000));
        assert_eq!(asked(RARE, 1), (Some(4_000), 4_000));
        assert_eq!(asked(COMMON + 1, 1), (Some(0), 0), "the chunk before has another word alone");
    }
}
