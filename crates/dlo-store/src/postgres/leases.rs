//! Leases: who works on what, until when. This is how several processes on one database divide work.

use std::time::Duration;

use deadpool_postgres::Transaction;
use dlo_core::time::Timestamp;

use super::read_error;
use super::text::escape;
use crate::{Lease, StoreError};

/// One statement decides: own it, or it ran out. The fence grows only with the holder.
const TAKE: &str = "
    INSERT INTO leases VALUES ($1, $2, $3, 1)
    ON CONFLICT (name) DO UPDATE SET
        fence = leases.fence + (leases.holder <> excluded.holder)::int, holder = excluded.holder, until = excluded.until
     WHERE leases.holder = excluded.holder OR leases.until <= $4
    RETURNING fence";

pub(super) async fn take(
    db: &Transaction<'_>,
    name: &str,
    holder: &str,
    ttl: Duration,
    now: Timestamp,
) -> Result<Option<Lease>, StoreError> {
    let until = now.plus(ttl);
    let row = db
        .query_opt(TAKE, &[&escape(name), &escape(holder), &until.as_micros(), &now.as_micros()])
        .await
        .map_err(read_error)?;
    Ok(row.map(|row| Lease { name: name.into(), holder: holder.into(), until, fence: row.get(0) }))
}

pub(super) async fn release(db: &Transaction<'_>, name: &str, holder: &str) -> Result<(), StoreError> {
    // The row stays, run out, so that the fence goes on growing.
    let sql = "UPDATE leases SET until = 0 WHERE name = $1 AND holder = $2";
    db.execute(sql, &[&escape(name), &escape(holder)]).await.map_err(read_error)?;
    Ok(())
}
