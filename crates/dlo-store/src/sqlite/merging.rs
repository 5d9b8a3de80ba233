//! A merge under way: chunks are read and written a step at a time, and no block is unpacked again.
//!
//! What becomes a segment has its number from the beginning and is asked when it is whole: with the last chunks comes its row,
//! and the rows of those that it was made of go. Until then its number stands among the leftovers, and from then on theirs
//! do: `upkeep.rs` takes their chunks away. So whatever a crash leaves is either asked or swept. The number is taken before the
//! first look: a segment that is written meanwhile has a larger one, and what it has of the same blocks is newer.
//!
//! A segment that cannot be read is taken away, and its blocks wait for the index again.

use std::sync::atomic::Ordering;

use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::index::{Row, chunk_key, first_term, write_chunks};
use super::merge::{Picked, Size, survey};
use super::parts::{Part, Parts};
use super::read_error;
use super::runs::Runs;
use super::writer::{Shared, Writer};
use crate::StoreError;
use crate::grams::Term;
use crate::postings::{Chunk, Chunker, Posting, decode};

/// How far one step goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bounds {
    /// Bytes of chunks that are read or written: some hundredths of a second of both threads.
    pub(super) bytes: usize,
    /// Chunks that are swept.
    pub(super) swept: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { bytes: 4 * 1024 * 1024, swept: 2_500 }
    }
}

/// A merge under way.
#[derive(Debug)]
pub(super) struct Merge {
    pub(super) size: Size,
    pub(super) number: i64,
    epoch: u64,
    old: Vec<i64>,
    /// What the segment will be.
    row: Row,
    sources: Vec<Source>,
    chunker: Chunker,
}

/// What is to be written of a merge.
#[derive(Debug)]
pub(super) struct Step {
    number: i64,
    epoch: u64,
    chunks: Vec<Chunk>,
    pub(super) end: Option<End>,
}

#[derive(Debug)]
pub(super) enum End {
    /// The segment is whole and takes the place of the old ones.
    Whole { old: Vec<i64>, row: Row },
    /// This segment cannot be read.
    Damaged(i64),
}

impl Merge {
    /// The epoch is that in which they were picked.
    pub(super) fn new(
        db: &Connection,
        shared: &Shared,
        epoch: u64,
        picked: Picked,
    ) -> Result<Self, StoreError> {
        let number = shared.next_segment.fetch_add(1, Ordering::SeqCst);
        let Picked { size, old, low, top } = picked;
        let mut current: Vec<Vec<Option<i64>>> = vec![Vec::new(); old.len()];
        let oldest = old.iter().min().copied().unwrap_or(0);
        survey(db, oldest, &mut |id, blocks| {
            if let Some(at) = old.iter().position(|old| *old == id) {
                current[at] = blocks.to_vec();
            }
        })?;
        let mut row = Row { low, top, blocks: Vec::new(), parts: Parts::default() };
        let mut sources = Vec::new();
        for (segment, current) in old.iter().zip(current) {
            let mut next = row.blocks.len() as u32..;
            for (part, end) in parts(db, *segment, current.len())?.ranges(current.len()) {
                let first = row.blocks.len();
                row.blocks.extend(current[part.first..end].iter().flatten());
                if row.blocks.len() > first {
                    row.parts.add(Part { first, top: part.top }, row.blocks.len() - first);
                }
            }
            let kept = current.iter().map(|block| block.and_then(|_| next.next())).collect();
            sources.push(Source::new(*segment, kept));
        }
        let chunker = Chunker::new(row.blocks.len());
        Ok(Self { size, number, epoch, old, row, sources, chunker })
    }

    /// Reads as far as one step goes.
    pub(super) fn step(&mut self, db: &Connection, bounds: Bounds) -> Result<Step, StoreError> {
        // For one step and no longer: the write-ahead log cannot begin anew while it is held.
        let db = &db.unchecked_transaction().map_err(read_error)?;
        let (number, epoch) = (self.number, self.epoch);
        let mut read = 0;
        while self.chunker.bytes() < bounds.bytes && read < bounds.bytes {
            for source in &mut self.sources {
                if !source.fill(db, &mut read)? {
                    let end = Some(End::Damaged(source.segment));
                    return Ok(Step { number, epoch, chunks: Vec::new(), end });
                }
            }
            let Some(until) = self.sources.iter().filter_map(Source::known).min() else { break };
            self.merge(until);
        }
        if self.sources.iter().any(|source| !source.ended) {
            return Ok(Step { number, epoch, chunks: self.chunker.take(), end: None });
        }
        let empty = Row { low: 0, top: 0, blocks: Vec::new(), parts: Parts::default() };
        let row = std::mem::replace(&mut self.row, empty);
        let end = Some(End::Whole { old: std::mem::take(&mut self.old), row });
        Ok(Step { number, epoch, chunks: self.chunker.finish(), end })
    }

