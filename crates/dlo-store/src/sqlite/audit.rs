//! The audit log, timelines made from it, and the proof that nothing is lost.

use std::collections::BTreeMap;

use dlo_core::group::StatusCounts;
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::catalog::{Catalog, GroupRow, uuid};
use super::{read_error, replays, rows, triage};
use crate::{
    AuditEntry, AuditPage, Cursor, Event, Page, SourceVerification, StoreError, TimelineEntry, Verification,
};

pub(super) use crate::audit_row::{OFFICE, Row};

pub(super) fn append(db: &Connection, row: &Row) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO audit (at, event, author, reason, reference, source, letter, count, group_uid)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )
    .map_err(read_error)?
    .execute(params![
        row.at.as_micros(),
        row.event.number(),
        row.author,
        row.reason,
        row.reference,
        row.source,
        row.letter.map(|id| id.0.as_bytes().to_vec()),
        row.count as i64,
        row.group.map(|id| id.0.as_bytes().to_vec()),
    ])
    .map_err(read_error)?;
    Ok(())
}

fn entry(row: &rusqlite::Row<'_>) -> rusqlite::Result<AuditEntry> {
    let letter: Option<Vec<u8>> = row.get(7)?;
    let group: Option<Vec<u8>> = row.get(9)?;
    Ok(AuditEntry {
        seq: row.get(0)?,
        at: Timestamp::from_micros(row.get(1)?),
        what: Event::from_number(row.get(2)?).ok_or_else(|| rows::unreadable("audit.event"))?,
        author: row.get(3)?,
        reason: row.get(4)?,
        reference: row.get(5)?,
        source: row.get(6)?,
        letter: letter.map(|bytes| uuid(&bytes)).transpose()?.map(LetterId),
        group: group.map(|bytes| uuid(&bytes)).transpose()?.map(GroupId),
        count: row.get::<_, i64>(8)? as u64,
    })
}

const ENTRY: &str = "seq, at, event, author, reason, reference, source, letter, count, group_uid";

pub(super) fn page(db: &Connection, page: &Page) -> Result<AuditPage, StoreError> {
    let before = match &page.cursor {
        None => i64::MAX,
        Some(Cursor(text)) => text.parse().map_err(|_| StoreError::BadCursor)?,
    };
    let mut statement = db
        .prepare_cached(&format!("SELECT {ENTRY} FROM audit WHERE seq < ?1 ORDER BY seq DESC LIMIT ?2"))
        .map_err(read_error)?;
    let entries: Vec<AuditEntry> = statement
        .query_map(params![before, page.limit as i64 + 1], entry)
        .and_then(Iterator::collect)
        .map_err(read_error)?;
    Ok(cut(entries, page.limit))
}

fn cut(mut entries: Vec<AuditEntry>, limit: usize) -> AuditPage {
    let more = entries.len() > limit;
    entries.truncate(limit);
    let next = entries.last().filter(|_| more).map(|last| Cursor(last.seq.to_string()));
    AuditPage { entries, next }
}

/// What happened to a letter after it was captured.
pub(super) fn of_letter(db: &Connection, id: LetterId) -> Result<Vec<TimelineEntry>, StoreError> {
    let mut statement = db
        .prepare_cached(&format!("SELECT {ENTRY} FROM audit WHERE letter = ?1 ORDER BY seq"))
        .map_err(read_error)?;
    let entries: Vec<AuditEntry> =
        statement.query_map([id.0.as_bytes()], entry).and_then(Iterator::collect).map_err(read_error)?;
    let timeline = entries.into_iter().map(|entry| TimelineEntry {
        at: entry.at,
        what: entry.what,
        author: entry.author,
        reason: entry.reason,
        reference: entry.reference,
    });
    Ok(timeline.collect())
}

/// What was done with these groups, newest first.
pub(super) fn of_groups(
    db: &Connection,
    ids: &[GroupId],
    most: usize,
) -> Result<Vec<AuditEntry>, StoreError> {
    let mut entries = Vec::new();
    let mut statement = db
        .prepare_cached(&format!("SELECT {ENTRY} FROM audit WHERE group_uid = ?1 ORDER BY seq DESC LIMIT ?2"))
        .map_err(read_error)?;
    for id in ids {
        let found = statement
            .query_map(params![id.0.as_bytes(), most as i64], entry)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(read_error)?;
        entries.extend(found);
    }
    entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.seq));
    entries.truncate(most);
    Ok(entries)
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

/// Counts every letter anew, in one snapshot, and holds it against what is kept at write time.
pub(super) fn verify(db: &Connection) -> Result<Verification, StoreError> {
    let snapshot = db.unchecked_transaction().map_err(read_error)?;
    let kept = Catalog::load(&snapshot)?;
    let mut found: BTreeMap<GroupRow, StatusCounts> = BTreeMap::new();
    let mut statement = snapshot
        .prepare("SELECT group_id, status, count(*) FROM letters GROUP BY group_id, status")
        .map_err(read_error)?;
    let counts = statement
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, u8>(1)?, row.get::<_, i64>(2)?)))
        .map_err(read_error)?;
    let mut problems = Vec::new();
    for count in counts {
        let (group, status, n) = count.map_err(read_error)?;
        match Status::from_number(status) {
            Some(status) => found.entry(group).or_default().add(status, n as u64),
            None => problems.push(format!("{n} letters have the unknown status {status}")),
        }
    }
    for (row, counts) in &found {
        if !kept.groups.contains_key(row) {
            problems.push(format!("{} letters point to group {row}, which is not there", counts.total()));
        }
    }
    let mut sources: BTreeMap<&str, SourceVerification> = BTreeMap::new();
    for (name, source) in &kept.sources {
        let none = StatusCounts::default();
        sources.insert(
            name,
            SourceVerification { source: name.clone(), captured: source.captured, counted: none },
        );
    }
    for (row, group) in &kept.groups {
        let counted = found.get(row).copied().unwrap_or_default();
        if counted != group.counts {
            problems.push(format!(
                "group {}: {} letters are counted, {} are there",
                group.id,
                group.counts.total(),
                counted.total()
            ));
        }
        if let Some(source) = sources.get_mut(group.source.as_str()) {
            source.counted.merge(&counted);
        }
    }
    for source in sources.values().filter(|source| source.captured != source.counted.total()) {
        let (name, captured, counted) = (&source.source, source.captured, source.counted.total());
        problems.push(format!("source {name}: {captured} letters were captured, {counted} are there"));
    }
    problems.extend(orphans(&snapshot)?);
    problems.extend(replays::problems(&snapshot)?);
    problems.extend(triage::problems(&snapshot)?);
    let sources: Vec<SourceVerification> = sources.into_values().collect();
    let letters = found.values().map(StatusCounts::total).sum();
    Ok(Verification { letters, sources, problems })
}

/// Letters without their block, and recognised deaths without their letter.
fn orphans(db: &Connection) -> Result<Vec<String>, StoreError> {
    let count = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(read_error);
    let blocks = count(
        "SELECT count(*) FROM (SELECT DISTINCT block FROM letters) l WHERE NOT EXISTS
         (SELECT 1 FROM blocks b WHERE b.id = l.block)",
    )?;
    let origins = count(
        "SELECT count(*) FROM origins o WHERE NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = o.letter)",
    )?;
    let mut problems = Vec::new();
    if blocks > 0 {
        problems.push(format!("{blocks} payload blocks are missing"));
    }
    if origins > 0 {
        problems.push(format!("{origins} recognised deaths have no letter"));
    }
    Ok(problems)
}
