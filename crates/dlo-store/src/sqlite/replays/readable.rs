//! Reading everything once, before a backup replaces what is there.

use dlo_core::id::{LetterId, ReplayId};
use rusqlite::Connection;

use super::super::read_error;
use super::{list, repairs, rows};
use crate::{Page, StoreError};

/// Every replay with its parts and items, and every repair.
pub(in super::super) fn read_all(db: &Connection) -> Result<(), StoreError> {
    let mut page = Page::first(Page::MOST);
    loop {
        let found = list::page(db, None, &page)?;
        for replay in &found.replays {
            items(db, replay.id)?;
            list::children(db, replay.id)?.iter().try_for_each(|part| items(db, part.id))?;
            list::usual_death(db, replay.id)?;
        }
        page.cursor = found.next;
        if page.cursor.is_none() {
            break;
        }
    }
    list::active(db)?;
    let mut repaired = db.prepare("SELECT DISTINCT letter FROM repairs").map_err(read_error)?;
    let mut repaired = repaired.query([]).map_err(read_error)?;
    while let Some(row) = repaired.next().map_err(read_error)? {
        let letter: LetterId = rows::letter(row, 0).map_err(read_error)?;
        repairs::all(db, letter)?;
    }
    Ok(())
}

fn items(db: &Connection, id: ReplayId) -> Result<(), StoreError> {
    let mut page = Page::first(Page::MOST);
    loop {
        page.cursor = list::items(db, id, None, &page)?.next;
        if page.cursor.is_none() {
            return Ok(());
        }
    }
}
