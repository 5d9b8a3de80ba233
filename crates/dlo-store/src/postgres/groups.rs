//! Groups and numbers: what is kept at write time, summed over its shards.

use std::collections::{BTreeMap, HashMap, HashSet};

use deadpool_postgres::Transaction;
use dlo_core::group::{Group, StatusCounts};
use dlo_core::id::GroupId;
use dlo_core::letter::Status;
use dlo_core::query::complete::Known;
use dlo_core::query::{Named, ShownBy};
use dlo_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::rows::{self, GROUP, GROUP_COLUMNS, GroupRow};
use super::text::escape;
use super::{index, read_error};
use crate::names::Names;
use crate::place::Place;
use crate::triage::{GroupOrder, Listed, cursor_of, from_cursor, holds, is_named, order_key};
use crate::{CauseCount, GroupFilter, GroupPage, Page, SourceStats, Stats, StoreError};

/// First and last seen of each group.
const SEEN: &str = "(SELECT group_id, min(first_seen) AS first_seen, max(last_seen) AS last_seen
    FROM seen GROUP BY group_id) s ON s.group_id = g.id";

pub(super) async fn page(
    db: &Transaction<'_>,
    filter: &GroupFilter,
    page: &Page,
) -> Result<GroupPage, StoreError> {
    let before = page.cursor.as_ref().map(|cursor| from_cursor(filter.order, cursor)).transpose()?;
    let aged = filter.order == GroupOrder::OldestOpen || filter.open_since.is_some();
    let oldest = if aged { oldest_open(db, None).await? } else { HashMap::new() };
    let young = |id: GroupId| {
        filter.open_since.is_some_and(|before| oldest.get(&id).is_none_or(|oldest| *oldest >= before))
    };
    let all = all(db).await?;
    let named: HashSet<GroupId> =
        all.values().filter(|group| is_named(filter, group)).map(Group::head).collect();
    let mut listed: Vec<(Listed, Group)> = heads(all)
        .into_values()
        .filter(|group| named.contains(&group.id))
        .filter(|group| holds(filter, group) && !young(group.id))
        .filter_map(|group| {
            let key = order_key(filter.order, &group, oldest.get(&group.id).copied())?;
            Some(((key, group.id), group))
        })
        .filter(|(place, _)| before.is_none_or(|before| *place < before))
        .collect();
    listed.sort_unstable_by(|(one, _), (other, _)| other.cmp(one));
    let more = listed.len() > page.limit;
    listed.truncate(page.limit);
    let next = listed.last().filter(|_| more).map(|(place, _)| cursor_of(filter.order, *place));
    Ok(GroupPage { groups: listed.into_iter().map(|(_, group)| group).collect(), next })
}

/// The heads among these groups with the numbers of their members.
fn heads(groups: BTreeMap<GroupRow, Group>) -> HashMap<GroupId, Group> {
    let (members, heads): (Vec<Group>, Vec<Group>) =
        groups.into_values().partition(|group| group.merged_into.is_some());
    let mut heads: HashMap<GroupId, Group> = heads.into_iter().map(|group| (group.id, group)).collect();
    for member in members {
        if let Some(head) = heads.get_mut(&member.head()) {
            head.take_in(&member);
        }
    }
    heads
}

/// These heads with the numbers of their members.
pub(super) async fn of_heads(
    db: &Transaction<'_>,
    uids: &[Uuid],
) -> Result<HashMap<GroupId, Group>, StoreError> {
    let sql = format!(
        "SELECT {GROUP}, s.first_seen, s.last_seen FROM groups g
           JOIN LATERAL (SELECT coalesce(min(first_seen), 0), coalesce(max(last_seen), 0) FROM seen
                          WHERE group_id = g.id) s (first_seen, last_seen) ON true
          WHERE g.uid = ANY($1) OR g.merged_into = ANY($1)"
    );
    let found = db.query(&sql, &[&uids]).await.map_err(read_error)?;
    Ok(heads(with_counts(db, &found).await?.into_iter().collect()))
}

/// These groups, each with its own numbers.
pub(super) async fn of_rows(
    db: &Transaction<'_>,
    rows: &[GroupRow],
) -> Result<HashMap<GroupRow, Group>, StoreError> {
    let sql =
        format!("SELECT {GROUP}, s.first_seen, s.last_seen FROM groups g JOIN {SEEN} WHERE g.id = ANY($1)");
    let found = db.query(&sql, &[&rows]).await.map_err(read_error)?;
    Ok(with_counts(db, &found).await?.into_iter().collect())
}

/// Every head by its words alone: numbers are not read.
pub(super) async fn all_named(db: &Transaction<'_>) -> Result<Vec<Group>, StoreError> {
    let sql = format!("SELECT {GROUP} FROM groups g WHERE g.merged_into IS NULL");
    let found = db.query(&sql, &[]).await.map_err(read_error)?;
    found.iter().map(|row| rows::group(row).map(|(_, group)| group)).collect()
}

