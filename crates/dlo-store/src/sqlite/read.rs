//! Reading one letter: its row, its block, its deaths.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use dlo_core::id::LetterId;
use dlo_core::letter::{Death, LetterDetail};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;
use rusqlite::{CachedStatement, Connection, OptionalExtension};

use super::catalog::Catalog;
use super::rows::{self, Found};
use super::writer::Shared;
use super::{audit, read_error, suspects};
use crate::block::{Block, Cold};
use crate::place::Place;
use crate::{Checkpoint, StoreError, StoredPayload, TimelineEntry};

/// The row of a letter, by its id.
pub(super) fn find(db: &Connection, shared: &Shared, id: LetterId) -> Result<Found, StoreError> {
    let sql = format!("SELECT {} FROM letters WHERE id = ?1", rows::LETTER);
    let mut statement = db.prepare_cached(&sql).map_err(read_error)?;
    shared
        .catalog(|catalog| {
            statement.query_row([id.0.as_bytes()], |row| rows::letter(row, catalog)).optional()
        })
        .map_err(read_error)?
        .ok_or(StoreError::NoLetter(id))
}

/// Rows by their places, one after the other. The statement is made ready once: to look it up again for each of the fifty
/// letters of a page cost as much as to read them.
pub(super) struct Rows<'db>(CachedStatement<'db>);

impl<'db> Rows<'db> {
    pub(super) fn of(db: &'db Connection) -> Result<Self, StoreError> {
        let sql = format!("SELECT {} FROM letters WHERE place = ?1", rows::LETTER);
        db.prepare_cached(&sql).map(Self).map_err(read_error)
    }

    /// The row at a place; `None` if it moved meanwhile.
    pub(super) fn at(&mut self, catalog: &Catalog, place: Place) -> Result<Option<Found>, StoreError> {
        self.0.query_row([place.0], |row| rows::letter(row, catalog)).optional().map_err(read_error)
    }
}

/// Where the cold part of the letter at a place is, and what `judge` makes of its error text: far cheaper than the whole
/// row. `None` if it moved meanwhile.
pub(super) fn glance<T>(
    db: &Connection,
    place: Place,
    judge: impl FnOnce(&str) -> T,
) -> Result<Option<(i64, usize, T)>, StoreError> {
    let sql = "SELECT block, slot, error_message FROM letters WHERE place = ?1";
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let seen = statement.query_row([place.0], |row| {
        Ok((row.get(0)?, row.get::<_, u32>(1)? as usize, judge(row.get_ref(2)?.as_str()?)))
    });
    seen.optional().map_err(read_error)
}

/// The block that holds the cold part of a letter.
pub(super) fn block(db: &Connection, id: i64) -> Result<Block, StoreError> {
    let mut statement = db.prepare_cached("SELECT data FROM blocks WHERE id = ?1").map_err(read_error)?;
    let opened = statement.query_row([id], |row| {
        let data = row.get_ref(0)?.as_blob().map_err(|_| rows::unreadable("blocks.data"))?;
        Ok(Block::open(data))
    });
    opened.optional().map_err(read_error)?.ok_or_else(|| {
        StoreError::Unreadable("a payload block is missing; restore it from a backup".into())
    })?
}

fn cold(db: &Connection, found: &Found) -> Result<Cold, StoreError> {
    block(db, found.block)?.cold(found.slot)
}

pub(super) fn detail(db: &Connection, shared: &Shared, id: LetterId) -> Result<LetterDetail, StoreError> {
    let found = find(db, shared, id)?;
    let first = cold(db, &found)?;
    let deaths =
        if found.letter.deaths > 1 { deaths(db, id)? } else { vec![only_death(db, &found, &first)?] };
    let latest = deaths.last().cloned();
    Ok(LetterDetail {
        letter: found.letter,
        headers: first.headers,
        error_stack: latest.as_ref().and_then(|death| death.error_stack.clone()),
        history: latest.map(|death| death.history).unwrap_or_default(),
        deaths,
        suspects: suspects::of_letter(db, id)?,
    })
}

/// The death of a letter that died once: it stands in the letter's own row.
fn only_death(db: &Connection, found: &Found, cold: &Cold) -> Result<Death, StoreError> {
    let replay_id: Option<String> = db
        .prepare_cached("SELECT replay_id FROM letters WHERE place = ?1")
        .map_err(read_error)?
        .query_row([found.place.0], |row| row.get(0))
        .optional()
        .map_err(read_error)?
        .flatten();
    let letter = &found.letter;
    Ok(Death {
        number: 1,
        at: letter.failed_at,
        captured_at: letter.captured_at,
        origin: letter.origin.clone(),
        consumer: letter.consumer.clone(),
        consumer_id: letter.consumer_id.clone(),
        consumer_version: letter.consumer_version.clone(),
        attempts: letter.attempts,
        error_class: letter.error_class.clone(),
        error_message: letter.error_message.clone(),
        error_code: letter.error_code.clone(),
        error_stack: cold.stack.clone(),
        reason: letter.reason,
        verdict: letter.verdict,
        rule: letter.rule.clone(),
        replay_id,
        history: cold.history.clone(),
    })
}

