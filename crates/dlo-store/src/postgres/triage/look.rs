//! Looking at groups: tallies, ages, likeness, samples, and what must hold.

use std::collections::HashMap;
use std::time::Duration;

use deadpool_postgres::Transaction;
use dlo_core::group::{Group, Similar, similar};
use dlo_core::id::GroupId;
use dlo_core::letter::Status;
use dlo_core::limits;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::sample::LOOKED_INTO;
use dlo_core::time::Timestamp;

use super::super::text::escape;
use super::super::{groups, read, read_error, rows, search};
use super::changes::heads_of;
use crate::StoreError;
use crate::block::Block;
use crate::place::Place;
use crate::triage::{AGE_HOURS, AgeCount, CHECKS, GroupTally, Sampled};

pub(super) async fn tally(db: &Transaction<'_>, assignee: Option<&str>) -> Result<GroupTally, StoreError> {
    let sql = "SELECT h.status, count(*), count(*) FILTER (WHERE h.owner IS NULL),
                      count(*) FILTER (WHERE h.assignee = $2)
                 FROM (SELECT coalesce(g.merged_into, g.uid) AS head FROM counts c JOIN groups g ON g.id = c.group_id
                        WHERE c.status = $1 GROUP BY 1 HAVING sum(c.n) > 0) o
                 JOIN groups h ON h.uid = o.head GROUP BY h.status";
    let open = i16::from(Status::Open.number());
    let mut tally = GroupTally::default();
    for row in db.query(sql, &[&open, &assignee.map(escape)]).await.map_err(read_error)? {
        let status = rows::group_status(row.get(0))?;
        let number = |column: usize| rows::number(row.get(column), "groups");
        tally.add_heads(status, number(1)?, number(2)?, number(3)?);
    }
    Ok(tally)
}

pub(super) async fn oldest_open(
    db: &Transaction<'_>,
    ids: &[GroupId],
) -> Result<Vec<Option<Timestamp>>, StoreError> {
    let heads = heads_of(db, ids).await?;
    let uids: Vec<uuid::Uuid> = heads.values().map(|head| head.0).collect();
    let oldest = groups::oldest_open(db, Some(&uids)).await?;
    Ok(ids.iter().map(|id| heads.get(id).and_then(|head| oldest.get(head)).copied()).collect())
}

pub(super) async fn similar_groups(
    db: &Transaction<'_>,
    id: GroupId,
) -> Result<Vec<(Group, Similar)>, StoreError> {
    let asked = groups::one(db, id).await?;
    let found = similar(&asked, &groups::all_named(db).await?);
    let uids: Vec<uuid::Uuid> = found.iter().map(|like| like.id.0).collect();
    let mut heads = groups::of_heads(db, &uids).await?;
    Ok(found.into_iter().filter_map(|like| heads.remove(&like.id).map(|group| (group, like))).collect())
}

pub(super) async fn open_ages(db: &Transaction<'_>, now: Timestamp) -> Result<Vec<AgeCount>, StoreError> {
    let sql = "SELECT count(*) FROM letters WHERE status = $1 AND place >= $2 AND place < $3";
    let open = i16::from(Status::Open.number());
    let mut ages = Vec::with_capacity(AGE_HOURS.len() + 1);
    let mut high = Place::END;
    let ranges = AGE_HOURS.iter().map(|hours| Some(Duration::from_secs(hours * 60 * 60))).chain([None]);
    for younger_than in ranges {
        let low = younger_than.map_or(Place(0), |age| Place::from(now.minus(age)));
        let row = db.query_one(sql, &[&open, &low.0, &high.0]).await.map_err(read_error)?;
        ages.push(AgeCount { younger_than, count: u64::try_from(row.get::<_, i64>(0)).unwrap_or(0) });
        high = low;
    }
    Ok(ages)
}

pub(super) async fn sample(
    db: &Transaction<'_>,
    id: GroupId,
    most: usize,
) -> Result<Vec<Sampled>, StoreError> {
    let head = groups::family(db, id).await?.first().map_or(id, |(_, group)| group.id);
    let query = Query { terms: vec![Term { negated: false, matcher: Matcher::Group(head) }] };
    let found = search::newest(db, &query, most.min(limits::SAMPLE)).await?;
    let mut blocks: HashMap<i64, Block> = HashMap::new();
    let mut sampled = Vec::with_capacity(found.len());
    for found in found {
        let mut payload = bytes::Bytes::new();
        if found.letter.payload_size <= LOOKED_INTO as u64 {
            let held = read::held(&mut blocks, db, found.block).await;
            payload = match held.and_then(|block| block.payload(found.slot)) {
                // What cannot be read must not hide the others: its payload comes empty, as a large one does.
                Err(StoreError::Unreadable(_)) => payload,
                payload => payload?,
            };
        }
        sampled.push(Sampled { letter: found.letter.id, key: found.letter.key, payload });
    }
    Ok(sampled)
}

/// The heads of the groups that a query names, where they were merged.
pub(in super::super) async fn named_head(
    db: &Transaction<'_>,
    query: &Query,
) -> Result<HashMap<GroupId, GroupId>, StoreError> {
    let named = |term: &Term| match term.matcher {
        Matcher::Group(id) => Some(id),
        _ => None,
    };
    let ids: Vec<GroupId> = query.terms.iter().filter_map(named).collect();
    if ids.is_empty() { Ok(HashMap::new()) } else { heads_of(db, &ids).await }
}

pub(in super::super) async fn problems(db: &Transaction<'_>) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    for (sql, what) in CHECKS {
        let found: i64 = db.query_one(*sql, &[]).await.map_err(read_error)?.get(0);
        if found > 0 {
            problems.push(format!("{found} {what}"));
        }
    }
    Ok(problems)
}