    /// Goes on to this term, up to which every source is read. Blocks are numbered in the order of the sources, so what one
    /// of them has of a term stands whole before what the next one has.
    fn merge(&mut self, until: Term) {
        let mut heads: Vec<Term> = self.sources.iter().map(Source::head).collect();
        while let Some(term) = heads.iter().min().copied().filter(|term| *term <= until) {
            for (head, source) in heads.iter_mut().zip(&mut self.sources) {
                if *head == term {
                    source.hand_over(term, &mut self.chunker);
                    *head = source.head();
                }
            }
        }
    }
}

/// The postings of one segment, a chunk at a time, by the numbers that its blocks will have.
#[derive(Debug)]
struct Source {
    segment: i64,
    /// For each block its new number; none if it is left out.
    kept: Vec<Option<u32>>,
    /// The chunk that is read, and how far.
    chunk: Vec<Posting>,
    at: usize,
    key: i64,
    /// There are no more chunks.
    ended: bool,
}

impl Source {
    fn new(segment: i64, kept: Vec<Option<u32>>) -> Self {
        Self { segment, kept, chunk: Vec::new(), at: 0, key: chunk_key(segment, 0) - 1, ended: false }
    }

    /// The next term; behind every other where the chunk is at its end.
    fn head(&self) -> Term {
        self.chunk.get(self.at).map_or(Term::MAX, |posting| posting.term)
    }

    /// The last term that is read; none when all is handed over.
    fn known(&self) -> Option<Term> {
        self.chunk.get(self.at..)?.last().map(|posting| posting.term)
    }

