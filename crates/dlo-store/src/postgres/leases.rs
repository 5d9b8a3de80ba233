//! Leases: who works on what, until when. This is how several processes on one database divide work.
//!
//! The clock is the database's, so the clocks of the processes need not agree, and may jump. If the database's own clock is set
//! back, a lease would hold for as much longer: one that runs out later than it can is taken as run out.

use std::time::Duration;

use deadpool_postgres::Transaction;
use dlo_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::read_error;
use super::rows::text;
use super::text::escape;
use crate::{Lease, StoreError};

/// One statement decides: own it, or it ran out. The fence grows only with the holder. `$3` are the microseconds that it
/// holds; `excluded.until - $3` is the present moment.
const TAKE: &str = "
    INSERT INTO leases VALUES ($1, $2, (extract(epoch FROM clock_timestamp()) * 1000000)::bigint + $3, 1)
    ON CONFLICT (name) DO UPDATE SET
        fence = leases.fence + (leases.holder <> excluded.holder)::int, holder = excluded.holder, until = excluded.until
     WHERE leases.holder = excluded.holder OR leases.until <= excluded.until - $3 OR leases.until > excluded.until + $3 / 2
    RETURNING fence";

const HELD: &str = "
    SELECT 1 FROM leases WHERE name = $1 AND holder = $2 AND fence = $3
       AND until > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint FOR SHARE";

const ALL: &str = "
    SELECT name, holder, until, fence FROM leases
     WHERE starts_with(name, $1) AND until - (extract(epoch FROM clock_timestamp()) * 1000000)::bigint BETWEEN 1 AND $2
     ORDER BY name";

pub(super) async fn take(
    db: &Transaction<'_>,
    name: &str,
    holder: &str,
    ttl: Duration,
    now: Timestamp,
) -> Result<Option<Lease>, StoreError> {
    let micros = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX / 4);
    let row = db.query_opt(TAKE, &[&escape(name), &escape(holder), &micros]).await.map_err(read_error)?;
    // By the clock of the caller, who asked before the database gave it: the caller never believes in it for too long.
    let until = now.plus(ttl);
    Ok(row.map(|row| Lease { name: name.into(), holder: holder.into(), until, fence: row.get(0) }))
}

/// Whether each lease is still held; the first that is not, otherwise. It cannot change hands before the transaction
/// ends: whoever takes it over sees what was written under it.
pub(super) async fn check(db: &Transaction<'_>, leases: &[Lease]) -> Result<(), StoreError> {
    for lease in leases {
        let values: [&(dyn ToSql + Sync); 3] = [&escape(&lease.name), &escape(&lease.holder), &lease.fence];
        let statement = db.prepare_cached(HELD).await.map_err(read_error)?;
        if db.query_opt(&statement, &values).await.map_err(read_error)?.is_none() {
            return Err(StoreError::LeaseLost(lease.name.clone()));
        }
    }
    Ok(())
}

/// Every lease whose name begins with `prefix` and that has not run out.
pub(super) async fn all(db: &Transaction<'_>, prefix: &str) -> Result<Vec<Lease>, StoreError> {
    let longest = i64::try_from(Lease::LONGEST.as_micros()).unwrap_or(i64::MAX);
    let rows = db.query(ALL, &[&escape(prefix), &longest]).await.map_err(read_error)?;
    let lease = |row: &Row| Lease {
        name: text(row, 0),
        holder: text(row, 1),
        until: Timestamp::from_micros(row.get(2)),
        fence: row.get(3),
    };
    Ok(rows.iter().map(lease).collect())
}

pub(super) async fn release(db: &Transaction<'_>, name: &str, holder: &str) -> Result<(), StoreError> {
    // The row stays, run out, so that the fence goes on growing.
    let sql = "UPDATE leases SET until = 0 WHERE name = $1 AND holder = $2";
    db.execute(sql, &[&escape(name), &escape(holder)]).await.map_err(read_error)?;
    Ok(())
}
