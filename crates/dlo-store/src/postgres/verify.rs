//! Conservation: every letter counted anew, in one snapshot, and held against what is kept at write time.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use dlo_core::group::StatusCounts;
use dlo_core::letter::Status;

use super::rows::{self, GroupRow};
use super::{groups, read_error, replays, triage};
use crate::{SourceVerification, StoreError, Verification};

pub(super) async fn verify(snapshot: &Transaction<'_>) -> Result<Verification, StoreError> {
    let mut problems = Vec::new();
    let found = counted(snapshot, &mut problems).await?;
    let kept = groups::all(snapshot).await?;
    for (row, counts) in found.iter().filter(|(row, _)| !kept.contains_key(*row)) {
        problems.push(format!("{} letters point to group {row}, which is not there", counts.total()));
    }
    let mut sources: BTreeMap<String, SourceVerification> = captured(snapshot).await?;
    for (row, group) in &kept {
        let counted = found.get(row).copied().unwrap_or_default();
        if counted != group.counts {
            let (kept, there) = (group.counts.total(), counted.total());
            problems.push(format!("group {}: {kept} letters are counted, {there} are there", group.id));
        }
        if let Some(source) = sources.get_mut(&group.source) {
            source.counted.merge(&counted);
        }
    }
    for source in sources.values().filter(|source| source.captured != source.counted.total()) {
        let (name, captured, counted) = (&source.source, source.captured, source.counted.total());
        problems.push(format!("source {name}: {captured} letters were captured, {counted} are there"));
    }
    problems.extend(orphans(snapshot).await?);
    problems.extend(replays::problems(snapshot).await?);
    problems.extend(triage::problems(snapshot).await?);
    let letters = found.values().map(StatusCounts::total).sum();
    Ok(Verification { letters, sources: sources.into_values().collect(), problems })
}

async fn counted(
    snapshot: &Transaction<'_>,
    problems: &mut Vec<String>,
) -> Result<BTreeMap<GroupRow, StatusCounts>, StoreError> {
    let sql = "SELECT group_id, status, count(*) FROM letters GROUP BY group_id, status";
    let mut found: BTreeMap<GroupRow, StatusCounts> = BTreeMap::new();
    for row in snapshot.query(sql, &[]).await.map_err(read_error)? {
        let (status, n): (i16, i64) = (row.get(1), row.get(2));
        match u8::try_from(status).ok().and_then(Status::from_number) {
            Some(status) => found.entry(row.get(0)).or_default().add(status, n as u64),
            None => problems.push(format!("{n} letters have the unknown status {status}")),
        }
    }
    Ok(found)
}

async fn captured(snapshot: &Transaction<'_>) -> Result<BTreeMap<String, SourceVerification>, StoreError> {
    let sql = "SELECT name, sum(captured)::bigint FROM sources GROUP BY name";
    let mut sources = BTreeMap::new();
    for row in snapshot.query(sql, &[]).await.map_err(read_error)? {
        let source = rows::text(&row, 0);
        let captured = rows::number(row.get(1), "sources.captured")?;
        let counted = StatusCounts::default();
        sources.insert(source.clone(), SourceVerification { source, captured, counted });
    }
    Ok(sources)
}

/// Letters without their block, and recognised deaths without their letter.
async fn orphans(snapshot: &Transaction<'_>) -> Result<Vec<String>, StoreError> {
    let sql = "SELECT (SELECT count(*) FROM (SELECT DISTINCT block FROM letters) l
                        WHERE NOT EXISTS (SELECT FROM blocks b WHERE b.id = l.block)),
                      (SELECT count(*) FROM origins o WHERE NOT EXISTS (SELECT FROM letters l WHERE l.id = o.letter))";
    let row = snapshot.query_one(sql, &[]).await.map_err(read_error)?;
    let (blocks, origins): (i64, i64) = (row.get(0), row.get(1));
    let mut problems = Vec::new();
    if blocks > 0 {
        problems.push(format!("{blocks} payload blocks are missing"));
    }
    if origins > 0 {
        problems.push(format!("{origins} recognised deaths have no letter"));
    }
    Ok(problems)
}
