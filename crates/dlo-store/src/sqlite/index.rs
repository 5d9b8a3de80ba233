//! The index of texts and fields, behind the durable rows: built beside the writer, some hundred blocks at a time.
//!
//! Blocks that wait are unpacked and read into terms ([`build`]); their chunks are written and their marks in `unindexed`
//! taken off in one transaction ([`store`]). A block whose letters moved meanwhile keeps its mark. What is not indexed yet
//! is scanned by searches, so a lag costs time and never an answer. `merge.rs` keeps segments few, `indexer.rs` is the
//! thread that does both.

use std::sync::atomic::Ordering;

use dlo_core::words;
use rusqlite::{Connection, OptionalExtension, Transaction, params};

use super::parts::Parts;
use super::read_error;
use super::runs::Runs;
use super::writer::Shared;
use crate::StoreError;
use crate::block::Block;
use crate::gathered::{self, Gathered};
use crate::grams::{self, GRAMS, TERM_BITS, Term};
use crate::postings::{Chunk, Chunker};
use crate::prepare::exact_hashes;

/// Blocks of one turn: some eight thousand small letters, ten megabytes of postings while they are sorted.
const TURN: usize = gathered::MOST;
/// Bytes of packed blocks of one turn; a large letter has a block to itself.
const TURN_BYTES: usize = 16 * 1024 * 1024;

/// A segment ready to be written.
pub(super) struct Built {
    number: i64,
    epoch: u64,
    blocks: Vec<Listed>,
    chunks: Vec<Chunk>,
}

/// A block as it was read: its id, and the places of its letters at that moment.
struct Listed {
    id: i64,
    places: Vec<u8>,
}

/// Reads the newest blocks that wait, since searches begin there; `None` when none waits.
pub(super) fn build(db: &Connection, shared: &Shared) -> Result<Option<Built>, StoreError> {
    let epoch = shared.epoch.load(Ordering::SeqCst);
    // Before anything is read: of two segments the one with the larger number has what is newer.
    let number = shared.next_segment.fetch_add(1, Ordering::SeqCst);
    // One snapshot: the places of a block and the rows at these places belong together.
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let sql = "SELECT u.block, b.places, b.data FROM unindexed u JOIN blocks b ON b.id = u.block
                ORDER BY u.block DESC LIMIT ?1";
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([TURN as i64]).map_err(read_error)?;
    let (mut blocks, mut postings, mut bytes) = (Vec::new(), Gathered::default(), 0);
    let mut terms = Terms::default();
    while bytes < TURN_BYTES
        && let Some(row) = rows.next().map_err(read_error)?
    {
        let data = row.get_ref(2).and_then(|value| Ok(value.as_blob()?)).map_err(read_error)?;
        let listed = Listed { id: row.get(0).map_err(read_error)?, places: row.get(1).map_err(read_error)? };
        bytes += data.len();
        // What is damaged must not hold up the others; reading its letters says what is wrong with it.
        if let Ok(block) = Block::open(data) {
            read_block(db, &block, &listed.places, &mut terms)?;
            terms.drain(|term| postings.add(term, blocks.len()));
        }
        blocks.push(listed);
    }
    if blocks.is_empty() {
        return Ok(None);
    }
    let mut chunker = Chunker::new(blocks.len());
    postings.in_order().for_each(|posting| chunker.push(posting));
    Ok(Some(Built { number, epoch, blocks, chunks: chunker.finish() }))
}

/// The terms of every letter of a block.
fn read_block(
    db: &Transaction<'_>,
    block: &Block,
    places: &[u8],
    terms: &mut Terms,
) -> Result<(), StoreError> {
    let mut error_message =
        db.prepare_cached("SELECT error_message FROM letters WHERE place = ?1").map_err(read_error)?;
    for (slot, place) in places_of(places).enumerate().take(block.len()) {
        if place <= 0 {
            continue;
        }
        let text: Option<String> =
            error_message.query_row([place], |row| row.get(0)).optional().map_err(read_error)?;
        grams::of_text(&words::fold(&text.unwrap_or_default()), &mut |term| terms.add(term));
        if let Ok(cold) = block.cold(slot) {
            grams::of_text(&words::fold(&words::scanned(&cold.payload.0)), &mut |term| terms.add(term));
            exact_hashes(&cold, &mut |hash| terms.exact.push(grams::exact(hash)));
        }
    }
    Ok(())
}

/// The terms of one block, each once.
struct Terms {
    /// One bit for every gram that there is.
    seen: Vec<u64>,
    grams: Vec<Term>,
    exact: Vec<Term>,
}

impl Default for Terms {
    fn default() -> Self {
        Self { seen: vec![0; GRAMS as usize / 64], grams: Vec::new(), exact: Vec::new() }
    }
}

impl Terms {
    fn add(&mut self, gram: Term) {
        if let Some(word) = self.seen.get_mut(gram as usize / 64)
            && *word & (1 << (gram % 64)) == 0
        {
            *word |= 1 << (gram % 64);
            self.grams.push(gram);
        }
    }

