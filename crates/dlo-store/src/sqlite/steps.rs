//! Steps of letters: legal by the one table in `dlo-core`, counted and audited in the same transaction.

use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::catalog::{GroupRow, Staged};
use super::{audit, read_error, rows};
use crate::place::Place;
use crate::{Deed, Event, Stepped, StoreError};

pub(super) fn step(
    db: &Connection,
    staged: &mut Staged,
    ids: &[LetterId],
    step: Step,
    deed: &Deed,
    now: Timestamp,
) -> Result<Vec<Stepped>, StoreError> {
    ids.iter().map(|id| step_one(db, staged, *id, step, deed, now)).collect()
}

fn step_one(
    db: &Connection,
    staged: &mut Staged,
    id: LetterId,
    step: Step,
    deed: &Deed,
    now: Timestamp,
) -> Result<Stepped, StoreError> {
    let stepped = advance(db, staged, id, step)?;
    if matches!(stepped, Stepped::Moved { .. }) {
        let row = audit::Row { letter: Some(id), ..audit::Row::by(now, Event::Step(step), 1, deed) };
        audit::append(db, &row)?;
    }
    Ok(stepped)
}

/// Takes the step and counts it; whoever calls writes the audit row.
pub(super) fn advance(
    db: &Connection,
    staged: &mut Staged,
    id: LetterId,
    step: Step,
) -> Result<Stepped, StoreError> {
    let Some(Standing { place, group, status: from }) = find(db, id)? else { return Ok(Stepped::Missing) };
    let Ok(to) = step.apply(from) else { return Ok(Stepped::Illegal { from }) };
    db.prepare_cached("UPDATE letters SET status = ?2, replays = replays + ?3 WHERE place = ?1")
        .map_err(read_error)?
        .execute(params![place.0, to.number(), step.is_send()])
        .map_err(read_error)?;
    staged.count(group, from, -1);
    staged.count(group, to, 1);
    Ok(Stepped::Moved { from, to })
}

/// Letters on their way, each taken where it stands in this transaction and written together.
///
/// Each is a statement of its own, since it is found and changed in one go. A list of them would be looked up first and once
/// more to be changed, and SQLite would keep a copy of each page for the case that it must take back that statement alone:
/// twice the work, as letters of one replay share no pages.
#[derive(Debug, Default)]
pub(super) struct Together(Vec<(Step, Status, Vec<i64>)>);

impl Together {
    /// Takes the step, if it is legal from there, and counts it. Written by [`Together::write`]; until then the database
    /// has the letter where it stood, so that no letter is taken twice.
    pub(super) fn take(&mut self, letter: Standing, step: Step, staged: &mut Staged) -> bool {
        let Ok(to) = step.apply(letter.status) else { return false };
        staged.count(letter.group, letter.status, -1);
        staged.count(letter.group, to, 1);
        match self.0.iter_mut().find(|(with, at, _)| (*with, *at) == (step, to)) {
            Some((_, _, places)) => places.push(letter.place.0),
            None => self.0.push((step, to, vec![letter.place.0])),
        }
        true
    }

    pub(super) fn write(self, db: &Connection) -> Result<(), StoreError> {
        let sql = "UPDATE letters SET status = ?2, replays = replays + ?3 WHERE place = ?1";
        let mut update = db.prepare_cached(sql).map_err(read_error)?;
        for (step, to, mut places) in self.0 {
            // Neighbours share a page.
            places.sort_unstable();
            for place in places {
                update.execute(params![place, to.number(), step.is_send()]).map_err(read_error)?;
            }
        }
        Ok(())
    }
}

/// Numbers as `json_each` takes them: one value for any count of them.
pub(super) fn json_array(numbers: impl Iterator<Item = i64>) -> String {
    let mut json = String::from("[");
    for number in numbers {
        if json.len() > 1 {
            json.push(',');
        }
        json.push_str(&number.to_string());
    }
    json.push(']');
    json
}

/// Where a letter stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Standing {
    place: Place,
    group: GroupRow,
    pub(super) status: Status,
}

/// The columns of a [`Standing`] in `letters l`.
pub(super) const STANDING: &str = "l.place, l.group_id, l.status";

/// Reads the columns of [`STANDING`] from `index` on; `None` where a join found no letter.
pub(super) fn standing(row: &Row<'_>, index: usize) -> rusqlite::Result<Option<Standing>> {
    let Some(place) = row.get(index)? else { return Ok(None) };
    let status =
        Status::from_number(row.get(index + 2)?).ok_or_else(|| rows::unreadable("letters.status"))?;
    Ok(Some(Standing { place: Place(place), group: row.get(index + 1)?, status }))
}

/// Where a letter stands; `None` if it is not here.
pub(super) fn status(db: &Connection, id: LetterId) -> Result<Option<Status>, StoreError> {
    Ok(find(db, id)?.map(|found| found.status))
}

fn find(db: &Connection, id: LetterId) -> Result<Option<Standing>, StoreError> {
    db.prepare_cached(&format!("SELECT {STANDING} FROM letters l WHERE l.id = ?1"))
        .map_err(read_error)?
        .query_row([id.0.as_bytes()], |row| standing(row, 0))
        .optional()
        .map(Option::flatten)
        .map_err(read_error)
}
