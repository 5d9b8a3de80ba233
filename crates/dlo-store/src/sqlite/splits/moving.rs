//! Letters that were here before a split: moved newest first, a batch at a time, each in a transaction with all its numbers.
//!
//! A letter keeps its place for as long as it does not die again, and then it is sorted anew; so a walk along the places from
//! the end to the beginning passes every letter that was here, and where it stands is one number in `splits`.

use std::collections::{BTreeSet, HashMap};

use dlo_core::group::Group;
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;
use dlo_core::trend::Resolution;
use rusqlite::{Connection, OptionalExtension, params};

use super::super::catalog::{Catalog, GroupRow, Staged};
use super::super::rows::Found;
use super::super::streams::{Merged, Stream};
use super::super::writer::Shared;
use super::super::{read, read_error};
use super::sort::put;
use crate::StoreError;
use crate::block::{Block, Cold};
use crate::place::{Place, Range};
use crate::triage::{BATCH, rules};

/// Moves the next letters of the oldest split that is not done; `false`: there is none.
pub(super) fn batch(
    db: &Connection,
    staged: &mut Staged,
    shared: &Shared,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "SELECT number, group_id, next FROM splits WHERE next IS NOT NULL ORDER BY number LIMIT 1";
    let job = db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, Place(row.get(2)?)))).optional();
    let Some((number, base, next)): Option<(i64, GroupRow, Place)> = job.map_err(read_error)? else {
        return Ok(false);
    };
    let (from, rules) =
        shared.catalog(|catalog| (sources(catalog, base), catalog.rules(base).unwrap_or_default()));
    let places = places(db, &from, next)?;
    let (mut rows, mut blocks) = (read::Rows::of(db)?, HashMap::new());
    let mut changed = BTreeSet::new();
    for place in &places {
        let Some(found) = readable(shared.catalog(|catalog| rows.at(catalog, *place)), *place)? else {
            continue;
        };
        let asked = rules::needs_block(&rules, &found.letter);
        let cold = if asked { cold(db, &mut blocks, &found)? } else { None };
        if let Some(target) = rules::target(&rules, &found.letter, cold.as_ref()) {
            put(db, *place, target)?;
            count(staged, &found, target);
            changed.extend([found.group, target]);
        }
    }
    staged.at = Some(now);
    let rest = places.last().filter(|_| places.len() == BATCH).map(|place| place.0);
    db.execute("UPDATE splits SET next = ?2 WHERE number = ?1", params![number, rest]).map_err(read_error)?;
    for row in changed {
        see(db, staged, row)?;
    }
    Ok(true)
}

/// The group itself, and those that were split off it and joined it again: their letters are its own.
fn sources(catalog: &Catalog, base: GroupRow) -> Vec<GroupRow> {
    let Some(group) = catalog.groups.get(&base) else { return Vec::new() };
    let live = catalog.rules(base).unwrap_or_default();
    let joined = |row: &GroupRow| {
        let came = |member: &Group| member.split.as_ref().is_some_and(|split| split.from == group.id);
        catalog.groups.get(row).is_some_and(came) && live.iter().all(|rule| rule.target != *row)
    };
    let head = catalog.head_of(base);
    let members = catalog.family(head).into_iter().filter(joined);
    std::iter::once(base).chain(members).collect()
}

fn places(db: &Connection, from: &[GroupRow], high: Place) -> Result<Vec<Place>, StoreError> {
    let pairs = from.iter().flat_map(|row| Status::ALL.iter().map(|status| Stream::pair(*row, *status)));
    let mut walk = Merged::new(pairs.collect(), Range { low: Place::from(Timestamp::EPOCH), high });
    let mut places = Vec::with_capacity(BATCH);
    while places.len() < BATCH
        && let Some(place) = walk.next(db)?
    {
        places.push(place);
    }
    Ok(places)
}

/// A row that cannot be read stays where it is: one damaged letter must not hold up the others.
pub(super) fn readable(
    found: Result<Option<Found>, StoreError>,
    place: Place,
) -> Result<Option<Found>, StoreError> {
    match found {
        Err(StoreError::Unreadable(why)) => {
            tracing::warn!(
                place = place.0,
                why,
                "a letter of a group that is split cannot be read; it stays"
            );
            Ok(None)
        }
        found => found,
    }
}

pub(super) fn cold(
    db: &Connection,
    blocks: &mut HashMap<i64, Block>,
    found: &Found,
) -> Result<Option<Cold>, StoreError> {
    match read::held(blocks, db, found.block).and_then(|block| block.cold(found.slot)) {
        Err(StoreError::Unreadable(_)) => Ok(None),
        cold => cold.map(Some),
    }
}

/// One letter less there, one more here: by status, and in the trend at the time of its failure.
fn count(staged: &mut Staged, found: &Found, target: GroupRow) {
    let minute = Resolution::Minute.bucket(found.letter.failed_at);
    for (row, delta) in [(found.group, -1), (target, 1)] {
        staged.count(row, found.letter.status, delta);
        *staged.minutes.entry((row, minute)).or_default() += delta;
    }
}

/// First and last seen by the letters that the group has now; one without letters keeps what it had.
fn see(db: &Connection, staged: &mut Staged, row: GroupRow) -> Result<(), StoreError> {
    let mut ends: Option<(i64, i64)> = None;
    for order in ["", "DESC"] {
        let sql = format!(
            "SELECT failed_at FROM letters WHERE group_id = ?1 AND status = ?2 ORDER BY place {order} LIMIT 1"
        );
        let mut statement = db.prepare_cached(&sql).map_err(read_error)?;
        for status in Status::ALL {
            let end = statement.query_row(params![row, status.number()], |row| row.get(0)).optional();
            if let Some(at) = end.map_err(read_error)? {
                ends = Some(ends.map_or((at, at), |(first, last)| (first.min(at), last.max(at))));
            }
        }
    }
    let Some((first, last)) = ends else { return Ok(()) };
    let sql = "UPDATE groups SET first_seen = ?2, last_seen = ?3 WHERE id = ?1";
    db.execute(sql, params![row, first, last]).map_err(read_error)?;
    staged.seen.insert(row, (Timestamp::from_micros(first), Timestamp::from_micros(last)));
    Ok(())
}
