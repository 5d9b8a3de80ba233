//! Steps of letters: legal by the one table in `dlo-core`, counted and audited in the same transaction.

use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

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
    let Some((place, group, from)) = find(db, id)? else { return Ok(Stepped::Missing) };
    let Ok(to) = step.apply(from) else { return Ok(Stepped::Illegal { from }) };
    db.prepare_cached("UPDATE letters SET status = ?2, replays = replays + ?3 WHERE place = ?1")
        .map_err(read_error)?
        .execute(params![place.0, to.number(), step.is_send()])
        .map_err(read_error)?;
    staged.count(group, from, -1);
    staged.count(group, to, 1);
    Ok(Stepped::Moved { from, to })
}

/// Where a letter stands; `None` if it is not here.
pub(super) fn status(db: &Connection, id: LetterId) -> Result<Option<Status>, StoreError> {
    Ok(find(db, id)?.map(|(_, _, status)| status))
}

fn find(db: &Connection, id: LetterId) -> Result<Option<(Place, GroupRow, Status)>, StoreError> {
    db.prepare_cached("SELECT place, group_id, status FROM letters WHERE id = ?1")
        .map_err(read_error)?
        .query_row([id.0.as_bytes()], |row| {
            let status =
                Status::from_number(row.get(2)?).ok_or_else(|| rows::unreadable("letters.status"))?;
            Ok((Place(row.get(0)?), row.get(1)?, status))
        })
        .optional()
        .map_err(read_error)
}
