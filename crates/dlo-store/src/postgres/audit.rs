//! The audit log and timelines: append-only rows, written in the transaction of what they tell.

use deadpool_postgres::Transaction;
use dlo_core::id::{GroupId, LetterId};
use dlo_core::time::Timestamp;
use tokio_postgres::Row as Found;

use super::text::{escape, escape_option};
use super::{read_error, rows};
use crate::{AuditEntry, AuditPage, Cursor, Event, Page, StoreError, TimelineEntry};

pub(super) use crate::audit_row::{OFFICE, Row};

const APPEND: &str = "
    INSERT INTO audit (at, event, author, reason, reference, source, letter, count, group_uid)
    SELECT * FROM UNNEST($1::bigint[], $2::smallint[], $3::text[], $4::text[], $5::text[], $6::text[], $7::uuid[],
                         $8::bigint[], $9::uuid[])";

pub(super) async fn append(db: &Transaction<'_>, log: &[Row]) -> Result<(), StoreError> {
    if log.is_empty() {
        return Ok(());
    }
    let statement = db.prepare_cached(APPEND).await.map_err(read_error)?;
    db.execute(
        &statement,
        &[
            &log.iter().map(|row| row.at.as_micros()).collect::<Vec<_>>(),
            &log.iter().map(|row| row.event.number()).collect::<Vec<_>>(),
            &log.iter().map(|row| escape(&row.author)).collect::<Vec<_>>(),
            &log.iter().map(|row| escape_option(&row.reason)).collect::<Vec<_>>(),
            &log.iter().map(|row| escape_option(&row.reference)).collect::<Vec<_>>(),
            &log.iter().map(|row| escape_option(&row.source)).collect::<Vec<_>>(),
            &log.iter().map(|row| row.letter.map(|id| id.0)).collect::<Vec<_>>(),
            &log.iter().map(|row| row.count as i64).collect::<Vec<_>>(),
            &log.iter().map(|row| row.group.map(|id| id.0)).collect::<Vec<_>>(),
        ],
    )
    .await
    .map_err(read_error)?;
    Ok(())
}

fn entry(row: &Found) -> Result<AuditEntry, StoreError> {
    Ok(AuditEntry {
        seq: row.get(0),
        at: Timestamp::from_micros(row.get(1)),
        what: Event::from_number(row.get(2)).ok_or_else(|| rows::unreadable("audit.event"))?,
        author: rows::text(row, 3),
        reason: rows::maybe_text(row, 4),
        reference: rows::maybe_text(row, 5),
        source: rows::maybe_text(row, 6),
        letter: row.get::<_, Option<uuid::Uuid>>(7).map(LetterId),
        count: rows::number(row.get(8), "audit.count")?,
        group: row.get::<_, Option<uuid::Uuid>>(9).map(GroupId),
    })
}

const ENTRY: &str = "seq, at, event, author, reason, reference, source, letter, count, group_uid";

pub(super) async fn page(db: &Transaction<'_>, page: &Page) -> Result<AuditPage, StoreError> {
    let before: i64 = match &page.cursor {
        None => i64::MAX,
        Some(Cursor(text)) => text.parse().map_err(|_| StoreError::BadCursor)?,
    };
    let sql = format!("SELECT {ENTRY} FROM audit WHERE seq < $1 ORDER BY seq DESC LIMIT $2");
    let found = db.query(&sql, &[&before, &(page.limit as i64 + 1)]).await.map_err(read_error)?;
    let entries: Vec<AuditEntry> = found.iter().map(entry).collect::<Result<_, _>>()?;
    Ok(cut(entries, page.limit))
}

fn cut(mut entries: Vec<AuditEntry>, limit: usize) -> AuditPage {
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| more).map(|last| Cursor(last.seq.to_string()));
    AuditPage { entries, next }
}

/// What happened to a letter after it was captured.
pub(super) async fn of_letter(db: &Transaction<'_>, id: LetterId) -> Result<Vec<TimelineEntry>, StoreError> {
    let sql = format!("SELECT {ENTRY} FROM audit WHERE letter = $1 ORDER BY seq");
    let found = db.query(&sql, &[&id.0]).await.map_err(read_error)?;
    let told = |entry: AuditEntry| TimelineEntry {
        at: entry.at,
        what: entry.what,
        author: entry.author,
        reason: entry.reason,
        reference: entry.reference,
    };
    found.iter().map(|row| entry(row).map(told)).collect()
}

/// What was done with these groups, newest first.
pub(super) async fn of_groups(
    db: &Transaction<'_>,
    groups: &[uuid::Uuid],
    most: usize,
) -> Result<Vec<AuditEntry>, StoreError> {
    let sql = format!("SELECT {ENTRY} FROM audit WHERE group_uid = ANY($1) ORDER BY seq DESC LIMIT $2");
    let found = db.query(&sql, &[&groups, &(most as i64)]).await.map_err(read_error)?;
    found.iter().map(entry).collect()
}

/// The first entry of every timeline.
pub(super) fn capture_entry(captured_at: Timestamp) -> TimelineEntry {
    TimelineEntry {
        at: captured_at,
        what: Event::Captured,
        author: OFFICE.into(),
        reason: None,
        reference: None,
    }
}