/// When the oldest open letter of each of these heads, or of all, failed.
pub(super) async fn oldest_open(
    db: &Transaction<'_>,
    heads: Option<&[Uuid]>,
) -> Result<HashMap<GroupId, Timestamp>, StoreError> {
    let sql = "SELECT coalesce(g.merged_into, g.uid), min(l.place) FROM groups g
                CROSS JOIN LATERAL (SELECT place FROM letters WHERE group_id = g.id AND status = $1
                                     ORDER BY place LIMIT 1) l
                WHERE $2::uuid[] IS NULL OR coalesce(g.merged_into, g.uid) = ANY($2) GROUP BY 1";
    let found = db.query(sql, &[&i16::from(Status::Open.number()), &heads]).await.map_err(read_error)?;
    Ok(found.iter().map(|row| (GroupId(row.get(0)), Place(row.get(1)).time())).collect())
}

/// A group, or the head that speaks for it, with the numbers of its members.
pub(super) async fn one(db: &Transaction<'_>, id: GroupId) -> Result<Group, StoreError> {
    let family = family(db, id).await?;
    let mut family = family.into_iter().map(|(_, group)| group);
    let mut head = family.next().ok_or(StoreError::NoGroup(id))?;
    family.for_each(|member| head.take_in(&member));
    Ok(head)
}

/// The head that speaks for a group and its members, each with its own numbers; the head comes first.
pub(super) async fn family(db: &Transaction<'_>, id: GroupId) -> Result<Vec<(GroupRow, Group)>, StoreError> {
    let sql = format!(
        "SELECT {GROUP}, coalesce((SELECT min(first_seen) FROM seen WHERE group_id = g.id), 0),
                coalesce((SELECT max(last_seen) FROM seen WHERE group_id = g.id), 0)
           FROM groups g, (SELECT coalesce(merged_into, uid) AS head FROM groups WHERE uid = $1) h
          WHERE g.uid = h.head OR g.merged_into = h.head ORDER BY g.merged_into NULLS FIRST, g.id"
    );
    let found = db.query(&sql, &[&id.0]).await.map_err(read_error)?;
    if found.is_empty() {
        return Err(StoreError::NoGroup(id));
    }
    with_counts(db, &found).await
}

/// Every group, whole. Bounded by the cap of groups per source.
pub(super) async fn all(db: &Transaction<'_>) -> Result<BTreeMap<GroupRow, Group>, StoreError> {
    let sql = format!("SELECT {GROUP}, s.first_seen, s.last_seen FROM groups g JOIN {SEEN}");
    let found = db.query(&sql, &[]).await.map_err(read_error)?;
    Ok(with_counts(db, &found).await?.into_iter().collect())
}

/// Groups read with first and last seen behind their columns, and their counts.
async fn with_counts(db: &Transaction<'_>, found: &[Row]) -> Result<Vec<(GroupRow, Group)>, StoreError> {
    let ids: Vec<GroupRow> = found.iter().map(|row| row.get(0)).collect();
    let mut counts = counts(db, &ids).await?;
    let mut groups = Vec::with_capacity(found.len());
    for row in found {
        let (id, mut group) = rows::group(row)?;
        group.first_seen = Timestamp::from_micros(row.get(GROUP_COLUMNS));
        group.last_seen = Timestamp::from_micros(row.get(GROUP_COLUMNS + 1));
        group.counts = counts.remove(&id).unwrap_or_default();
        groups.push((id, group));
    }
    Ok(groups)
}

/// The counts of these groups, without zeros.
async fn counts(
    db: &Transaction<'_>,
    groups: &[GroupRow],
) -> Result<BTreeMap<GroupRow, StatusCounts>, StoreError> {
    let sql = "SELECT group_id, status, sum(n)::bigint FROM counts WHERE group_id = ANY($1)
                GROUP BY group_id, status HAVING sum(n) <> 0";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let mut counts: BTreeMap<GroupRow, StatusCounts> = BTreeMap::new();
    for row in db.query(&statement, &[&groups]).await.map_err(read_error)? {
        let (status, n) = (rows::status(row.get(1))?, rows::number(row.get(2), "counts.n")?);
        counts.entry(row.get(0)).or_default().set(status, n);
    }
    Ok(counts)
}

