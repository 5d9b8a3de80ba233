//! Trends: buckets written with the letters that they count, in shards, and read as their sums.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Transaction;
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use dlo_core::trend::{Resolution, Window};

use super::super::rows::{self, GroupRow};
use super::super::text::escape;
use super::super::{Client, read_error};
use super::changes::heads_of;
use crate::StoreError;
use crate::triage::{ClassTrend, buckets, stacked};

const WRITE: &str = "
    INSERT INTO trend SELECT t.group_id, t.resolution, t.bucket, pg_backend_pid() % 8, t.n
      FROM UNNEST($1::bigint[], $2::smallint[], $3::bigint[], $4::bigint[]) AS t (group_id, resolution, bucket, n)
    ON CONFLICT (group_id, resolution, bucket, shard) DO UPDATE SET n = trend.n + excluded.n";

/// Adds what arrived, by the minute, to all three resolutions; in the order of the keys.
pub(in super::super) async fn write(
    db: &Transaction<'_>,
    minutes: &HashMap<(GroupRow, i64), i64>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let counts = buckets(minutes, now);
    if counts.is_empty() {
        return Ok(());
    }
    let groups: Vec<i64> = counts.keys().map(|(group, _, _)| *group).collect();
    let resolutions: Vec<i16> = counts.keys().map(|(_, resolution, _)| resolution.number().into()).collect();
    let buckets: Vec<i64> = counts.keys().map(|(_, _, bucket)| *bucket).collect();
    let numbers: Vec<i64> = counts.values().copied().collect();
    let statement = db.prepare_cached(WRITE).await.map_err(read_error)?;
    db.execute(&statement, &[&groups, &resolutions, &buckets, &numbers]).await.map(drop).map_err(read_error)
}

/// Forgets buckets that are older than what is kept.
pub(super) async fn prune(client: &Client, now: Timestamp) -> Result<(), StoreError> {
    for resolution in Resolution::ALL {
        let sql = "DELETE FROM trend USING groups g
                    WHERE trend.group_id = g.id AND trend.resolution = $1 AND trend.bucket < $2";
        client
            .execute(sql, &[&i16::from(resolution.number()), &resolution.oldest(now)])
            .await
            .map_err(read_error)?;
    }
    Ok(())
}

/// The windows of heads with their members, in the order given.
pub(super) async fn of_groups(
    db: &Transaction<'_>,
    ids: &[GroupId],
    window: Window,
) -> Result<Vec<Vec<u64>>, StoreError> {
    let heads = heads_of(db, ids).await?;
    let uids: Vec<uuid::Uuid> = heads.values().map(|head| head.0).collect();
    let sql = "SELECT coalesce(g.merged_into, g.uid), t.bucket, sum(t.n)::bigint FROM groups g
                 JOIN trend t ON t.group_id = g.id AND t.resolution = $2 AND t.bucket >= $3 AND t.bucket < $4
                WHERE g.uid = ANY($1) OR g.merged_into = ANY($1) GROUP BY 1, 2";
    let found = db
        .query(sql, &[&uids, &i16::from(window.resolution.number()), &window.from, &window.end()])
        .await
        .map_err(read_error)?;
    let mut counts: HashMap<GroupId, Vec<u64>> = HashMap::new();
    for row in &found {
        let row_of = counts.entry(GroupId(row.get(0))).or_insert_with(|| vec![0; window.buckets]);
        add(row_of, window, row.get(1), row.get(2));
    }
    let of = |id: &GroupId| heads.get(id).and_then(|head| counts.get(head)).cloned();
    Ok(ids.iter().map(|id| of(id).unwrap_or_else(|| vec![0; window.buckets])).collect())
}

pub(super) async fn by_class(
    db: &Transaction<'_>,
    source: Option<&str>,
    window: Window,
) -> Result<Vec<ClassTrend>, StoreError> {
    let sql = "SELECT g.error_class, t.bucket, sum(t.n)::bigint FROM groups g
                 JOIN trend t ON t.group_id = g.id AND t.resolution = $2 AND t.bucket >= $3 AND t.bucket < $4
                WHERE $1::text IS NULL OR g.source = $1 GROUP BY 1, 2";
    let found = db
        .query(
            sql,
            &[&source.map(escape), &i16::from(window.resolution.number()), &window.from, &window.end()],
        )
        .await
        .map_err(read_error)?;
    let mut classes: BTreeMap<Option<String>, Vec<u64>> = BTreeMap::new();
    for row in &found {
        let class = classes.entry(rows::maybe_text(row, 0)).or_insert_with(|| vec![0; window.buckets]);
        add(class, window, row.get(1), row.get(2));
    }
    Ok(stacked(classes, window.buckets))
}

fn add(counts: &mut [u64], window: Window, bucket: i64, n: i64) {
    if let Some(count) = window.index(bucket).and_then(|at| counts.get_mut(at)) {
        *count += u64::try_from(n).unwrap_or(0);
    }
}
