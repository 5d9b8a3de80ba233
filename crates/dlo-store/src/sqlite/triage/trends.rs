//! Trends: buckets written with the letters that they count, read by group or stacked by class.

use std::collections::{BTreeMap, HashMap};

use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use dlo_core::trend::{Resolution, Window};
use rusqlite::{Connection, params};

use super::super::catalog::GroupRow;
use super::super::read_error;
use super::super::writer::Shared;
use crate::StoreError;
use crate::triage::{ClassTrend, stacked};

/// Groups whose old buckets are forgotten in one transaction.
pub(super) const PRUNED: usize = 500;

/// Adds what arrived, by the minute, to all three resolutions. What went away is taken out as far as it was counted: older
/// versions kept no trends.
pub(super) fn write(
    db: &Connection,
    minutes: &HashMap<(GroupRow, i64), i64>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut insert = db
        .prepare_cached(
            "INSERT INTO trend VALUES (?1, ?2, ?3, max(?4, 0)) ON CONFLICT DO UPDATE SET n = max(n + ?4, 0)",
        )
        .map_err(read_error)?;
    for ((group, resolution, bucket), count) in crate::triage::buckets(minutes, now) {
        insert.execute(params![group, resolution.number(), bucket, count]).map_err(read_error)?;
    }
    Ok(())
}

/// Forgets buckets of these groups that are older than what is kept.
pub(super) fn prune(db: &Connection, rows: &[GroupRow], now: Timestamp) -> Result<(), StoreError> {
    let mut delete = db
        .prepare_cached("DELETE FROM trend WHERE group_id = ?1 AND resolution = ?2 AND bucket < ?3")
        .map_err(read_error)?;
    for row in rows {
        for resolution in Resolution::ALL {
            delete.execute(params![row, resolution.number(), resolution.oldest(now)]).map_err(read_error)?;
        }
    }
    Ok(())
}

/// The window of one group with its members.
pub(super) fn of_group(
    db: &Connection,
    shared: &Shared,
    id: GroupId,
    window: Window,
) -> Result<Vec<u64>, StoreError> {
    let mut counts = vec![0; window.buckets];
    for (row, _) in super::family(shared, id).unwrap_or_default() {
        add(db, row, window, &mut counts)?;
    }
    Ok(counts)
}

/// Every group that was seen since the window began, by its class.
pub(super) fn by_class(
    db: &Connection,
    shared: &Shared,
    source: Option<&str>,
    window: Window,
) -> Result<Vec<ClassTrend>, StoreError> {
    let begins = window.begins();
    let seen: Vec<(GroupRow, Option<String>)> = shared.catalog(|catalog| {
        let asked = catalog.groups.iter().filter(|(_, group)| source.is_none_or(|name| group.source == name));
        let seen = asked.filter(|(_, group)| group.last_seen >= begins);
        seen.map(|(row, group)| (*row, group.error_class.clone())).collect()
    });
    let mut classes: BTreeMap<Option<String>, Vec<u64>> = BTreeMap::new();
    for (row, class) in seen {
        add(db, row, window, classes.entry(class).or_insert_with(|| vec![0; window.buckets]))?;
    }
    Ok(stacked(classes, window.buckets))
}

fn add(db: &Connection, row: GroupRow, window: Window, counts: &mut [u64]) -> Result<(), StoreError> {
    let mut select = db
        .prepare_cached(
            "SELECT bucket, n FROM trend WHERE group_id = ?1 AND resolution = ?2 AND bucket >= ?3 AND bucket < ?4",
        )
        .map_err(read_error)?;
    let mut rows = select
        .query(params![row, window.resolution.number(), window.from, window.end()])
        .map_err(read_error)?;
    while let Some(found) = rows.next().map_err(read_error)? {
        let (bucket, n): (i64, i64) = (found.get(0).map_err(read_error)?, found.get(1).map_err(read_error)?);
        if let Some(count) = window.index(bucket).and_then(|at| counts.get_mut(at)) {
            *count += u64::try_from(n).unwrap_or(0);
        }
    }
    Ok(())
}
