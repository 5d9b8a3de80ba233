//! Runbooks: one text per group, replaced by whoever has read the latest version.

use deadpool_postgres::Transaction;
use dlo_core::group::GroupDeed;
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use tokio_postgres::Row;

use super::super::rows::{self, GroupRow};
use super::super::text::escape;
use super::super::{audit, groups, read_error};
use crate::triage::Runbook;
use crate::{Deed, StoreError};

/// The head's own, else the one of its members that was written last. Where the head's was taken away, there is none.
pub(super) async fn read(db: &Transaction<'_>, id: GroupId) -> Result<Option<Runbook>, StoreError> {
    let family: Vec<GroupRow> = groups::family(db, id).await?.iter().map(|(row, _)| *row).collect();
    shown(db, &family).await
}

async fn shown(db: &Transaction<'_>, family: &[GroupRow]) -> Result<Option<Runbook>, StoreError> {
    let sql =
        "SELECT g.uid, r.version, r.at, r.author, r.text FROM runbooks r JOIN groups g ON g.id = r.group_id
                WHERE r.group_id = ANY($1) AND (r.text <> '' OR g.merged_into IS NULL)
                ORDER BY g.merged_into IS NOT NULL, r.at DESC, g.id LIMIT 1";
    let found = db.query_opt(sql, &[&family]).await.map_err(read_error)?;
    Ok(found.as_ref().map(runbook).filter(|book| !book.text.is_empty()))
}

fn runbook(row: &Row) -> Runbook {
    Runbook {
        group: GroupId(row.get(0)),
        version: row.get(1),
        at: Timestamp::from_micros(row.get(2)),
        author: rows::text(row, 3),
        text: rows::text(row, 4),
    }
}

/// Replaces the text of the head. Versions count on even where the text was taken away.
pub(super) async fn write(
    db: &Transaction<'_>,
    id: GroupId,
    (text, known): (&str, i64),
    deed: &Deed,
    now: Timestamp,
) -> Result<Runbook, StoreError> {
    let family = groups::family(db, id).await?;
    let (row, group) = family.first().map(|(row, group)| (*row, group.id)).ok_or(StoreError::NoGroup(id))?;
    let rows: Vec<GroupRow> = family.iter().map(|(row, _)| *row).collect();
    let found = shown(db, &rows).await?.map_or(0, |book| book.version);
    if known != found {
        return Err(StoreError::Stale { found, known });
    }
    let sql = "INSERT INTO runbooks VALUES ($1, $2::bigint + 1, $3, $4, $5) ON CONFLICT (group_id) DO UPDATE
               SET version = greatest(runbooks.version, $2::bigint) + 1, at = excluded.at, author = excluded.author,
                   text = excluded.text RETURNING version";
    let written = db
        .query_one(sql, &[&row, &found, &now.as_micros(), &escape(&deed.author), &escape(text)])
        .await
        .map_err(read_error)?;
    let version: i64 = written.get(0);
    let detail = Some(format!("version {version}"));
    audit::append(db, &[audit::Row::of_group(now, GroupDeed::RunbookWritten, group, deed, detail)]).await?;
    Ok(Runbook { group, version, at: now, author: deed.author.clone(), text: text.to_string() })
}
