//! What is sent, read whole: on a reading connection and before anything is marked, so that the writer only writes.
//!
//! Blocks never change and a claimed letter is not repaired, so what was read is still true when it is marked; the mark is
//! refused for what stands elsewhere by then. Neighbours in time share a block, which is unpacked once.

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::message::{Message, Payload};
use rusqlite::{Connection, params};

use super::super::rows::Found;
use super::super::writer::Shared;
use super::super::{read, read_error};
use super::{repairs, rows};
use crate::StoreError;
use crate::block::Block;
use crate::replays::{BYTES_AT_ONCE, ToSend};

/// An item that may be sent, if it is still so when it is marked.
#[derive(Debug)]
pub(super) struct ReadItem {
    pub(super) number: u64,
    pub(super) reading: Reading,
}

#[derive(Debug)]
pub(super) enum Reading {
    Whole(Box<ToSend>),
    /// Damaged: it can never be sent, and must not hold up the others.
    Unreadable(String),
}

/// The next claimed items that wait for nobody, in order.
pub(super) fn next(
    db: &Connection,
    shared: &Shared,
    id: ReplayId,
    most: usize,
) -> Result<Vec<ReadItem>, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let head = rows::head(db, id)?;
    if !head.state.is_active() {
        return Ok(Vec::new());
    }
    let sql = "SELECT number, letter FROM replay_items INDEXED BY items_in_hand
                WHERE replay = ?1 AND state IN (2, 3, 9) AND state = 2 AND waits = 0 ORDER BY number LIMIT ?2";
    let found: Vec<(i64, LetterId)> = db
        .prepare_cached(sql)
        .and_then(|mut find| {
            find.query_map(params![head.row, most as i64], |row| Ok((row.get(0)?, rows::letter(row, 1)?)))
                .and_then(Iterator::collect)
        })
        .map_err(read_error)?;
    read_all(db, shared, &found, BYTES_AT_ONCE)
}

/// The items of these numbers, in order.
pub(super) fn named(
    db: &Connection,
    shared: &Shared,
    id: ReplayId,
    numbers: &[u64],
) -> Result<Vec<ReadItem>, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let head = rows::head(db, id)?;
    let found: Vec<_> = super::items::named(db, head.row, numbers.iter().copied())?
        .into_iter()
        .map(|found| (found.item.number as i64, found.item.letter))
        .collect();
    read_all(db, shared, &found, u64::MAX)
}

/// Reads them one after the other, until they have so many bytes.
fn read_all(
    db: &Connection,
    shared: &Shared,
    found: &[(i64, LetterId)],
    most: u64,
) -> Result<Vec<ReadItem>, StoreError> {
    let (mut last, mut bytes) = (None, 0);
    let mut items = Vec::with_capacity(found.len());
    for (number, letter) in found {
        let number = *number as u64;
        let reading = match one(db, shared, number, *letter, &mut last) {
            Ok(to_send) => {
                bytes += to_send.message.payload.0.len() as u64;
                Reading::Whole(Box::new(to_send))
            }
            Err(StoreError::Unreadable(why)) => Reading::Unreadable(why),
            Err(error) => return Err(error),
        };
        items.push(ReadItem { number, reading });
        if bytes >= most {
            break;
        }
    }
    Ok(items)
}

fn one(
    db: &Connection,
    shared: &Shared,
    number: u64,
    id: LetterId,
    last: &mut Option<(i64, Block)>,
) -> Result<ToSend, StoreError> {
    let found = read::find(db, shared, id)?;
    let repaired = repairs::active(db, id)?;
    let is_repaired = repaired.is_some();
    let message = match repaired {
        Some(message) => message,
        None => captured(db, &found, last)?,
    };
    let letter = found.letter;
    Ok(ToSend {
        number,
        letter: id,
        source: letter.source,
        origin: letter.origin,
        consumer: letter.consumer,
        event_type: letter.event_type,
        error_class: letter.error_class,
        message,
        repaired: is_repaired,
        replays: letter.replays,
    })
}

/// The message byte for byte as it came.
fn captured(db: &Connection, found: &Found, last: &mut Option<(i64, Block)>) -> Result<Message, StoreError> {
    let block = match last.take().filter(|(id, _)| *id == found.block) {
        Some((_, block)) => block,
        None => read::block(db, found.block)?,
    };
    let cold = block.cold(found.slot)?;
    *last = Some((found.block, block));
    let key = found.letter.key.clone().map(Payload::from);
    Ok(Message { key, headers: cold.headers, payload: cold.payload })
}
