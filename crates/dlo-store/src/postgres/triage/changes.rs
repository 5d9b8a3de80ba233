//! Changes of groups by people, and what letters that arrive make of them.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Transaction;
use dlo_core::group::{Arrival, Change, Group, GroupStatus, Illegal, Life};
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use uuid::Uuid;

use super::super::rows::{self, GROUP, GroupRow};
use super::super::text::escape_option;
use super::super::{audit, groups, read_error};
use crate::triage::Changed;
use crate::{Deed, StoreError};

pub(super) async fn change(
    db: &Transaction<'_>,
    ids: &[GroupId],
    change: &Change,
    deed: &Deed,
    now: Timestamp,
) -> Result<Vec<Changed>, StoreError> {
    let heads = heads_of(db, ids).await?;
    let mut refused: HashMap<GroupId, (GroupStatus, Illegal)> = HashMap::new();
    let mut log = Vec::new();
    for (row, mut group) in lock_heads(db, heads.values()).await? {
        if let Err(why) = group.change(change, now) {
            refused.insert(group.id, (group.life.status, why));
            continue;
        }
        write_group(db, row, &group).await?;
        if let Change::Own { .. } = change {
            // Letters of members are found by the owner of their head.
            let sql = "UPDATE groups SET owner = $2, owner_by_hand = $3 WHERE merged_into = $1";
            db.execute(sql, &[&group.id.0, &escape_option(&group.owner), &group.owner_by_hand])
                .await
                .map_err(read_error)?;
        }
        log.push(audit::Row::of_group(now, change.deed(), group.id, deed, change.detail()));
    }
    audit::append(db, &log).await?;
    let uids: Vec<Uuid> = heads.values().map(|head| head.0).collect();
    let shown = groups::of_heads(db, &uids).await?;
    let result = |id: &GroupId| {
        let Some(head) = heads.get(id) else { return Changed::Missing };
        match (refused.get(head), shown.get(head)) {
            (Some((status, why)), _) => Changed::Illegal { status: *status, why: why.clone() },
            (None, Some(group)) => Changed::Changed(Box::new(group.clone())),
            (None, None) => Changed::Missing,
        }
    };
    Ok(ids.iter().map(result).collect())
}

/// The heads that speak for these groups, as far as they are here.
pub(super) async fn heads_of(
    db: &Transaction<'_>,
    ids: &[GroupId],
) -> Result<HashMap<GroupId, GroupId>, StoreError> {
    let uids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let sql = "SELECT uid, coalesce(merged_into, uid) FROM groups WHERE uid = ANY($1)";
    let found = db.query(sql, &[&uids]).await.map_err(read_error)?;
    Ok(found.iter().map(|row| (GroupId(row.get(0)), GroupId(row.get(1)))).collect())
}

/// Groups without their numbers, locked against letters that would change them.
async fn lock_heads(
    db: &Transaction<'_>,
    heads: impl Iterator<Item = &GroupId>,
) -> Result<Vec<(GroupRow, Group)>, StoreError> {
    let uids: Vec<Uuid> = heads.map(|id| id.0).collect();
    let sql = format!("SELECT {GROUP} FROM groups g WHERE g.uid = ANY($1) ORDER BY g.id FOR UPDATE");
    let found = db.query(&sql, &[&uids]).await.map_err(read_error)?;
    found.iter().map(rows::group).collect()
}

