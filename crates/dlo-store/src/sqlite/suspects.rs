//! Suspected letters in the embedded store: what is looked up for a letter that arrives, and what is kept of the answer.
//!
//! `dlo-core/src/suspect.rs` decides. Letters with coordinates have no row here and ask for none.

use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, SUSPECTS_SHOWN};
use dlo_core::suspect::{FirstDeath, Suspect, Suspicion};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::catalog::{Staged, uuid};
use super::{read_error, replays, rows};
use crate::StoreError;

/// Looks for an earlier copy of the new letter `id`, and remembers its death id.
pub(super) fn find_copy(
    db: &Connection,
    letter: &NewLetter,
    id: LetterId,
) -> Result<Option<Suspect>, StoreError> {
    let Some(mark) = letter.death else { return Ok(None) };
    let key = mark.key(&letter.source);
    let first = db
        .prepare_cached("SELECT letter, awaits_original FROM death_ids WHERE key = ?1")
        .and_then(|mut find| find.query_row([key], first_death).optional())
        .map_err(read_error)?;
    let Some(first) = first else {
        let first = FirstDeath::new(id, mark);
        db.prepare_cached("INSERT INTO death_ids VALUES (?1, ?2, ?3)")
            .and_then(|mut insert| {
                insert.execute(params![key, first.letter.0.as_bytes(), first.awaits_original])
            })
            .map_err(read_error)?;
        return Ok(None);
    };
    let next = first.next(mark);
    if next.awaits_original != first.awaits_original {
        db.prepare_cached("UPDATE death_ids SET awaits_original = ?2 WHERE key = ?1")
            .and_then(|mut update| update.execute(params![key, next.awaits_original]))
            .map_err(read_error)?;
    }
    Ok(next.of.map(|letter| Suspect { kind: Suspicion::Duplicate, letter }))
}

/// Counts the message of a replay as a suspected return, unless its outcome is known.
pub(super) fn find_return(
    db: &Connection,
    staged: &mut Staged,
    back: replays::ForeignReturn,
    letter: &NewLetter,
    now: Timestamp,
) -> Result<Option<Suspect>, StoreError> {
    let first = Suspect { kind: Suspicion::Return, letter: back.letter() };
    let suspected = replays::suspect_return(db, staged, back, letter, now)?;
    Ok(suspected.then_some(first))
}

fn first_death(row: &Row<'_>) -> rusqlite::Result<FirstDeath> {
    Ok(FirstDeath { letter: letter_id(row, 0)?, awaits_original: row.get(1)? })
}

/// Keeps what a new letter is suspected of.
pub(super) fn write(db: &Connection, id: LetterId, suspect: Suspect) -> Result<(), StoreError> {
    db.prepare_cached("INSERT INTO suspects VALUES (?1, ?2, ?3)")
        .and_then(|mut insert| {
            insert.execute(params![id.0.as_bytes(), suspect.letter.0.as_bytes(), suspect.kind.number()])
        })
        .map_err(read_error)?;
    Ok(())
}

/// The letters that are suspected to repeat this one, oldest first.
pub(super) fn of_letter(db: &Connection, id: LetterId) -> Result<Vec<Suspect>, StoreError> {
    let sql = "SELECT kind, letter FROM suspects WHERE related = ?1 ORDER BY letter LIMIT ?2";
    db.prepare_cached(sql)
        .and_then(|mut find| {
            let found = find.query_map(params![id.0.as_bytes(), SUSPECTS_SHOWN as i64], |row| {
                Ok(Suspect { kind: kind(row.get(0)?)?, letter: letter_id(row, 1)? })
            });
            found.and_then(Iterator::collect)
        })
        .map_err(read_error)
}

/// Reads two columns of a letter's row: kind and related letter, both absent from most.
pub(super) fn suspect(row: &Row<'_>, first: usize) -> rusqlite::Result<Option<Suspect>> {
    let Some(number) = row.get::<_, Option<u8>>(first)? else { return Ok(None) };
    Ok(Some(Suspect { kind: kind(number)?, letter: letter_id(row, first + 1)? }))
}

fn kind(number: u8) -> rusqlite::Result<Suspicion> {
    Suspicion::from_number(number).ok_or_else(|| rows::unreadable("suspects.kind"))
}

fn letter_id(row: &Row<'_>, column: usize) -> rusqlite::Result<LetterId> {
    let bytes = row.get_ref(column)?.as_blob().map_err(|_| rows::unreadable("suspects.letter"))?;
    uuid(bytes).map(LetterId)
}
