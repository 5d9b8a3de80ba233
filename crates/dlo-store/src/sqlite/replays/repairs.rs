//! Repairs beside the letters they repair.

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::Status;
use dlo_core::message::{Message, Payload};
use dlo_core::replay::ItemState;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::super::{audit, read_error, steps};
use super::rows;
use crate::block::Block;
use crate::repairs::{AS_CAPTURED, Sealed};
use crate::replays::NOT_SENT;
use crate::{Deed, Event, Repair, Repaired, StoreError};

pub(super) fn write(
    db: &Connection,
    repairs: &[Sealed],
    deed: &Deed,
    now: Timestamp,
) -> Result<Vec<Repaired>, StoreError> {
    repairs.iter().map(|repair| write_one(db, repair, deed, now)).collect()
}

fn write_one(db: &Connection, repair: &Sealed, deed: &Deed, now: Timestamp) -> Result<Repaired, StoreError> {
    match steps::status(db, repair.letter)? {
        None => return Ok(Repaired::Missing),
        Some(Status::Open) => {}
        Some(other) => return Ok(Repaired::NotOpen(other)),
    }
    let letter = repair.letter.0.as_bytes();
    db.prepare_cached("UPDATE repairs SET active = 0 WHERE letter = ?1 AND active = 1")
        .and_then(|mut former| former.execute([letter]))
        .map_err(read_error)?;
    db.prepare_cached(
        "INSERT INTO repairs SELECT ?1, ifnull(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, 1
           FROM repairs WHERE letter = ?1",
    )
    .and_then(|mut insert| {
        insert.execute(params![
            letter,
            repair.key,
            repair.message,
            deed.author,
            deed.reason,
            repair.expression,
            now.as_micros(),
        ])
    })
    .map_err(read_error)?;
    let row = audit::Row { letter: Some(repair.letter), ..audit::Row::by(now, Event::Repaired, 1, deed) };
    audit::append(db, &row)?;
    Ok(Repaired::Stored)
}

/// The message that is sent instead of the original, if there is one.
pub(super) fn active(db: &Connection, letter: LetterId) -> Result<Option<Message>, StoreError> {
    let found = db
        .prepare_cached("SELECT msg_key, message FROM repairs WHERE letter = ?1 AND active = 1")
        .and_then(|mut find| {
            find.query_row([letter.0.as_bytes()], |row| Ok((row.get(0)?, row.get(1)?))).optional()
        })
        .map_err(read_error)?;
    found.map(|(key, message): (Option<Vec<u8>>, Vec<u8>)| open(key, &message)).transpose()
}

fn open(key: Option<Vec<u8>>, message: &[u8]) -> Result<Message, StoreError> {
    let cold = Block::open(message)?.cold(0)?;
    Ok(Message { key: key.map(Payload::from), headers: cold.headers, payload: cold.payload })
}

/// When a member of a replay, or of its children, was last repaired.
pub(super) fn last(db: &Connection, id: ReplayId) -> Result<Option<Timestamp>, StoreError> {
    let row = rows::head(db, id)?.row;
    let sql = "SELECT max(p.at) FROM replays r JOIN replay_items i ON i.replay = r.row
                 JOIN repairs p ON p.letter = i.letter WHERE r.row = ?1 OR r.parent = ?1";
    let at: Option<i64> = db.query_row(sql, [row], |row| row.get(0)).map_err(read_error)?;
    Ok(at.map(Timestamp::from_micros))
}

/// Members of a replay, or of its children, that are still to be sent and not as they were captured. From the repairs, of
/// which there are few beside the members of a large plan.
pub(super) fn changed_members(db: &Connection, id: ReplayId) -> Result<u64, StoreError> {
    let row = rows::head(db, id)?.row;
    let sql = "SELECT count(*) FROM repairs p CROSS JOIN replay_items i ON i.letter = p.letter
                 CROSS JOIN replays r ON r.row = i.replay
                WHERE p.active = 1 AND p.expression IS NOT ?2 AND (r.row = ?1 OR r.parent = ?1)
                  AND i.state IN (?3, ?4, ?5)";
    let [frozen, claimed, intended] = NOT_SENT.map(ItemState::number);
    let asked = params![row, AS_CAPTURED, frozen, claimed, intended];
    let count: i64 = db.query_row(sql, asked, |row| row.get(0)).map_err(read_error)?;
    Ok(count.unsigned_abs())
}

/// Those of some letters that would not be sent as they were captured, and since when.
pub(super) fn changed(
    db: &Connection,
    letters: &[LetterId],
) -> Result<Vec<(LetterId, Timestamp)>, StoreError> {
    let mut find = db
        .prepare_cached("SELECT at FROM repairs WHERE letter = ?1 AND active = 1 AND expression IS NOT ?2")
        .map_err(read_error)?;
    let mut all = Vec::new();
    for letter in letters {
        let asked = params![letter.0.as_bytes(), AS_CAPTURED];
        let at: Option<i64> = find.query_row(asked, |row| row.get(0)).optional().map_err(read_error)?;
        all.extend(at.map(|at| (*letter, Timestamp::from_micros(at))));
    }
    Ok(all)
}

pub(super) fn all(db: &Connection, letter: LetterId) -> Result<Vec<Repair>, StoreError> {
    let sql = "SELECT msg_key, message, number, author, reason, expression, at, active FROM repairs
                WHERE letter = ?1 ORDER BY number";
    let found: Vec<(Option<Vec<u8>>, Vec<u8>, Repair)> = db
        .prepare_cached(sql)
        .and_then(|mut find| {
            find.query_map([letter.0.as_bytes()], |row| repair(row, letter)).and_then(Iterator::collect)
        })
        .map_err(read_error)?;
    found
        .into_iter()
        .map(|(key, message, repair)| Ok(Repair { message: open(key, &message)?, ..repair }))
        .collect()
}

fn repair(row: &Row<'_>, letter: LetterId) -> rusqlite::Result<(Option<Vec<u8>>, Vec<u8>, Repair)> {
    let repair = Repair {
        letter,
        number: row.get(2)?,
        message: Message::default(),
        author: row.get(3)?,
        reason: row.get(4)?,
        expression: row.get(5)?,
        at: Timestamp::from_micros(row.get(6)?),
        active: row.get(7)?,
    };
    Ok((row.get(0)?, row.get(1)?, repair))
}
