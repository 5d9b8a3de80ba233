//! Items read: those that are shown alone, and those that are to be moved together with where their letters stand.

use dlo_core::replay::Item;
use rusqlite::Connection;

use super::super::{read_error, steps};
use super::rows::{self, FoundItem, ITEM, ReplayRow};
use crate::StoreError;

/// One item, if it is there.
pub(super) fn find(db: &Connection, replay: ReplayRow, number: u64) -> Result<Option<FoundItem>, StoreError> {
    let Ok(number) = i64::try_from(number) else { return Ok(None) };
    Ok(to_move(db, "i.number = ?2", &[&replay, &number])?.pop())
}

/// The items of these numbers that are there, each once, in order.
pub(super) fn named(
    db: &Connection,
    replay: ReplayRow,
    numbers: impl Iterator<Item = u64>,
) -> Result<Vec<FoundItem>, StoreError> {
    let mut numbers: Vec<i64> = numbers.filter_map(|number| i64::try_from(number).ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let mut found = Vec::with_capacity(numbers.len());
    for (first, last) in runs(&numbers) {
        found.extend(to_move(db, "i.number BETWEEN ?2 AND ?3 ORDER BY i.number", &[&replay, &first, &last])?);
    }
    Ok(found)
}

/// Numbers in order as ranges without gaps, each by its first and last: a range is walked, where each number of a list is
/// looked up.
pub(super) fn runs(numbers: &[i64]) -> impl Iterator<Item = (i64, i64)> + '_ {
    numbers.chunk_by(|a, b| b - a == 1).filter_map(|run| Some((*run.first()?, *run.last()?)))
}

/// Items of a replay under a condition on `replay_items i`, with where their letters stand; `?1` is the replay.
pub(super) fn to_move(
    db: &Connection,
    rest: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<FoundItem>, StoreError> {
    let sql = format!(
        "SELECT {ITEM}, {} FROM replay_items i LEFT JOIN letters l ON l.id = i.letter WHERE i.replay = ?1 AND {rest}",
        steps::STANDING
    );
    db.prepare_cached(&sql)
        .and_then(|mut find| find.query_map(values, rows::found_item).and_then(Iterator::collect))
        .map_err(read_error)
}

/// Items of a replay under a condition on `replay_items i`, in the order given; `?1` is the replay.
pub(super) fn select(
    db: &Connection,
    rest: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<Item>, StoreError> {
    let sql = format!("SELECT {ITEM} FROM replay_items i WHERE i.replay = ?1 AND {rest}");
    db.prepare_cached(&sql)
        .and_then(|mut find| find.query_map(values, rows::item).and_then(Iterator::collect))
        .map_err(read_error)
}
