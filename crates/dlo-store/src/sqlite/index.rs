//! The payload index, behind the durable rows: a few blocks at a time, oldest first.
//!
//! A block is unpacked, its letters' tokens are written and its mark in `unindexed` is taken off, in one transaction.
//! What is not indexed yet is scanned by searches, so a lag costs time and never an answer.

use std::sync::atomic::Ordering;

use rusqlite::{Connection, params};

use super::read_error;
use super::writer::Writer;
use crate::StoreError;
use crate::block::Block;
use crate::prepare::deep_tokens;

/// Blocks of one turn: some two hundred and fifty small letters, about twenty milliseconds.
const TURN: i64 = 8;

/// Indexes a few blocks; `false` when nothing is left or it failed.
pub(super) fn step(writer: &mut Writer) -> bool {
    match turn(&mut writer.connection) {
        Ok(0) => {
            writer.shared.unindexed.store(0, Ordering::Relaxed);
            false
        }
        Ok(letters) => {
            let left = writer.shared.unindexed.load(Ordering::Relaxed).saturating_sub(letters);
            // At least one while blocks may be left; the turn that finds none sets it to zero.
            writer.shared.unindexed.store(left.max(1), Ordering::Relaxed);
            true
        }
        Err(error) => {
            tracing::warn!(%error, "payloads could not be indexed; they are scanned meanwhile");
            false
        }
    }
}

/// Returns how many letters were indexed; zero when no block was left.
fn turn(connection: &mut Connection) -> Result<u64, StoreError> {
    let transaction = connection.transaction().map_err(read_error)?;
    let mut letters = 0;
    {
        let mut next = transaction
            .prepare_cached(
                "SELECT u.block, b.places, b.data FROM unindexed u JOIN blocks b ON b.id = u.block
                  ORDER BY u.block LIMIT ?1",
            )
            .map_err(read_error)?;
        let blocks: Vec<(i64, Vec<u8>, Vec<u8>)> = next
            .query_map([TURN], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))
            .and_then(Iterator::collect)
            .map_err(read_error)?;
        for (block, places, data) in blocks {
            letters += index_block(&transaction, &places, &data)?.max(1);
            transaction.execute("DELETE FROM unindexed WHERE block = ?1", [block]).map_err(read_error)?;
        }
    }
    transaction.commit().map_err(read_error)?;
    Ok(letters)
}

fn index_block(db: &Connection, places: &[u8], data: &[u8]) -> Result<u64, StoreError> {
    // What is damaged must not hold up the others; reading its letters says what is wrong with it.
    let Ok(block) = Block::open(data) else { return Ok(0) };
    let mut insert = db
        .prepare_cached("INSERT OR REPLACE INTO deep (rowid, tokens) VALUES (?1, ?2)")
        .map_err(read_error)?;
    let mut letters = 0;
    for (slot, place) in places_of(places).enumerate().take(block.len()) {
        if place <= 0 {
            continue;
        }
        letters += 1;
        if let Ok(cold) = block.cold(slot) {
            insert.execute(params![place, deep_tokens(&cold)]).map_err(read_error)?;
        }
    }
    Ok(letters)
}

/// The places that a block lists, slot by slot.
pub(super) fn places_of(list: &[u8]) -> impl Iterator<Item = i64> + '_ {
    list.chunks_exact(8).map(|eight| i64::from_le_bytes(eight.try_into().unwrap_or_default()))
}

/// How many letters wait, counted from the marks.
pub(super) fn waiting(db: &Connection) -> Result<u64, StoreError> {
    let sql = "SELECT ifnull(sum(length(b.places) / 8), 0) FROM unindexed u JOIN blocks b ON b.id = u.block";
    db.query_row(sql, [], |row| row.get::<_, i64>(0)).map(|n| n as u64).map_err(read_error)
}
