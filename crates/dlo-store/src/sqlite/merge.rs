//! Few segments instead of many: those of one size are merged, four at a time, until they are full.
//!
//! Every search asks every segment, and a trickle of letters leaves a small one a few times a second. A merge reads
//! chunks and writes chunks; no block is unpacked again. The old segments go in the transaction that brings the new one.

use rusqlite::{Connection, params};

use super::index::{chunk_key, first_term, places_of, write_segment};
use super::read_error;
use crate::StoreError;
use crate::postings::{Chunk, Chunker, MOST_BLOCKS, Posting, decode};

/// Segments that are merged at once.
const TOGETHER: usize = 4;
/// Blocks of the largest segment of each size; the last are full and stay.
const SIZES: [usize; 3] = [MOST_BLOCKS / 64, MOST_BLOCKS / 16, MOST_BLOCKS / 4];

/// Segments that became one.
pub(super) struct Merged {
    old: Vec<Segment>,
    chunks: Vec<Chunk>,
}

struct Segment {
    id: i64,
    low: i64,
    top: i64,
    blocks: Vec<i64>,
}

/// Merges the oldest segments of a size of which there are enough; `None` when all is well.
pub(super) fn build(db: &Connection) -> Result<Option<Merged>, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let Some(old) = mergeable(db)? else { return Ok(None) };
    let mut sources = Vec::new();
    let mut base = 0;
    for segment in &old {
        sources.push(Source::open(db, segment.id, base)?);
        base += segment.blocks.len();
    }
    let mut chunker = Chunker::default();
    loop {
        let heads = sources.iter().enumerate().filter_map(|(n, source)| Some((source.head?, n)));
        let Some((posting, source)) = heads.min() else { break };
        chunker.push(posting);
        sources[source].advance(db)?;
    }
    Ok(Some(Merged { old, chunks: chunker.finish() }))
}

fn mergeable(db: &Connection) -> Result<Option<Vec<Segment>>, StoreError> {
    let sql = "SELECT id, low, top, blocks FROM segments WHERE length(blocks) <= ?1 AND length(blocks) > ?2
                ORDER BY id LIMIT ?3";
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let mut smaller = 0;
    for size in SIZES {
        let found: Vec<Segment> = statement
            .query_map(params![size as i64 * 8, smaller as i64 * 8, TOGETHER as i64], |row| {
                let blocks: Vec<u8> = row.get(3)?;
                let blocks = places_of(&blocks).collect();
                Ok(Segment { id: row.get(0)?, low: row.get(1)?, top: row.get(2)?, blocks })
            })
            .and_then(Iterator::collect)
            .map_err(read_error)?;
        if found.len() == TOGETHER {
            return Ok(Some(found));
        }
        smaller = size;
    }
    Ok(None)
}

/// The postings of one segment, a chunk at a time, with its blocks counted on from `base`.
struct Source {
    segment: i64,
    base: usize,
    /// The chunk that is read, last posting first.
    chunk: Vec<Posting>,
    key: i64,
    head: Option<Posting>,
}

impl Source {
    fn open(db: &Connection, segment: i64, base: usize) -> Result<Self, StoreError> {
        let key = chunk_key(segment, 0) - 1;
        let mut source = Self { segment, base, chunk: Vec::new(), key, head: None };
        source.advance(db)?;
        Ok(source)
    }

    fn advance(&mut self, db: &Connection) -> Result<(), StoreError> {
        if self.chunk.is_empty() {
            let sql = "SELECT key, data FROM grams WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT 1";
            let mut statement = db.prepare_cached(sql).map_err(read_error)?;
            let mut rows =
                statement.query(params![self.key, chunk_key(self.segment + 1, 0)]).map_err(read_error)?;
            if let Some(row) = rows.next().map_err(read_error)? {
                self.key = row.get(0).map_err(read_error)?;
                let data = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(read_error)?;
                let read: Option<Vec<Posting>> = decode(first_term(self.key), data).collect();
                // A merge would make a damaged chunk a whole one that has too little.
                self.chunk = read
                    .ok_or_else(|| StoreError::Unreadable("a chunk of the text index is damaged".into()))?;
                self.chunk.reverse();
            }
        }
        let head = self.chunk.pop();
        self.head = head.map(|posting| Posting::new(posting.term(), posting.block() + self.base));
        Ok(())
    }
}

/// Puts the new segment in the place of the old ones, unless they are gone.
pub(super) fn store(connection: &mut Connection, merged: &Merged) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(read_error)?;
    let mut gone = 0;
    for segment in &merged.old {
        gone += transaction
            .execute("DELETE FROM segments WHERE id = ?1 AND top = ?2", params![segment.id, segment.top])
            .map_err(read_error)?;
        let range = params![chunk_key(segment.id, 0), chunk_key(segment.id + 1, 0)];
        transaction.execute("DELETE FROM grams WHERE key >= ?1 AND key < ?2", range).map_err(read_error)?;
    }
    if gone != merged.old.len() {
        // A backup was put back meanwhile: what was read is not what stands here. Rolled back by the drop.
        return Ok(());
    }
    let low = merged.old.iter().map(|segment| segment.low).min().unwrap_or(0);
    let top = merged.old.iter().map(|segment| segment.top).max().unwrap_or(0);
    let blocks: Vec<i64> = merged.old.iter().flat_map(|segment| segment.blocks.iter().copied()).collect();
    write_segment(&transaction, (low, top), &blocks, &merged.chunks)?;
    transaction.commit().map_err(read_error)
}