fn deaths(db: &Connection, id: LetterId) -> Result<Vec<Death>, StoreError> {
    let mut statement = db
        .prepare_cached(
            "SELECT number, block, slot, at, captured_at, broker, queue, incarnation, partition, log_offset,
                    message_id, consumer, consumer_id, consumer_version, attempts, error_class, error_message,
                    error_code, reason, verdict, rule, replay_id
               FROM deaths WHERE letter = ?1 ORDER BY number",
        )
        .map_err(read_error)?;
    let found: Vec<(i64, usize, Death)> =
        statement.query_map([id.0.as_bytes()], death).and_then(Iterator::collect).map_err(read_error)?;
    let mut deaths = Vec::with_capacity(found.len());
    for (block_id, slot, mut death) in found {
        let cold = block(db, block_id)?.cold(slot)?;
        death.error_stack = cold.stack;
        death.history = cold.history;
        deaths.push(death);
    }
    Ok(deaths)
}

fn death(row: &rusqlite::Row<'_>) -> rusqlite::Result<(i64, usize, Death)> {
    let death = Death {
        number: row.get(0)?,
        at: Timestamp::from_micros(row.get(3)?),
        captured_at: Timestamp::from_micros(row.get(4)?),
        origin: Origin {
            broker: BrokerKind::from_number(row.get(5)?).ok_or_else(|| rows::unreadable("deaths.broker"))?,
            queue: row.get(6)?,
            incarnation: row.get(7)?,
            partition: row.get(8)?,
            offset: row.get(9)?,
            message_id: row.get(10)?,
        },
        consumer: row.get(11)?,
        consumer_id: row.get(12)?,
        consumer_version: row.get(13)?,
        attempts: row.get(14)?,
        error_class: row.get(15)?,
        error_message: row.get(16)?,
        error_code: row.get(17)?,
        error_stack: None,
        reason: Reason::from_number(row.get(18)?).ok_or_else(|| rows::unreadable("deaths.reason"))?,
        verdict: VerdictKind::from_number(row.get(19)?).ok_or_else(|| rows::unreadable("deaths.verdict"))?,
        rule: row.get(20)?,
        replay_id: row.get(21)?,
        history: Default::default(),
    };
    Ok((row.get(1)?, row.get::<_, u32>(2)? as usize, death))
}

pub(super) fn payload(db: &Connection, shared: &Shared, id: LetterId) -> Result<StoredPayload, StoreError> {
    let found = find(db, shared, id)?;
    let cold = cold(db, &found)?;
    Ok(StoredPayload { bytes: cold.payload.0, content_type: found.letter.content_type })
}

pub(super) fn timeline(
    db: &Connection,
    shared: &Shared,
    id: LetterId,
) -> Result<Vec<TimelineEntry>, StoreError> {
    let found = find(db, shared, id)?;
    let mut timeline = vec![audit::capture_entry(found.letter.captured_at)];
    timeline.extend(audit::of_letter(db, id)?);
    Ok(timeline)
}

pub(super) fn checkpoints(db: &Connection, source: &str) -> Result<Vec<Checkpoint>, StoreError> {
    let mut statement = db
        .prepare_cached("SELECT incarnation, partition, next, mark FROM checkpoints WHERE source = ?1")
        .map_err(read_error)?;
    statement
        .query_map([source], |row| {
            Ok(Checkpoint {
                source: source.to_string(),
                incarnation: row.get(0)?,
                partition: row.get(1)?,
                next: row.get(2)?,
                mark: row.get(3)?,
            })
        })
        .and_then(Iterator::collect)
        .map_err(read_error)
}

/// A block, unpacked once while its neighbours are looked at. A few at a time: bounded, and enough for candidates that
/// come in the order of time.
pub(super) fn held<'b>(
    blocks: &'b mut HashMap<i64, Block>,
    db: &Connection,
    id: i64,
) -> Result<&'b Block, StoreError> {
    if blocks.len() >= 8 && !blocks.contains_key(&id) {
        blocks.clear();
    }
    match blocks.entry(id) {
        Entry::Occupied(held) => Ok(held.into_mut()),
        Entry::Vacant(room) => Ok(room.insert(block(db, id)?)),
    }
}
