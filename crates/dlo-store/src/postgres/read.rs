//! Reading one letter: its row, its block, its deaths.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use deadpool_postgres::Transaction;
use dlo_core::id::LetterId;
use dlo_core::letter::{Death, LetterDetail};
use dlo_core::origin::{BrokerKind, Origin};
use dlo_core::reason::Reason;
use dlo_core::time::Timestamp;
use dlo_core::verdict::VerdictKind;
use tokio_postgres::Row;

use super::rows::{self, Found, maybe_text, text};
use super::text::{escape, unescape};
use super::{audit, read_error, suspects};
use crate::block::{Block, Cold};
use crate::{Checkpoint, StoreError, StoredPayload, TimelineEntry};

/// The row of a letter, by its id.
pub(super) async fn find(db: &Transaction<'_>, id: LetterId) -> Result<Found, StoreError> {
    let sql =
        format!("SELECT {} FROM letters l JOIN groups g ON g.id = l.group_id WHERE l.id = $1", rows::LETTER);
    let statement = db.prepare_cached(&sql).await.map_err(read_error)?;
    let row = db.query_opt(&statement, &[&id.0]).await.map_err(read_error)?;
    rows::letter(&row.ok_or(StoreError::NoLetter(id))?)
}

/// The block that holds the cold part of a letter.
pub(super) async fn block(db: &Transaction<'_>, id: i64) -> Result<Block, StoreError> {
    let statement = db.prepare_cached("SELECT data FROM blocks WHERE id = $1").await.map_err(read_error)?;
    let row = db.query_opt(&statement, &[&id]).await.map_err(read_error)?;
    let missing = || StoreError::Unreadable("a payload block is missing; restore it from a backup".into());
    Block::open(row.ok_or_else(missing)?.get(0))
}

/// A block, unpacked once while its neighbours are looked at. A few at a time: bounded, and enough for candidates that
/// come in the order of time.
pub(super) async fn held<'b>(
    blocks: &'b mut HashMap<i64, Block>,
    db: &Transaction<'_>,
    id: i64,
) -> Result<&'b Block, StoreError> {
    if blocks.len() >= 8 && !blocks.contains_key(&id) {
        blocks.clear();
    }
    match blocks.entry(id) {
        Entry::Occupied(held) => Ok(held.into_mut()),
        Entry::Vacant(room) => Ok(room.insert(block(db, id).await?)),
    }
}

async fn cold(db: &Transaction<'_>, found: &Found) -> Result<Cold, StoreError> {
    block(db, found.block).await?.cold(found.slot)
}

pub(super) async fn detail(db: &Transaction<'_>, id: LetterId) -> Result<LetterDetail, StoreError> {
    let found = find(db, id).await?;
    let first = cold(db, &found).await?;
    let deaths =
        if found.letter.deaths > 1 { deaths(db, id).await? } else { vec![only_death(&found, &first)] };
    let latest = deaths.last().cloned();
    Ok(LetterDetail {
        letter: found.letter,
        headers: first.headers,
        error_stack: latest.as_ref().and_then(|death| death.error_stack.clone()),
        history: latest.map(|death| death.history).unwrap_or_default(),
        deaths,
        suspects: suspects::of_letter(db, id).await?,
    })
}

/// The death of a letter that died once: it stands in the letter's own row.
fn only_death(found: &Found, cold: &Cold) -> Death {
    let letter = &found.letter;
    Death {
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
        replay_id: found.replay_id.clone(),
        history: cold.history.clone(),
    }
}

async fn deaths(db: &Transaction<'_>, id: LetterId) -> Result<Vec<Death>, StoreError> {
    let sql = "SELECT number, block, slot, at, captured_at, broker, queue, incarnation, partition, log_offset,
                      message_id, consumer, consumer_id, consumer_version, attempts, error_class, error_message,
                      error_code, reason, verdict, rule, replay_id
                 FROM deaths WHERE letter = $1 ORDER BY number";
    let mut deaths = Vec::new();
    for row in db.query(sql, &[&id.0]).await.map_err(read_error)? {
        let mut death = death(&row)?;
        let cold = block(db, row.get(1)).await?.cold(rows::slot(row.get(2))?)?;
        death.error_stack = cold.stack;
        death.history = cold.history;
        deaths.push(death);
    }
    Ok(deaths)
}

fn death(row: &Row) -> Result<Death, StoreError> {
    Ok(Death {
        number: rows::number(row.get(0), "deaths.number")?,
        at: Timestamp::from_micros(row.get(3)),
        captured_at: Timestamp::from_micros(row.get(4)),
        origin: Origin {
            broker: rows::code(row.get(5), BrokerKind::from_number, "deaths.broker")?,
            queue: text(row, 6),
            incarnation: maybe_text(row, 7),
            partition: row.get(8),
            offset: row.get(9),
            message_id: maybe_text(row, 10),
        },
        consumer: maybe_text(row, 11),
        consumer_id: maybe_text(row, 12),
        consumer_version: maybe_text(row, 13),
        attempts: rows::number(row.get(14), "deaths.attempts")?,
        error_class: maybe_text(row, 15),
        error_message: text(row, 16),
        error_code: maybe_text(row, 17),
        error_stack: None,
        reason: rows::code(row.get(18), Reason::from_number, "deaths.reason")?,
        verdict: rows::code(row.get(19), VerdictKind::from_number, "deaths.verdict")?,
        rule: maybe_text(row, 20),
        replay_id: maybe_text(row, 21),
        history: Default::default(),
    })
}

pub(super) async fn payload(db: &Transaction<'_>, id: LetterId) -> Result<StoredPayload, StoreError> {
    let found = find(db, id).await?;
    let cold = cold(db, &found).await?;
    Ok(StoredPayload { bytes: cold.payload.0, content_type: found.letter.content_type })
}

pub(super) async fn timeline(db: &Transaction<'_>, id: LetterId) -> Result<Vec<TimelineEntry>, StoreError> {
    let found = find(db, id).await?;
    let mut timeline = vec![audit::capture_entry(found.letter.captured_at)];
    timeline.extend(audit::of_letter(db, id).await?);
    Ok(timeline)
}

pub(super) async fn checkpoints(db: &Transaction<'_>, source: &str) -> Result<Vec<Checkpoint>, StoreError> {
    let sql = "SELECT incarnation, partition, next, mark FROM checkpoints WHERE source = $1";
    let found = db.query(sql, &[&escape(source)]).await.map_err(read_error)?;
    let checkpoint = |row: &Row| Checkpoint {
        source: source.to_string(),
        incarnation: text(row, 0),
        partition: row.get(1),
        next: row.get(2),
        mark: row.get::<_, Option<String>>(3).map(unescape),
    };
    Ok(found.iter().map(checkpoint).collect())
}
