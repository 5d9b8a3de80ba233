//! A replayed letter comes back: one more chapter of the same letter.
//!
//! The letter moves to the place of its new failure and shows that failure; what it was before stands in `deaths`.
//! Its payload, key, headers and origin stay those of the first time. If the letter is closed meanwhile (discarded,
//! compensated, archived) the death is recorded and the letter stays closed; if another replay has it in hand by now, it
//! stays there. A letter that comes back through another source is that source's from then on.

use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::time::Timestamp;
use dlo_core::words;
use rusqlite::{Connection, OptionalExtension, params};

use super::catalog::{GroupRow, Staged};
use super::grouping::{Grouping, arrived, touch, went_over};
use super::write::{Stored, Tools, index_tokens, next_place};
use super::{audit, read_error, replays, rows, splits, suspects};
use crate::place::Place;
use crate::prepare::suspicion_token;
use crate::{Event, StoreError};

pub(super) struct NewDeath<'a> {
    pub(super) letter: &'a NewLetter,
    pub(super) group: Grouping,
    pub(super) stored: Stored,
    pub(super) tokens: &'a str,
    pub(super) now: Timestamp,
}

/// The letter as it stood before.
pub(super) struct Former {
    pub(super) id: LetterId,
    place: Place,
    group: GroupRow,
    status: Status,
    block: i64,
    deaths: i64,
    /// Exact values that stay findable.
    tokens: Vec<String>,
}

/// Adds the death to the letter.
pub(super) fn die_again(
    db: &Connection,
    staged: &mut Staged,
    tools: &mut Tools<'_>,
    former: &Former,
    death: &NewDeath<'_>,
) -> Result<(), StoreError> {
    let held = replays::come_back(db, staged, former.id, death.letter, death.now)?;
    let status =
        if held { former.status } else { Step::DieAgain.apply(former.status).unwrap_or(former.status) };
    if former.deaths == 1 {
        copy_first(db, former.id)?;
    }
    write_death(db, former, death)?;
    let place = move_letter(db, tools, death, former, status)?;
    let mut tokens = death.tokens.to_string();
    for token in &former.tokens {
        tokens.push(' ');
        tokens.push_str(token);
    }
    db.execute("DELETE FROM quick WHERE rowid = ?1", [former.place.0]).map_err(read_error)?;
    index_tokens(db, place, &tokens)?;
    tools.unindexed += move_payload(db, former.block, former.place, place)?;
    let group = splits::sort_again(db, tools.shared, death.group.row, place)?;
    staged.count(former.group, former.status, -1);
    staged.count(group, status, 1);
    touch(staged, tools, group, death.letter, death.now);
    arrived(staged, &death.letter.source, death.now).deaths += 1;
    went_over(staged, tools, former.group, &death.letter.source, death.now);
    audit::append(db, &audit::Row::of_letter(death.now, Event::DiedAgain, former.id, death.letter))
}

/// The letter that was replayed, if it is here.
pub(super) fn find(db: &Connection, id: LetterId) -> Result<Option<Former>, StoreError> {
    db.prepare_cached(
        "SELECT place, group_id, status, block, deaths, msg_key, correlation_id, message_id, trace_id, event_version,
                (SELECT kind FROM suspects s WHERE s.letter = letters.id),
                (SELECT related FROM suspects s WHERE s.letter = letters.id)
           FROM letters WHERE id = ?1",
    )
    .map_err(read_error)?
    .query_row([id.0.as_bytes()], |row| {
        let mut tokens = Vec::new();
        if let Some(key) = row.get::<_, Option<Vec<u8>>>(5)? {
            tokens.push(words::exact("key", &key));
        }
        for (column, field) in [(6, "correlation"), (7, "message"), (8, "trace"), (9, "version")] {
            if let Some(value) = row.get::<_, Option<String>>(column)? {
                tokens.push(words::exact(field, value.as_bytes()));
            }
        }
        if let Some(suspect) = suspects::suspect(row, 10)? {
            tokens.push(suspicion_token(suspect.kind));
        }
        Ok(Former {
            id,
            place: Place(row.get(0)?),
            group: row.get(1)?,
            status: Status::from_number(row.get(2)?).ok_or_else(|| rows::unreadable("letters.status"))?,
            block: row.get(3)?,
            deaths: row.get(4)?,
            tokens,
        })
    })
    .optional()
    .map_err(read_error)
}

