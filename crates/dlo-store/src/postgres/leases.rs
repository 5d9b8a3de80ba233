//! Leases: who works on what, until when. This is how several processes on one database divide work.

use std::time::Duration;

use deadpool_postgres::Transaction;
use dlo_core::time::Timestamp;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::read_error;
use super::rows::text;
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

/// Whether each lease is still held; the first that is not, otherwise. It cannot change hands before the transaction
/// ends: whoever takes it over sees what was written under it.
pub(super) async fn check(db: &Transaction<'_>, leases: &[Lease], now: Timestamp) -> Result<(), StoreError> {
    let sql = "SELECT 1 FROM leases WHERE name = $1 AND holder = $2 AND fence = $3 AND until > $4 FOR SHARE";
    for lease in leases {
        let values: [&(dyn ToSql + Sync); 4] =
            [&escape(&lease.name), &escape(&lease.holder), &lease.fence, &now.as_micros()];
        let statement = db.prepare_cached(sql).await.map_err(read_error)?;
        if db.query_opt(&statement, &values).await.map_err(read_error)?.is_none() {
            return Err(StoreError::LeaseLost(lease.name.clone()));
        }
    }
    Ok(())
}

/// Every lease whose name begins with `prefix` and that has not run out.
pub(super) async fn all(
    db: &Transaction<'_>,
    prefix: &str,
    now: Timestamp,
) -> Result<Vec<Lease>, StoreError> {
    let sql = "SELECT name, holder, until, fence FROM leases WHERE starts_with(name, $1) AND until > $2 ORDER BY name";
    let rows = db.query(sql, &[&escape(prefix), &now.as_micros()]).await.map_err(read_error)?;
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
