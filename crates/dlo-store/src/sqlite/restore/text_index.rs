//! The index of texts follows from the payloads. If it cannot be trusted, it is made again behind the restore; until then
//! searches scan what it lacks.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use super::super::index::first_term;
use super::super::read_error;
use super::super::runs::Runs;
use crate::StoreError;
use crate::grams::TERM_BITS;
use crate::postings::decode;

const FORGET: &str = "DELETE FROM segments; DELETE FROM grams; DELETE FROM leftovers; DELETE FROM unindexed;
    INSERT INTO unindexed SELECT id FROM blocks;";

/// Has everything indexed again unless the index is whole.
pub(super) fn mend(db: &Connection) -> Result<(), StoreError> {
    if is_whole(db)? {
        return Ok(());
    }
    tracing::warn!("the text index of the backup is damaged; the letters are indexed again");
    db.execute_batch(FORGET).map_err(read_error)
}

/// Every block is in a segment or waits, and every chunk can be read and belongs to a segment.
fn is_whole(db: &Connection) -> Result<bool, StoreError> {
    let Some(Segments { sizes, indexed }) = segments(db)? else { return Ok(false) };
    let strangers = count(
        db,
        "SELECT count(*) FROM unindexed u WHERE NOT EXISTS (SELECT 1 FROM blocks b WHERE b.id = u.block)",
    )?;
    Ok(strangers == 0 && every_block_is_found(db, &indexed)? && chunks_are_readable(db, sizes)?)
}

fn count(db: &Connection, sql: &str) -> Result<i64, StoreError> {
    db.query_row(sql, [], |row| row.get(0)).map_err(read_error)
}

/// What the segments say of themselves.
struct Segments {
    /// How many blocks each has.
    sizes: BTreeMap<i64, usize>,
    /// The blocks of all of them.
    indexed: BTreeSet<i64>,
}

/// `None` if one says what cannot be.
fn segments(db: &Connection) -> Result<Option<Segments>, StoreError> {
    let mut statement = db.prepare("SELECT id, low, top, size, blocks FROM segments").map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    let (mut sizes, mut indexed) = (BTreeMap::new(), BTreeSet::new());
    while let Some(row) = rows.next().map_err(read_error)? {
        let number = |column: usize| row.get::<_, i64>(column).map_err(read_error);
        let (id, low, top, size) = (number(0)?, number(1)?, number(2)?, number(3)?);
        let listed = row.get_ref(4).and_then(|value| Ok(value.as_blob()?)).map_err(read_error)?;
        let runs = Runs::read(listed);
        let blocks = runs.iter().count();
        if runs.bytes() != listed || blocks as i64 != size || blocks == 0 || low > top {
            return Ok(None);
        }
        indexed.extend(runs.iter());
        sizes.insert(id, blocks);
    }
    Ok(Some(Segments { sizes, indexed }))
}

fn every_block_is_found(db: &Connection, indexed: &BTreeSet<i64>) -> Result<bool, StoreError> {
    let sql = "SELECT id FROM blocks b WHERE NOT EXISTS (SELECT 1 FROM unindexed u WHERE u.block = b.id)";
    let mut statement = db.prepare(sql).map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    while let Some(row) = rows.next().map_err(read_error)? {
        if !indexed.contains(&row.get::<_, i64>(0).map_err(read_error)?) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Chunks of numbers in `leftovers` are on their way out and not read.
fn chunks_are_readable(db: &Connection, segments: BTreeMap<i64, usize>) -> Result<bool, StoreError> {
    let mut leaving = db.prepare("SELECT segment FROM leftovers").map_err(read_error)?;
    let leaving: BTreeSet<i64> =
        leaving.query_map([], |row| row.get(0)).and_then(Iterator::collect).map_err(read_error)?;
    let mut without_chunk: BTreeSet<i64> = segments.keys().copied().collect();
    let mut postings = Vec::new();
    let mut statement = db.prepare("SELECT key, data FROM grams").map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    while let Some(row) = rows.next().map_err(read_error)? {
        let key: i64 = row.get(0).map_err(read_error)?;
        let data = row.get_ref(1).and_then(|value| Ok(value.as_blob()?)).map_err(read_error)?;
        let segment = key >> TERM_BITS;
        let Some(blocks) = segments.get(&segment) else {
            if leaving.contains(&segment) {
                continue;
            }
            return Ok(false);
        };
        postings.clear();
        let whole = decode(first_term(key), data, &mut postings);
        if !whole || postings.iter().any(|posting| posting.block as usize >= *blocks) {
            return Ok(false);
        }
        without_chunk.remove(&segment);
    }
    Ok(without_chunk.is_empty())
}
