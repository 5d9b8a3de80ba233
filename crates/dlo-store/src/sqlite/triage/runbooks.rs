//! Runbooks: one text per group, replaced by whoever has read the latest version.

use dlo_core::group::GroupDeed;
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::super::catalog::GroupRow;
use super::super::{audit, read_error};
use crate::triage::Runbook;
use crate::{Deed, StoreError};

/// The head's own, else the one of its members that was written last. Where the head's was taken away, there is none.
pub(super) fn read(db: &Connection, family: &[(GroupRow, GroupId)]) -> Result<Option<Runbook>, StoreError> {
    let (head, members) =
        family.split_first().map_or((None, family), |(head, members)| (Some(head), members));
    if let Some(own) = head.map(|(row, group)| one(db, *row, *group)).transpose()?.flatten() {
        return Ok(Some(own).filter(|book| !book.text.is_empty()));
    }
    let mut newest: Option<Runbook> = None;
    for (row, group) in members {
        let found = one(db, *row, *group)?.filter(|book| !book.text.is_empty());
        if found.as_ref().map(|book| book.at) > newest.as_ref().map(|book| book.at) {
            newest = found;
        }
    }
    Ok(newest)
}

/// Replaces the text of the head. Versions count on even where the text was taken away.
pub(super) fn write(
    db: &Connection,
    family: &[(GroupRow, GroupId)],
    (text, known): (&str, i64),
    deed: &Deed,
    now: Timestamp,
) -> Result<Runbook, StoreError> {
    let (row, group) = *family.first().ok_or_else(|| StoreError::Refused("a group without a head".into()))?;
    let found = read(db, family)?.map_or(0, |book| book.version);
    if known != found {
        return Err(StoreError::Stale { found, known });
    }
    let own = one(db, row, group)?.map_or(0, |book| book.version);
    let version = own.max(found) + 1;
    db.execute(
        "INSERT INTO runbooks VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO UPDATE
         SET version = excluded.version, at = excluded.at, author = excluded.author, text = excluded.text",
        params![row, version, now.as_micros(), deed.author, text],
    )
    .map_err(read_error)?;
    let detail = Some(format!("version {version}"));
    audit::append(db, &audit::Row::of_group(now, GroupDeed::RunbookWritten, group, deed, detail))?;
    Ok(Runbook { group, version, at: now, author: deed.author.clone(), text: text.to_string() })
}

fn one(db: &Connection, row: GroupRow, group: GroupId) -> Result<Option<Runbook>, StoreError> {
    db.prepare_cached("SELECT version, at, author, text FROM runbooks WHERE group_id = ?1")
        .and_then(|mut select| {
            select
                .query_row([row], |found| {
                    Ok(Runbook {
                        group,
                        version: found.get(0)?,
                        at: Timestamp::from_micros(found.get(1)?),
                        author: found.get(2)?,
                        text: found.get(3)?,
                    })
                })
                .optional()
        })
        .map_err(read_error)
}
