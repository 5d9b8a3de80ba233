//! What is sent, read whole: on a reading connection and before anything is marked, so that the writer only writes.
//!
//! Blocks never change and a claimed letter is not repaired, so what was read is still true when it is marked; the mark is
//! refused for what stands elsewhere by then. One statement goes through all items and reads of their letters what a message
//! needs and no more; neighbours in time share a block, which is unpacked once.

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::message::{Message, Payload};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::replay::returns::SentMarks;
use rusqlite::{Connection, Row, ToSql};

use super::super::catalog::{Catalog, GroupRow};
use super::super::rows::unreadable;
use super::super::writer::Shared;
use super::super::{read, read_error, steps};
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
    /// With the marks by which its message is recognised if it comes back.
    Whole(Box<ToSend>, SentMarks),
    /// Damaged: it can never be sent, and must not hold up the others.
    Unreadable(String),
}

/// An item with the row of its letter, before its message is read.
struct Slim {
    /// Without its message.
    to_send: ToSend,
    key: Option<Vec<u8>>,
    block: i64,
    slot: usize,
}

/// The columns of a [`Slim`], of `replay_items i` and `letters l`.
const SLIM: &str =
    "i.number, i.letter, l.group_id, l.block, l.slot, l.broker, l.incarnation, l.partition, l.log_offset,
    l.message_id, l.msg_key, l.replays, l.own_queue, l.own_consumer, l.own_type, l.own_class,
    EXISTS (SELECT 1 FROM repairs p WHERE p.letter = i.letter AND p.active = 1)";

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
    let sql = format!(
        "SELECT {SLIM} FROM replay_items i INDEXED BY items_in_hand LEFT JOIN letters l ON l.id = i.letter
          WHERE i.replay = ?1 AND i.state IN (2, 3, 9) AND i.state = 2 AND i.waits = 0 ORDER BY i.number LIMIT ?2"
    );
    read_all(db, shared, &sql, &[&head.row, &(most as i64)], BYTES_AT_ONCE)
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
    let sql = format!(
        "SELECT {SLIM} FROM replay_items i LEFT JOIN letters l ON l.id = i.letter
          WHERE i.replay = ?1 AND i.number IN (SELECT value FROM json_each(?2)) ORDER BY i.number"
    );
    let numbers = steps::json_array(numbers.iter().filter_map(|number| i64::try_from(*number).ok()));
    read_all(db, shared, &sql, &[&head.row, &numbers], u64::MAX)
}

/// Reads them one after the other, until they have so many bytes.
fn read_all(
    db: &Connection,
    shared: &Shared,
    sql: &str,
    values: &[&dyn ToSql],
    most: u64,
) -> Result<Vec<ReadItem>, StoreError> {
    let mut find = db.prepare_cached(sql).map_err(read_error)?;
    let mut found = find.query(values).map_err(read_error)?;
    let (mut last, mut bytes) = (None, 0);
    let mut items = Vec::new();
    while let Some(row) = found.next().map_err(read_error)? {
        let number = row.get::<_, i64>(0).map_err(read_error)? as u64;
        let reading = match one(db, shared, row, &mut last) {
            Ok(to_send) => {
                bytes += to_send.message.payload.0.len() as u64;
                let marks = SentMarks::of(&to_send.origin, &to_send.message);
                Reading::Whole(Box::new(to_send), marks)
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
    row: &Row<'_>,
    last: &mut Option<(i64, Block)>,
) -> Result<ToSend, StoreError> {
    let letter = rows::letter(row, 1).map_err(read_error)?;
    let group: Option<GroupRow> = row.get(2).map_err(read_error)?;
    let group = group.ok_or(StoreError::NoLetter(letter))?;
    let Slim { mut to_send, key, block, slot } =
        shared.catalog(|catalog| slim(row, letter, group, catalog)).map_err(read_error)?;
    to_send.message = match if to_send.repaired { repairs::active(db, letter)? } else { None } {
        Some(repaired) => repaired,
        None => captured(db, (block, slot), key, last)?,
    };
    Ok(to_send)
}

/// Reads the columns of [`SLIM`].
fn slim(row: &Row<'_>, letter: LetterId, group: GroupRow, catalog: &Catalog) -> rusqlite::Result<Slim> {
    let group = catalog.groups.get(&group).ok_or_else(|| unreadable("letters.group_id"))?;
    let own = |index: usize, of_group: &Option<String>| {
        if group.overflow { row.get(index) } else { Ok(of_group.clone()) }
    };
    let own_queue = || row.get::<_, Option<String>>(12).map(Option::unwrap_or_default);
    let to_send = ToSend {
        number: row.get::<_, i64>(0)? as u64,
        letter,
        source: group.source.clone(),
        origin: Origin {
            broker: BrokerKind::from_number(row.get(5)?).ok_or_else(|| unreadable("letters.broker"))?,
            queue: if group.overflow { own_queue()? } else { group.queue.clone() },
            incarnation: row.get(6)?,
            partition: row.get(7)?,
            offset: row.get(8)?,
            message_id: row.get(9)?,
        },
        consumer: own(13, &group.consumer)?,
        event_type: own(14, &group.event_type)?,
        error_class: own(15, &group.error_class)?,
        message: Message::default(),
        repaired: row.get(16)?,
        replays: row.get(11)?,
    };
    Ok(Slim { to_send, key: row.get(10)?, block: row.get(3)?, slot: row.get::<_, u32>(4)? as usize })
}

/// The message byte for byte as it came.
fn captured(
    db: &Connection,
    (id, slot): (i64, usize),
    key: Option<Vec<u8>>,
    last: &mut Option<(i64, Block)>,
) -> Result<Message, StoreError> {
    let block = match last.take().filter(|(other, _)| *other == id) {
        Some((_, block)) => block,
        None => read::block(db, id)?,
    };
    let (headers, payload) = block.message(slot)?;
    *last = Some((id, block));
    Ok(Message { key: key.map(Payload::from), headers, payload })
}
