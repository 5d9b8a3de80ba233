//! Leases: who works on what, until when. With one process they are seldom contended, but they keep the same promises.
//!
//! If the clock is set back while no process runs, a lease would hold for as much longer: one that runs out later than it can
//! is taken as run out.

use std::time::Duration;

use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::read_error;
use crate::{Lease, StoreError};

/// One statement decides: own it, or it ran out. The fence grows only with the holder.
const TAKE: &str = "
    INSERT INTO leases VALUES (?1, ?2, ?3, 1)
    ON CONFLICT (name) DO UPDATE SET
        fence = fence + (holder <> excluded.holder), holder = excluded.holder, until = excluded.until
     WHERE holder = excluded.holder OR until <= ?4 OR until > excluded.until + (excluded.until - ?4) / 2
    RETURNING fence";

pub(super) fn take(
    db: &Connection,
    name: &str,
    holder: &str,
    ttl: Duration,
    now: Timestamp,
) -> Result<Option<Lease>, StoreError> {
    let until = now.plus(ttl);
    let fence: Option<i64> = db
        .query_row(TAKE, params![name, holder, until.as_micros(), now.as_micros()], |row| row.get(0))
        .optional()
        .map_err(read_error)?;
    Ok(fence.map(|fence| Lease { name: name.into(), holder: holder.into(), until, fence }))
}

/// Whether each lease is still held; the first that is not, otherwise.
pub(super) fn check(db: &Connection, leases: &[Lease], now: Timestamp) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM leases WHERE name = ?1 AND holder = ?2 AND fence = ?3 AND until > ?4";
    for lease in leases {
        let held = db
            .prepare_cached(sql)
            .and_then(|mut find| find.exists(params![lease.name, lease.holder, lease.fence, now.as_micros()]))
            .map_err(read_error)?;
        if !held {
            return Err(StoreError::LeaseLost(lease.name.clone()));
        }
    }
    Ok(())
}

/// Every lease whose name begins with `prefix` and that has not run out.
pub(super) fn all(db: &Connection, prefix: &str, now: Timestamp) -> Result<Vec<Lease>, StoreError> {
    let sql = "SELECT name, holder, until, fence FROM leases
                WHERE substr(name, 1, length(?1)) = ?1 AND until > ?2 AND until <= ?3 ORDER BY name";
    let mut find = db.prepare_cached(sql).map_err(read_error)?;
    find.query_map(params![prefix, now.as_micros(), now.plus(Lease::LONGEST).as_micros()], |row| {
        Ok(Lease {
            name: row.get(0)?,
            holder: row.get(1)?,
            until: Timestamp::from_micros(row.get(2)?),
            fence: row.get(3)?,
        })
    })
    .and_then(Iterator::collect)
    .map_err(read_error)
}

pub(super) fn release(db: &Connection, name: &str, holder: &str) -> Result<(), StoreError> {
    // The row stays, run out, so that the fence goes on growing.
    db.execute("UPDATE leases SET until = 0 WHERE name = ?1 AND holder = ?2", params![name, holder])
        .map_err(read_error)?;
    Ok(())
}
