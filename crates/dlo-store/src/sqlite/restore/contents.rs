//! Everything is read once by the functions that answer pages and calls, so that none of them fails behind the restore.

use dlo_core::id::LetterId;
use dlo_core::query::Query;
use dlo_core::time::Timestamp;
use rusqlite::Connection;

use super::super::catalog::uuid;
use super::super::index::places_of;
use super::super::writer::Shared;
use super::super::{audit, groups, read, read_error, replays, search, triage};
use super::refused;
use crate::block::Block;
use crate::place::Place;
use crate::{Page, StoreError};

/// Lists of letters: through the rows, a status, an exact value and a text.
const QUERIES: [&str; 5] =
    ["", "status:open", "reason:max_retries_exceeded", "is:suspected_duplicate", "timeout"];

pub(super) fn check(db: &Connection, shared: &Shared) -> Result<(), StoreError> {
    letters(db, shared)?;
    deaths(db, shared)?;
    audit_log(db)?;
    replays::read_all(db)?;
    triage::read_all(db, shared)?;
    groups::stats(db, shared, 0)?;
    for text in QUERIES {
        let query = Query::parse(text, Timestamp::EPOCH).map_err(|e| StoreError::Refused(e.to_string()))?;
        search::page(db, shared, &query, &Page::first(Page::DEFAULT))?;
    }
    Ok(())
}

/// Every block opens, every letter stands in its block, and every block lists the letters that stand in it.
fn letters(db: &Connection, shared: &Shared) -> Result<(), StoreError> {
    let mut rows = read::Rows::of(db)?;
    let mut blocks = db.prepare("SELECT id, places, data FROM blocks ORDER BY id").map_err(read_error)?;
    let mut blocks = blocks.query([]).map_err(read_error)?;
    let mut listed = 0_i64;
    while let Some(row) = blocks.next().map_err(read_error)? {
        let get =
            |index: usize| row.get_ref(index).and_then(|value| Ok(value.as_blob()?)).map_err(read_error);
        let (id, places, data): (i64, _, _) = (row.get(0).map_err(read_error)?, get(1)?, get(2)?);
        let damaged = |_| refused(format!("the payload block {id} is damaged"));
        let block = Block::open(data).map_err(damaged)?;
        if places.len() != block.len() * 8 {
            return Err(refused(format!("the payload block {id} does not hold the letters that it lists")));
        }
        for (slot, place) in places_of(places).enumerate() {
            let cold = block.cold(slot).map_err(damaged)?;
            if place <= 0 {
                continue;
            }
            let found = shared.catalog(|catalog| rows.at(catalog, Place(place)))?;
            let fits = found.is_some_and(|found| {
                (found.block, found.slot) == (id, slot)
                    && found.letter.payload_size == cold.payload.0.len() as u64
            });
            if !fits {
                return Err(refused(format!("the payload block {id} lists a letter that is not in it")));
            }
            listed += 1;
        }
    }
    let kept: i64 = db.query_row("SELECT count(*) FROM letters", [], |row| row.get(0)).map_err(read_error)?;
    if kept == listed {
        return Ok(());
    }
    Err(refused(format!("{} letters are not in the payload block that they name", kept.abs_diff(listed))))
}

/// Letters that died more than once: their deaths stand in a table of their own.
fn deaths(db: &Connection, shared: &Shared) -> Result<(), StoreError> {
    let mut ids = db.prepare("SELECT id FROM letters WHERE deaths > 1").map_err(read_error)?;
    let mut ids = ids.query([]).map_err(read_error)?;
    while let Some(row) = ids.next().map_err(read_error)? {
        let id = row.get_ref(0).and_then(|id| uuid(id.as_blob()?)).map_err(read_error)?;
        let letter = read::detail(db, shared, LetterId(id))?;
        if !letter.deaths.iter().map(|death| death.number).eq(1..=letter.letter.deaths) {
            return Err(refused(format!("the letter {id} lacks a death")));
        }
    }
    Ok(())
}

fn audit_log(db: &Connection) -> Result<(), StoreError> {
    let mut page = Page::first(Page::MOST);
    loop {
        page.cursor = audit::page(db, &page)?.next;
        if page.cursor.is_none() {
            return Ok(());
        }
    }
}