    /// Reads the next chunk that has something, if nothing is left of the last one. `false`: it is damaged, and merged with
    /// others it would become a whole one that has too little.
    fn fill(&mut self, db: &Connection, read: &mut usize) -> Result<bool, StoreError> {
        while self.at == self.chunk.len() && !self.ended {
            let sql = "SELECT key, data FROM grams WHERE key > ?1 AND key < ?2 ORDER BY key LIMIT 1";
            let mut statement = db.prepare_cached(sql).map_err(read_error)?;
            let mut rows =
                statement.query(params![self.key, chunk_key(self.segment + 1, 0)]).map_err(read_error)?;
            (self.at, self.ended) = (0, true);
            self.chunk.clear();
            let Some(row) = rows.next().map_err(read_error)? else { break };
            self.ended = false;
            self.key = row.get(0).map_err(read_error)?;
            let data = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(read_error)?;
            *read += data.len();
            if !decode(first_term(self.key), data, &mut self.chunk) || !self.renumber() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Gives the postings of the chunk their new numbers. `false`: the segment has no such block.
    fn renumber(&mut self) -> bool {
        let mut known = true;
        let kept = &self.kept;
        self.chunk.retain_mut(|posting| match kept.get(posting.block as usize) {
            Some(Some(number)) => {
                posting.block = *number;
                true
            }
            Some(None) => false,
            None => {
                known = false;
                false
            }
        });
        known
    }

    fn hand_over(&mut self, term: Term, to: &mut Chunker) {
        while let Some(posting) = self.chunk.get(self.at).filter(|posting| posting.term == term) {
            to.push(*posting);
            self.at += 1;
        }
    }
}

/// Writes a step, and sweeps some of what is left, but for the segments that are growing. `false`: the merge is void, since
/// something else became of what it was made of.
pub(super) fn write(
    writer: &mut Writer,
    step: Option<&Step>,
    growing: &[i64],
    bounds: Bounds,
) -> Result<bool, StoreError> {
    let epoch = writer.shared.epoch.load(Ordering::SeqCst);
    let transaction = writer.connection.transaction().map_err(read_error)?;
    if let Some(step) = step
        && (step.epoch != epoch || !step.write(&transaction)?)
    {
        // Rolled back by the drop; what was written before is swept.
        return Ok(false);
    }
    let mut room = bounds.swept;
    for segment in leftovers(&transaction, growing)? {
        room -= sweep(&transaction, segment, room)?;
        if room == 0 {
            break;
        }
    }
    transaction.commit().map_err(read_error)?;
    Ok(true)
}

impl Step {
    fn write(&self, db: &Transaction<'_>) -> Result<bool, StoreError> {
        write_chunks(db, self.number, &self.chunks)?;
        match &self.end {
            None => leave(db, self.number).map(|()| true),
            Some(End::Damaged(segment)) => {
                mark_again(db, *segment)?;
                retire(db, *segment)
            }
            Some(End::Whole { old, row }) => {
                for segment in old {
                    if !retire(db, *segment)? {
                        return Ok(false);
                    }
                }
                db.execute("DELETE FROM leftovers WHERE segment = ?1", [self.number]).map_err(read_error)?;
                // Every block may have moved on to newer segments.
                if !row.blocks.is_empty() {
                    row.write(db, self.number)?;
                }
                Ok(true)
            }
        }
    }
}

/// The parts of a segment of so many blocks.
pub(super) fn parts(db: &Connection, segment: i64, blocks: usize) -> Result<Parts, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT parts, top FROM segments WHERE id = ?1").map_err(read_error)?;
    let read = |row: &rusqlite::Row<'_>| Ok(Parts::read(row.get_ref(0)?.as_blob()?, row.get(1)?, blocks));
    let found = statement.query_row([segment], read).optional().map_err(read_error)?;
    Ok(found.unwrap_or_default())
}

/// The chunks of this number are nobody's.
fn leave(db: &Transaction<'_>, segment: i64) -> Result<(), StoreError> {
    db.execute("INSERT OR IGNORE INTO leftovers VALUES (?1)", [segment]).map(drop).map_err(read_error)
}

/// Takes away the row of a segment: from then on its chunks are not asked. `false`: it is gone already.
fn retire(db: &Transaction<'_>, segment: i64) -> Result<bool, StoreError> {
    leave(db, segment)?;
    let gone = db.execute("DELETE FROM segments WHERE id = ?1", [segment]).map_err(read_error)?;
    Ok(gone == 1)
}

/// Has the blocks of a segment indexed again.
fn mark_again(db: &Transaction<'_>, segment: i64) -> Result<(), StoreError> {
    let list: Vec<u8> = db
        .query_row("SELECT blocks FROM segments WHERE id = ?1", [segment], |row| row.get(0))
        .or_else(|error| match error {
            rusqlite::Error::QueryReturnedNoRows => Ok(Vec::new()),
            error => Err(read_error(error)),
        })?;
    let sql = "INSERT OR IGNORE INTO unindexed SELECT id FROM blocks WHERE id = ?1";
    let mut mark = db.prepare_cached(sql).map_err(read_error)?;
    for block in Runs::read(&list).iter() {
        mark.execute([block]).map_err(read_error)?;
    }
    Ok(())
}

/// Segments of which something is left, the oldest first.
pub(super) fn leftovers(db: &Connection, growing: &[i64]) -> Result<Vec<i64>, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT segment FROM leftovers ORDER BY segment").map_err(read_error)?;
    let mut left: Vec<i64> =
        statement.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(read_error)?;
    left.retain(|segment| !growing.contains(segment));
    Ok(left)
}

/// Takes away so many chunks of a segment; returns how many there were. When none is left, it is forgotten.
fn sweep(db: &Transaction<'_>, segment: i64, most: usize) -> Result<usize, StoreError> {
    let sql = "DELETE FROM grams WHERE key IN (SELECT key FROM grams WHERE key >= ?1 AND key < ?2 LIMIT ?3)";
    let range = params![chunk_key(segment, 0), chunk_key(segment + 1, 0), most as i64];
    let swept = db.prepare_cached(sql).and_then(|mut delete| delete.execute(range)).map_err(read_error)?;
    if swept < most {
        db.execute("DELETE FROM leftovers WHERE segment = ?1", [segment]).map_err(read_error)?;
    }
    Ok(swept)
}