/// The death that stood in the letter's row so far.
fn copy_first(db: &Connection, id: LetterId) -> Result<(), StoreError> {
    db.execute(
        "INSERT INTO deaths
         SELECT l.id, 1, l.block, l.slot, l.failed_at, l.captured_at, l.broker, ifnull(l.own_queue, g.queue),
                l.incarnation, l.partition, l.log_offset, l.message_id, ifnull(l.own_consumer, g.consumer),
                l.consumer_id, l.consumer_version, l.attempts, ifnull(l.own_class, g.error_class), l.error_message,
                l.error_code, l.reason, l.verdict, l.rule, l.replay_id
           FROM letters l JOIN groups g ON g.id = l.group_id WHERE l.id = ?1",
        [id.0.as_bytes()],
    )
    .map_err(read_error)?;
    Ok(())
}

fn write_death(db: &Connection, former: &Former, death: &NewDeath<'_>) -> Result<(), StoreError> {
    let letter = death.letter;
    db.prepare_cached(
        "INSERT INTO deaths VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
         ?19, ?20, ?21, ?22, ?23)",
    )
    .map_err(read_error)?
    .execute(params![
        former.id.0.as_bytes(),
        former.deaths + 1,
        death.stored.block,
        death.stored.slot as i64,
        letter.failed_at.as_micros(),
        death.now.as_micros(),
        letter.origin.broker.number(),
        letter.origin.queue,
        letter.origin.incarnation,
        letter.origin.partition,
        letter.origin.offset,
        letter.origin.message_id,
        letter.consumer,
        letter.consumer_id,
        letter.consumer_version,
        letter.attempts,
        letter.error_class,
        letter.error_message,
        letter.error_code,
        letter.reason.number(),
        letter.verdict.number(),
        letter.rule,
        letter.replay_id,
    ])
    .map_err(read_error)?;
    Ok(())
}

fn move_letter(
    db: &Connection,
    tools: &mut Tools<'_>,
    death: &NewDeath<'_>,
    former: &Former,
    status: Status,
) -> Result<Place, StoreError> {
    let letter = death.letter;
    let own = |word: Option<&String>| if death.group.overflow { word.cloned() } else { None };
    let mut place = next_place(tools, letter.failed_at);
    let mut taken = db.prepare_cached("SELECT 1 FROM letters WHERE place = ?1").map_err(read_error)?;
    while taken.exists([place.0]).map_err(read_error)? {
        place = place.next();
    }
    db.prepare_cached(
        "UPDATE letters SET place = ?2, group_id = ?3, status = ?4, failed_at = ?5, attempts = ?6, error_message = ?7,
                error_code = ?8, reason = ?9, verdict = ?10, rule = ?11, consumer_id = ?12, consumer_version = ?13,
                deaths = deaths + 1, replays = max(replays, deaths), own_queue = ?14, own_consumer = ?15,
                own_type = ?16, own_class = ?17
          WHERE place = ?1",
    )
    .map_err(read_error)?
    .execute(params![
        former.place.0,
        place.0,
        death.group.row,
        status.number(),
        letter.failed_at.as_micros(),
        letter.attempts,
        letter.error_message,
        letter.error_code,
        letter.reason.number(),
        letter.verdict.number(),
        letter.rule,
        letter.consumer_id,
        letter.consumer_version,
        own(Some(&letter.origin.queue)),
        own(letter.consumer.as_ref()),
        own(letter.event_type.as_ref()),
        own(letter.error_class.as_ref()),
    ])
    .map_err(read_error)?;
    Ok(place)
}

/// Tells the block of the letter's payload where the letter stands now, and has it indexed anew. Returns how many
/// letters wait for the index because of it.
fn move_payload(db: &Connection, block: i64, from: Place, to: Place) -> Result<u64, StoreError> {
    let places: Option<Vec<u8>> = db
        .query_row("SELECT places FROM blocks WHERE id = ?1", [block], |row| row.get(0))
        .optional()
        .map_err(read_error)?;
    // A block of this very transaction is written behind us with the places as they were; it cannot hold an older letter.
    let Some(mut places) = places else { return Ok(0) };
    let mut waiting = 0;
    for at in places.chunks_exact_mut(8) {
        if at == from.0.to_le_bytes() {
            at.copy_from_slice(&to.0.to_le_bytes());
        }
        waiting += u64::from(i64::from_le_bytes(at.try_into().unwrap_or_default()) > 0);
    }
    db.execute("UPDATE blocks SET places = ?2 WHERE id = ?1", params![block, places]).map_err(read_error)?;
    let queued = db.execute("INSERT OR IGNORE INTO unindexed VALUES (?1)", [block]).map_err(read_error)?;
    Ok(if queued == 1 { waiting } else { 0 })
}