    fn drain(&mut self, mut take: impl FnMut(Term)) {
        for gram in self.grams.drain(..) {
            self.seen[gram as usize / 64] = 0;
            take(gram);
        }
        self.exact.sort_unstable();
        self.exact.dedup();
        self.exact.drain(..).for_each(take);
    }
}

/// Writes a segment and takes the marks off its blocks. Returns how many blocks do not wait any more.
pub(super) fn store(
    connection: &mut Connection,
    shared: &Shared,
    built: &Built,
) -> Result<usize, StoreError> {
    // Its number may be that of another segment by now.
    if shared.epoch.load(Ordering::SeqCst) != built.epoch {
        return Ok(0);
    }
    let transaction = connection.transaction().map_err(read_error)?;
    let (mut unmarked, mut letters) = (0, 0);
    {
        let sql = "DELETE FROM unindexed WHERE block = ?1 AND (SELECT places FROM blocks WHERE id = ?1) = ?2";
        let mut unmark = transaction.prepare_cached(sql).map_err(read_error)?;
        for block in &built.blocks {
            if unmark.execute(params![block.id, block.places]).map_err(read_error)? == 1 {
                unmarked += 1;
                letters += places_of(&block.places).filter(|place| *place > 0).count() as u64;
            }
        }
    }
    // Somebody else indexed them all meanwhile, or they are other blocks by now.
    if unmarked > 0 {
        let places =
            || built.blocks.iter().flat_map(|block| places_of(&block.places)).filter(|place| *place > 0);
        let (low, top) = (places().min().unwrap_or(0), places().max().unwrap_or(0));
        let blocks: Vec<i64> = built.blocks.iter().map(|block| block.id).collect();
        write_chunks(&transaction, built.number, &built.chunks)?;
        Row { low, top, blocks, parts: Parts::whole(top) }.write(&transaction, built.number)?;
    }
    transaction.commit().map_err(read_error)?;
    let left = shared.unindexed.load(Ordering::Relaxed).saturating_sub(letters);
    shared.unindexed.store(left, Ordering::Relaxed);
    shared.indexed.notify_waiters();
    Ok(unmarked)
}

/// The row of a segment.
#[derive(Debug)]
pub(super) struct Row {
    /// The places of its oldest and newest letter.
    pub(super) low: i64,
    pub(super) top: i64,
    pub(super) blocks: Vec<i64>,
    pub(super) parts: Parts,
}

impl Row {
    /// Writes it: from then on the chunks of this number are asked.
    pub(super) fn write(&self, db: &Transaction<'_>, number: i64) -> Result<(), StoreError> {
        let sql = "INSERT INTO segments (id, low, top, size, blocks, parts) VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
        let (size, blocks) = (self.blocks.len() as i64, Runs::of(&self.blocks).bytes());
        let row = params![number, self.low, self.top, size, blocks, self.parts.bytes()];
        db.execute(sql, row).map(drop).map_err(read_error)
    }
}

pub(super) fn write_chunks(db: &Transaction<'_>, number: i64, chunks: &[Chunk]) -> Result<(), StoreError> {
    let mut insert = db.prepare_cached("INSERT INTO grams VALUES (?1, ?2)").map_err(read_error)?;
    for chunk in chunks {
        insert.execute(params![chunk_key(number, chunk.first), chunk.data]).map_err(read_error)?;
    }
    Ok(())
}

/// The first number that no segment has, and none that was begun or is on its way out.
pub(super) fn next_segment(db: &Connection) -> Result<i64, StoreError> {
    let sql = "SELECT max(ifnull((SELECT max(id) FROM segments), 0), ifnull((SELECT max(segment) FROM leftovers), 0)) + 1";
    db.query_row(sql, [], |row| row.get(0)).map_err(read_error)
}

/// The key of a chunk: its segment, and its first term.
pub(super) fn chunk_key(segment: i64, first: Term) -> i64 {
    (segment << TERM_BITS) | i64::from(first)
}

/// The first term of the chunk with this key.
pub(super) fn first_term(key: i64) -> Term {
    (key & ((1 << TERM_BITS) - 1)) as Term
}

/// The places that a block lists, slot by slot.
pub(super) fn places_of(list: &[u8]) -> impl Iterator<Item = i64> + '_ {
    list.chunks_exact(8).map(|eight| i64::from_le_bytes(eight.try_into().unwrap_or_default()))
}

/// How many letters wait, counted from the marks.
pub(super) fn waiting(db: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT b.places FROM unindexed u JOIN blocks b ON b.id = u.block";
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let mut letters = 0;
    while let Some(row) = rows.next().map_err(read_error)? {
        let places = row.get_ref(0).and_then(|value| Ok(value.as_blob()?)).map_err(read_error)?;
        letters += places_of(places).filter(|place| *place > 0).count() as u64;
    }
    Ok(letters)
}
