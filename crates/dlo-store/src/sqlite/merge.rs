//! Few segments instead of many: those of one size are merged, four at a time, until they are full.
//!
//! Every search asks every segment, and a trickle of letters leaves a small one a few times a second. A merge reads
//! chunks and writes chunks; no block is unpacked again. The old segments go in the transaction that brings the new one.
//! A block whose letter died again stands in a newer segment as well, and of two segments the one with the larger number
//! is right: a merge leaves the others out, and a full segment that is outdated by half is written anew. A segment
//! that cannot be read is taken away, and its blocks wait for the index again.

use std::collections::HashMap;

use rusqlite::{Connection, Row, params};

use super::index::{chunk_key, first_term, places_of, write_segment};
use super::read_error;
use crate::StoreError;
use crate::postings::{Chunk, Chunker, MOST_BLOCKS, Posting, decode};

/// Segments that are merged at once.
const TOGETHER: usize = 4;
/// Blocks of the largest segment of each size; the last are full and stay.
const SIZES: [usize; 3] = [MOST_BLOCKS / 64, MOST_BLOCKS / 16, LARGEST];
const LARGEST: usize = MOST_BLOCKS / 4;

/// Which segments are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pick {
    /// The oldest of a size of which there are enough.
    Alike,
    /// A full one of which more than half is outdated.
    Outdated,
}

/// What takes the place of some segments.
pub(super) struct Merged {
    old: Vec<Segment>,
    /// The newest segment when these were read.
    newest: i64,
    result: Outcome,
}

enum Outcome {
    Whole {
        blocks: Vec<i64>,
        chunks: Vec<Chunk>,
    },
    /// This segment cannot be read.
    Damaged(i64),
}

impl Merged {
    /// The segment that could not be read.
    pub(super) fn damaged(&self) -> Option<i64> {
        match &self.result {
            Outcome::Damaged(segment) => Some(*segment),
            Outcome::Whole { .. } => None,
        }
    }
}

struct Segment {
    id: i64,
    low: i64,
    top: i64,
    blocks: Vec<i64>,
}

/// Reads what is wanted into one; `None` when all is well.
pub(super) fn build(db: &Connection, pick: Pick) -> Result<Option<Merged>, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let picked = match pick {
        Pick::Alike => mergeable(db)?,
        Pick::Outdated => outdated(db)?,
    };
    let Some(old) = picked else { return Ok(None) };
    let newest =
        db.query_row("SELECT ifnull(max(id), 0) FROM segments", [], |row| row.get(0)).map_err(read_error)?;
    let result = merge(db, &old)?;
    Ok(Some(Merged { old, newest, result }))
}

fn merge(db: &Connection, old: &[Segment]) -> Result<Outcome, StoreError> {
    let latest = latest(db)?;
    let (mut sources, mut blocks) = (Vec::new(), Vec::new());
    for segment in old {
        let mut kept = Vec::with_capacity(segment.blocks.len());
        for block in &segment.blocks {
            let stays = latest.get(block) == Some(&segment.id);
            kept.push(stays.then_some(blocks.len()));
            blocks.extend(stays.then_some(*block));
        }
        sources.push(Source::new(segment.id, kept));
    }
    let mut chunker = Chunker::default();
    for source in &mut sources {
        if !source.advance(db)? {
            return Ok(Outcome::Damaged(source.segment));
        }
    }
    loop {
        let heads = sources.iter().enumerate().filter_map(|(n, source)| Some((source.head?, n)));
        let Some((posting, source)) = heads.min() else { break };
        chunker.push(posting);
        if !sources[source].advance(db)? {
            return Ok(Outcome::Damaged(sources[source].segment));
        }
    }
    Ok(Outcome::Whole { blocks, chunks: chunker.finish() })
}

/// For every block the segment that has it as it is: the one with the largest number.
fn latest(db: &Connection) -> Result<HashMap<i64, i64>, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT id, blocks FROM segments ORDER BY id").map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let mut latest = HashMap::new();
    while let Some(row) = rows.next().map_err(read_error)? {
        let id: i64 = row.get(0).map_err(read_error)?;
        let blocks = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(read_error)?;
        latest.extend(places_of(blocks).map(|block| (block, id)));
    }
    Ok(latest)
}

/// The full segment that is outdated most, if it is by more than half.
fn outdated(db: &Connection) -> Result<Option<Vec<Segment>>, StoreError> {
    let mut current: HashMap<i64, usize> = HashMap::new();
    for segment in latest(db)?.into_values() {
        *current.entry(segment).or_default() += 1;
    }
    let sql = "SELECT id, low, top, blocks FROM segments WHERE length(blocks) > ?1";
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let full = statement.query_map([LARGEST as i64 * 8], Segment::read).map_err(read_error)?;
    let mut worst: Option<(usize, Segment)> = None;
    for segment in full {
        let segment = segment.map_err(read_error)?;
        let left = current.get(&segment.id).copied().unwrap_or(0);
        let gone = segment.blocks.len().saturating_sub(left);
        if gone * 2 > segment.blocks.len() && worst.as_ref().is_none_or(|(most, _)| gone > *most) {
            worst = Some((gone, segment));
        }
    }
    Ok(worst.map(|(_, segment)| vec![segment]))
}

