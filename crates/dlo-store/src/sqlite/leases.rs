//! Leases: who works on what, until when. With one process they are seldom contended, but they keep the same promises.

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
     WHERE holder = excluded.holder OR until <= ?4
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

pub(super) fn release(db: &Connection, name: &str, holder: &str) -> Result<(), StoreError> {
    // The row stays, run out, so that the fence goes on growing.
    db.execute("UPDATE leases SET until = 0 WHERE name = ?1 AND holder = ?2", params![name, holder])
        .map_err(read_error)?;
    Ok(())
}