/// Writes the part of a group that people change.
pub(in super::super) async fn write_group(
    db: &Transaction<'_>,
    row: GroupRow,
    group: &Group,
) -> Result<(), StoreError> {
    let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    let (life, snooze) = (&group.life, group.life.snooze);
    let sql =
        "UPDATE groups SET status = $2, since = $3, resolved_in = $4, regressed_at = $5, snooze_until = $6,
                      snooze_letters = $7, snooze_from = $8, owner = $9, owner_by_hand = $10, assignee = $11,
                      merged_into = $12 WHERE id = $1";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(
        &statement,
        &[
            &row,
            &i16::from(life.status.number()),
            &micros(life.since),
            &escape_option(&life.resolved_in),
            &micros(life.regressed_at),
            &micros(snooze.and_then(|snooze| snooze.until)),
            &snooze.and_then(|snooze| snooze.letters).map(|left| i64::try_from(left).unwrap_or(i64::MAX)),
            &snooze.map(|snooze| i16::from(snooze.from.number())),
            &escape_option(&group.owner),
            &group.owner_by_hand,
            &escape_option(&group.assignee),
            &group.merged_into.map(|head| head.0),
        ],
    )
    .await
    .map(drop)
    .map_err(read_error)
}

/// For each letter that arrived, by group: the version of its consumer, and when it failed.
pub(in super::super) type Arrivals = BTreeMap<GroupRow, Vec<(Option<String>, Timestamp)>>;

/// Only heads that letters can change are locked: those that are resolved, or snoozed until letters came. A storm into any
/// other group, also one that sleeps until a date, touches no row of `groups`.
pub(in super::super) async fn arrive(
    db: &Transaction<'_>,
    arrivals: &Arrivals,
    now: Timestamp,
) -> Result<(), StoreError> {
    let rows: Vec<GroupRow> = arrivals.keys().copied().collect();
    let [resolved, snoozed] =
        [GroupStatus::Resolved, GroupStatus::Snoozed].map(|status| i16::from(status.number()));
    let sql = format!(
        "SELECT {GROUP}, m.id FROM groups m JOIN groups g ON g.uid = coalesce(m.merged_into, m.uid)
          WHERE m.id = ANY($1)
            AND (g.status = $2 OR g.status = $3 AND (g.snooze_letters IS NOT NULL OR g.snooze_until <= $4))
          ORDER BY g.id, m.id FOR UPDATE OF g"
    );
    let statement = db.prepare_cached(&sql).await.map_err(read_error)?;
    let found =
        db.query(&statement, &[&rows, &resolved, &snoozed, &now.as_micros()]).await.map_err(read_error)?;
    let mut heads: BTreeMap<GroupRow, (Group, Life)> = BTreeMap::new();
    let mut log = Vec::new();
    for row in &found {
        let (id, head) = rows::group(row)?;
        let (head, _) = heads.entry(id).or_insert_with(|| (head.clone(), head.life));
        let member: GroupRow = row.get(rows::GROUP_COLUMNS);
        for (version, failed_at) in arrivals.get(&member).into_iter().flatten() {
            let letter = Arrival { version: version.as_deref(), failed_at: *failed_at };
            if let Some(deed) = head.life.arrive(letter, now) {
                log.push(audit::Row::by_office(now, deed, head.id, None));
            }
        }
    }
    for (row, (head, _)) in heads.iter().filter(|(_, (head, before))| head.life != *before) {
        write_group(db, *row, head).await?;
    }
    audit::append(db, &log).await
}

/// Wakes what has slept long enough; returns how many.
pub(super) async fn wake(db: &Transaction<'_>, now: Timestamp) -> Result<u64, StoreError> {
    let sql = format!(
        "SELECT {GROUP} FROM groups g
          WHERE g.status = $1 AND g.merged_into IS NULL AND (g.snooze_until <= $2 OR g.snooze_letters = 0)
          ORDER BY g.id FOR UPDATE"
    );
    let snoozed = i16::from(GroupStatus::Snoozed.number());
    let found = db.query(&sql, &[&snoozed, &now.as_micros()]).await.map_err(read_error)?;
    let mut log = Vec::new();
    for row in &found {
        let (id, mut group) = rows::group(row)?;
        if let Some(deed) = group.life.wake(now) {
            write_group(db, id, &group).await?;
            log.push(audit::Row::by_office(now, deed, group.id, None));
        }
    }
    audit::append(db, &log).await?;
    Ok(log.len() as u64)
}