impl Segment {
    fn read(row: &Row<'_>) -> rusqlite::Result<Self> {
        let blocks: Vec<u8> = row.get(3)?;
        let blocks = places_of(&blocks).collect();
        Ok(Self { id: row.get(0)?, low: row.get(1)?, top: row.get(2)?, blocks })
    }
}

fn mergeable(db: &Connection) -> Result<Option<Vec<Segment>>, StoreError> {
    let sql = "SELECT id, low, top, blocks FROM segments WHERE length(blocks) <= ?1 AND length(blocks) > ?2
                ORDER BY id LIMIT ?3";
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let mut smaller = 0;
    for size in SIZES {
        let found: Vec<Segment> = statement
            .query_map(params![size as i64 * 8, smaller as i64 * 8, TOGETHER as i64], Segment::read)
            .and_then(Iterator::collect)
            .map_err(read_error)?;
        if found.len() == TOGETHER {
            return Ok(Some(found));
        }
        smaller = size;
    }
    Ok(None)
}

/// The postings of one segment, a chunk at a time, by the numbers that its blocks will have.
struct Source {
    segment: i64,
    /// For each block its new number; none if it is left out.
    kept: Vec<Option<usize>>,
    /// The chunk that is read, last posting first.
    chunk: Vec<Posting>,
    key: i64,
    head: Option<Posting>,
}

impl Source {
    fn new(segment: i64, kept: Vec<Option<usize>>) -> Self {
        Self { segment, kept, chunk: Vec::new(), key: chunk_key(segment, 0) - 1, head: None }
    }

    /// Goes on to the next posting of a block that stays. `false`: a chunk is damaged, and merged with others it would
    /// become a whole one that has too little.
    fn advance(&mut self, db: &Connection) -> Result<bool, StoreError> {
        loop {
            while let Some(posting) = self.chunk.pop() {
                match self.kept.get(posting.block()) {
                    None => return Ok(false),
                    Some(None) => {}
                    Some(Some(block)) => {
                        self.head = Some(Posting::new(posting.term(), *block));
                        return Ok(true);
                    }
                }
            }
            let sql = "SELECT key, data FROM grams WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT 1";
            let mut statement = db.prepare_cached(sql).map_err(read_error)?;
            let mut rows =
                statement.query(params![self.key, chunk_key(self.segment + 1, 0)]).map_err(read_error)?;
            let Some(row) = rows.next().map_err(read_error)? else {
                self.head = None;
                return Ok(true);
            };
            self.key = row.get(0).map_err(read_error)?;
            let data = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(read_error)?;
            let read: Option<Vec<Posting>> = decode(first_term(self.key), data).collect();
            let Some(chunk) = read else { return Ok(false) };
            self.chunk = chunk;
            self.chunk.reverse();
        }
    }
}

/// Puts the new segment in the place of the old ones, unless they are gone.
pub(super) fn store(connection: &mut Connection, merged: &Merged) -> Result<(), StoreError> {
    let transaction = connection.transaction().map_err(read_error)?;
    let newest: i64 = transaction
        .query_row("SELECT ifnull(max(id), 0) FROM segments", [], |row| row.get(0))
        .map_err(read_error)?;
    if newest != merged.newest {
        // The merged segment would get a larger number than one that is newer than its parts: the next turn sees both.
        return Ok(());
    }
    let gone: Vec<&Segment> =
        merged.old.iter().filter(|segment| merged.damaged().is_none_or(|id| id == segment.id)).collect();
    let mut deleted = 0;
    for segment in &gone {
        deleted += transaction
            .execute("DELETE FROM segments WHERE id = ?1 AND top = ?2", params![segment.id, segment.top])
            .map_err(read_error)?;
        let range = params![chunk_key(segment.id, 0), chunk_key(segment.id + 1, 0)];
        transaction.execute("DELETE FROM grams WHERE key >= ?1 AND key < ?2", range).map_err(read_error)?;
    }
    if deleted != gone.len() {
        // A backup was put back meanwhile: what was read is not what stands here. Rolled back by the drop.
        return Ok(());
    }
    match &merged.result {
        Outcome::Whole { blocks, chunks } if !blocks.is_empty() => {
            let low = merged.old.iter().map(|segment| segment.low).min().unwrap_or(0);
            let top = merged.old.iter().map(|segment| segment.top).max().unwrap_or(0);
            write_segment(&transaction, (low, top), blocks, chunks)?;
        }
        Outcome::Whole { .. } => {}
        Outcome::Damaged(_) => {
            let sql = "INSERT OR IGNORE INTO unindexed SELECT id FROM blocks WHERE id = ?1";
            let mut mark = transaction.prepare_cached(sql).map_err(read_error)?;
            for block in gone.iter().flat_map(|segment| &segment.blocks) {
                mark.execute([block]).map_err(read_error)?;
            }
        }
    }
    transaction.commit().map_err(read_error)
}