pub(super) async fn causes(
    db: &Transaction<'_>,
    source: Option<&str>,
) -> Result<Vec<CauseCount>, StoreError> {
    let sql = "SELECT g.event_type, g.error_class, c.status, sum(c.n)::bigint
                 FROM counts c JOIN groups g ON g.id = c.group_id WHERE $1::text IS NULL OR g.source = $1
                GROUP BY g.event_type, g.error_class, c.status HAVING sum(c.n) > 0";
    let found = db.query(sql, &[&source.map(escape)]).await.map_err(read_error)?;
    let mut causes: BTreeMap<(Option<String>, Option<String>), StatusCounts> = BTreeMap::new();
    for row in &found {
        let counts = causes.entry((rows::maybe_text(row, 0), rows::maybe_text(row, 1))).or_default();
        counts.set(rows::status(row.get(2))?, rows::number(row.get(3), "counts.n")?);
    }
    let cause = |((event_type, error_class), counts)| CauseCount { event_type, error_class, counts };
    Ok(causes.into_iter().map(cause).collect())
}

pub(super) async fn names(
    db: &Transaction<'_>,
    named: &[Named],
    typed: &str,
    shown_by: Option<&ShownBy>,
    most: usize,
) -> Result<Vec<Known>, StoreError> {
    let mut names = Names::new(typed);
    for named in named {
        let column = match named {
            Named::Source => "g.source",
            // An overflow group speaks for many queues and names none.
            Named::Queue => "CASE WHEN g.overflow THEN NULL ELSE g.queue END",
            Named::Type => "g.event_type",
            Named::Class => "g.error_class",
            Named::Consumer => "g.consumer",
            Named::Owner => "g.owner",
        };
        let sql = format!(
            "SELECT {column}, coalesce(sum(c.n) FILTER (WHERE c.status = $1), 0)::bigint
               FROM groups g JOIN counts c ON c.group_id = g.id GROUP BY 1 HAVING sum(c.n) > 0"
        );
        for row in db.query(&sql, &[&i16::from(Status::Open.number())]).await.map_err(read_error)? {
            if let Some(name) = rows::maybe_text(&row, 0) {
                names.seen(*named, name, rows::number(row.get(1), "counts.n")?);
            }
        }
    }
    Ok(names.best(shown_by, most))
}

pub(super) async fn stats(db: &Transaction<'_>) -> Result<Stats, StoreError> {
    let mut sources = sources(db).await?;
    let sql = "SELECT g.source, c.status, sum(c.n)::bigint,
                      coalesce(sum(c.n) FILTER (WHERE g.owner IS NULL), 0)::bigint
                 FROM counts c JOIN groups g ON g.id = c.group_id GROUP BY g.source, c.status";
    let mut letters = StatusCounts::default();
    let mut unowned = 0;
    for row in db.query(sql, &[]).await.map_err(read_error)? {
        let (status, n) = (rows::status(row.get(1))?, rows::number(row.get(2), "counts.n")?);
        letters.add(status, n);
        if status == Status::Open {
            unowned += rows::number::<u64>(row.get(3), "counts.n")?;
        }
        if let Some(source) = sources.get_mut(&rows::text(&row, 0)) {
            source.counts.add(status, n);
        }
    }
    let unindexed = index::waiting(db).await?;
    let merged = "SELECT count(*) FROM groups WHERE merged_into IS NOT NULL";
    let merged: i64 = db.query_one(merged, &[]).await.map_err(read_error)?.get(0);
    let groups: u64 = sources.values().map(|source| source.groups).sum();
    let groups = groups.saturating_sub(u64::try_from(merged).unwrap_or(0));
    Ok(Stats { letters, groups, unowned, unindexed, sources: sources.into_values().collect() })
}

/// Each source with what it captured, its groups and its oldest open letter; counts follow.
async fn sources(db: &Transaction<'_>) -> Result<BTreeMap<String, SourceStats>, StoreError> {
    let sql = "
        SELECT s.name, sum(s.captured)::bigint, sum(s.deaths)::bigint, max(s.last_captured),
               (SELECT count(*) FROM groups g WHERE g.source = s.name),
               (SELECT min(l.failed_at) FROM groups g
                 CROSS JOIN LATERAL (SELECT failed_at FROM letters WHERE group_id = g.id AND status = $1
                                      ORDER BY place LIMIT 1) l
                 WHERE g.source = s.name)
          FROM sources s GROUP BY s.name";
    let mut sources = BTreeMap::new();
    for row in db.query(sql, &[&i16::from(Status::Open.number())]).await.map_err(read_error)? {
        let source = SourceStats {
            source: rows::text(&row, 0),
            captured: rows::number(row.get(1), "sources.captured")?,
            deaths: rows::number(row.get(2), "sources.deaths")?,
            counts: StatusCounts::default(),
            groups: rows::number(row.get(4), "groups")?,
            oldest_open: row.get::<_, Option<i64>>(5).map(Timestamp::from_micros),
            last_captured: row.get::<_, Option<i64>>(3).map(Timestamp::from_micros),
        };
        sources.insert(source.source.clone(), source);
    }
    Ok(sources)
}
