//! Letters that arrive in a group with conditions: which of its groups they go to.

use dlo_core::letter::Letter;
use rusqlite::{Connection, params};

use super::super::catalog::GroupRow;
use super::super::writer::Shared;
use super::super::{read, read_error};
use super::moving::{cold, readable};
use crate::StoreError;
use crate::place::Place;
use crate::triage::rules::{self, Sorter};

/// The group that a new letter belongs to, if its fingerprint leads to `row`.
pub(in super::super) fn sort_new(
    shared: &Shared,
    sorter: &mut Sorter<'_>,
    row: GroupRow,
    letter: impl FnOnce() -> Letter,
) -> GroupRow {
    match shared.catalog(|catalog| catalog.rules(row)) {
        Some(rules) => sorter.target(&rules, &letter()).unwrap_or(row),
        None => row,
    }
}

/// The group of a letter that died again and stands at `place` in the group `row`: it keeps its payload, so it is held
/// against the conditions as it is stored.
pub(in super::super) fn sort_again(
    db: &Connection,
    shared: &Shared,
    row: GroupRow,
    place: Place,
) -> Result<GroupRow, StoreError> {
    let Some(rules) = shared.catalog(|catalog| catalog.rules(row)) else { return Ok(row) };
    let mut rows = read::Rows::of(db)?;
    let Some(found) = readable(shared.catalog(|catalog| rows.at(catalog, place)), place)? else {
        return Ok(row);
    };
    let asked = rules::needs_block(&rules, &found.letter);
    let cold = if asked { cold(db, &mut Default::default(), &found)? } else { None };
    let target = rules::target(&rules, &found.letter, cold.as_ref()).unwrap_or(row);
    if target != row {
        put(db, place, target)?;
    }
    Ok(target)
}

/// Writes down which group the letter at a place belongs to.
pub(super) fn put(db: &Connection, place: Place, group: GroupRow) -> Result<(), StoreError> {
    db.prepare_cached("UPDATE letters SET group_id = ?2 WHERE place = ?1")
        .and_then(|mut update| update.execute(params![place.0, group]))
        .map(drop)
        .map_err(read_error)
}
