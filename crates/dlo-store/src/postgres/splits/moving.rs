//! Letters that were here before a split: moved newest first, a batch at a time, each in a transaction with all its numbers.
//!
//! A letter keeps its place for as long as it does not die again, and then it is sorted anew; so a walk along the places from
//! the end to the beginning passes every letter that was here, and where it stands is one number in `splits`. That
//! row is locked for the batch: of several servers one moves, and whoever takes the split back waits for it.

use std::collections::{BTreeSet, HashMap};

use deadpool_postgres::Transaction;
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;

use super::super::read_error;
use super::super::rows::{self, Found, GroupRow};
use super::super::streams::Stream;
use super::super::tally::Tally;
use super::sort;
use crate::StoreError;
use crate::place::{Place, Range};
use crate::triage::BATCH;
use crate::triage::rules::{self, Rule};

/// Moves the next letters of the oldest split that is not done and in nobody's hand; `false`: there is none.
pub(super) async fn batch(db: &Transaction<'_>, now: Timestamp) -> Result<bool, StoreError> {
    let sql = "SELECT number, group_id, next FROM splits WHERE next IS NOT NULL ORDER BY number LIMIT 1
               FOR UPDATE SKIP LOCKED";
    let Some(job) = db.query_opt(sql, &[]).await.map_err(read_error)? else { return Ok(false) };
    let (number, base): (i64, GroupRow) = (job.get(0), job.get(1));
    let rules = sort::of_rows(db, &[base]).await?.remove(&base).unwrap_or_default();
    let (groups, statuses) = pairs(db, base).await?;
    let range = Range { low: Place::from(Timestamp::EPOCH), high: Place(job.get(2)) };
    let found = Stream::Pairs(groups, statuses).next(db, range, BATCH as i64).await?;
    let rest = found.last().filter(|_| found.len() == BATCH).map(|last| last.place.0);
    let going = decide(db, &rules, found).await?;
    let changed = go(db, &going, now).await?;
    db.execute("UPDATE splits SET next = $2 WHERE number = $1", &[&number, &rest])
        .await
        .map_err(read_error)?;
    for row in changed {
        see(db, row).await?;
    }
    Ok(true)
}

/// The group itself, and those that were split off it and joined it again, whose letters are its own; each with every status.
async fn pairs(db: &Transaction<'_>, base: GroupRow) -> Result<(Vec<GroupRow>, Vec<i16>), StoreError> {
    let sql = "SELECT g.id FROM groups g, groups b
                WHERE b.id = $1 AND (g.id = b.id
                   OR g.split_from = b.uid AND coalesce(g.merged_into, g.uid) = coalesce(b.merged_into, b.uid)
                      AND NOT EXISTS (SELECT 1 FROM splits s WHERE s.split_id = g.id))";
    let found = db.query(sql, &[&base]).await.map_err(read_error)?;
    let each = found.iter().flat_map(|row| Status::ALL.iter().map(move |status| (row, status)));
    Ok(each.map(|(row, status)| (row.get::<_, GroupRow>(0), i16::from(status.number()))).unzip())
}

/// Where each of these letters goes, as far as one does, by its place.
async fn decide(
    db: &Transaction<'_>,
    rules: &[Rule],
    found: Vec<Found>,
) -> Result<HashMap<i64, GroupRow>, StoreError> {
    let mut blocks = HashMap::new();
    let mut going = HashMap::new();
    for found in found {
        let asked = rules::needs_block(rules, &found.letter);
        let cold = if asked { sort::cold(db, &mut blocks, &found).await? } else { None };
        if let Some(target) = rules::target(rules, &found.letter, cold.as_ref()) {
            going.insert(found.place.0, target);
        }
    }
    Ok(going)
}

/// Moves letters, locked in the order of their ids as everybody locks them; one that died again meanwhile stands elsewhere and
/// is passed over. Returns the groups whose letters are others now.
async fn go(
    db: &Transaction<'_>,
    going: &HashMap<i64, GroupRow>,
    now: Timestamp,
) -> Result<BTreeSet<GroupRow>, StoreError> {
    let mut changed = BTreeSet::new();
    if going.is_empty() {
        return Ok(changed);
    }
    let places: Vec<i64> = going.keys().copied().collect();
    let sql =
        "SELECT place, group_id, status, failed_at FROM letters WHERE place = ANY($1) ORDER BY id FOR UPDATE";
    let mut tally = Tally::default();
    let (mut moved, mut targets) = (Vec::new(), Vec::new());
    for row in db.query(sql, &[&places]).await.map_err(read_error)? {
        let (place, from): (i64, GroupRow) = (row.get(0), row.get(1));
        let Some(target) = going.get(&place).copied().filter(|target| *target != from) else { continue };
        tally.went(from, target, rows::status(row.get(2))?, Timestamp::from_micros(row.get(3)));
        moved.push(place);
        targets.push(target);
        changed.extend([from, target]);
    }
    let sql = "UPDATE letters l SET group_id = t.target FROM UNNEST($1::bigint[], $2::bigint[]) AS t (place, target)
                WHERE l.place = t.place";
    db.execute(sql, &[&moved, &targets]).await.map_err(read_error)?;
    tally.write(db, now).await?;
    Ok(changed)
}

/// First and last seen by the letters that the group has now; one without letters keeps what it had. What was written is taken
/// away before the letters are looked at: a batch that is changing it is waited for, and its letters are seen; what a
/// batch writes meanwhile stays.
async fn see(db: &Transaction<'_>, group: GroupRow) -> Result<(), StoreError> {
    let sql = "DELETE FROM seen WHERE group_id = $1 RETURNING first_seen, last_seen";
    let before = db.query(sql, &[&group]).await.map_err(read_error)?;
    let statuses: Vec<i16> = Status::ALL.iter().map(|status| status.number().into()).collect();
    let sql = "SELECT min(l.failed_at), max(l.failed_at) FROM UNNEST($2::smallint[]) AS s (status) CROSS JOIN LATERAL
        ((SELECT failed_at FROM letters WHERE group_id = $1 AND status = s.status ORDER BY place LIMIT 1) UNION ALL
         (SELECT failed_at FROM letters WHERE group_id = $1 AND status = s.status ORDER BY place DESC LIMIT 1)) l";
    let ends = db.query_one(sql, &[&group, &statuses]).await.map_err(read_error)?;
    let first = ends.get::<_, Option<i64>>(0).or_else(|| before.iter().map(|row| row.get(0)).min());
    let last = ends.get::<_, Option<i64>>(1).or_else(|| before.iter().map(|row| row.get(1)).max());
    let (Some(first), Some(last)) = (first, last) else { return Ok(()) };
    let sql =
        "INSERT INTO seen VALUES ($1, pg_backend_pid() % 8, $2, $3) ON CONFLICT (group_id, shard) DO UPDATE
               SET first_seen = least(seen.first_seen, excluded.first_seen),
                   last_seen = greatest(seen.last_seen, excluded.last_seen)";
    db.execute(sql, &[&group, &first, &last]).await.map_err(read_error)?;
    Ok(())
}
