//! Notes and links: what people write beside a group. Bounded by counting those of the whole family.

use dlo_core::group::GroupDeed;
use dlo_core::id::GroupId;
use dlo_core::limits;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, Row, params};

use super::super::catalog::GroupRow;
use super::super::writer::Shared;
use super::super::{audit, read_error};
use super::family;
use crate::triage::{Link, NewLink, Note, too_many};
use crate::{Deed, StoreError};

/// Rows of a family with the ids they go by; the head comes first.
type Family = [(GroupRow, GroupId)];

pub(super) fn add_note(
    db: &Connection,
    shared: &Shared,
    id: GroupId,
    text: &str,
    deed: &Deed,
    now: Timestamp,
) -> Result<Note, StoreError> {
    let family = family(shared, id)?;
    let (row, group) = *family.first().ok_or(StoreError::NoGroup(id))?;
    if count(db, "notes", &family)? >= limits::NOTES {
        return Err(too_many("notes of a group", limits::NOTES));
    }
    db.execute(
        "INSERT INTO notes (group_id, at, author, text) VALUES (?1, ?2, ?3, ?4)",
        params![row, now.as_micros(), deed.author, text],
    )
    .map_err(read_error)?;
    let number = db.last_insert_rowid();
    audit::append(db, &audit::Row::of_group(now, GroupDeed::Noted, group, deed, None))?;
    Ok(Note { number, group, at: now, author: deed.author.clone(), text: text.to_string() })
}

pub(super) fn notes(db: &Connection, family: &Family) -> Result<Vec<Note>, StoreError> {
    let sql = "SELECT number, at, author, text FROM notes WHERE group_id = ?1 ORDER BY number";
    let mut notes = of_family(db, sql, family, |row, group| {
        Ok(Note {
            number: row.get(0)?,
            group,
            at: Timestamp::from_micros(row.get(1)?),
            author: row.get(2)?,
            text: row.get(3)?,
        })
    })?;
    notes.sort_by_key(|note| note.number);
    Ok(notes)
}

pub(super) fn add_link(
    db: &Connection,
    shared: &Shared,
    id: GroupId,
    link: NewLink,
    deed: &Deed,
    now: Timestamp,
) -> Result<Link, StoreError> {
    let family = family(shared, id)?;
    let (row, group) = *family.first().ok_or(StoreError::NoGroup(id))?;
    if count(db, "links", &family)? >= limits::LINKS {
        return Err(too_many("links of a group", limits::LINKS));
    }
    db.execute(
        "INSERT INTO links (group_id, at, author, title, url) VALUES (?1, ?2, ?3, ?4, ?5)",
        params![row, now.as_micros(), deed.author, link.title, link.url],
    )
    .map_err(read_error)?;
    let number = db.last_insert_rowid();
    audit::append(db, &audit::Row::of_group(now, GroupDeed::Linked, group, deed, Some(link.title.clone())))?;
    Ok(Link { number, group, at: now, author: deed.author.clone(), link })
}

pub(super) fn remove_link(
    db: &Connection,
    shared: &Shared,
    (id, number): (GroupId, i64),
    deed: &Deed,
    now: Timestamp,
) -> Result<bool, StoreError> {
    for (row, group) in family(shared, id)? {
        let sql = "DELETE FROM links WHERE number = ?1 AND group_id = ?2";
        if db.execute(sql, params![number, row]).map_err(read_error)? == 1 {
            audit::append(db, &audit::Row::of_group(now, GroupDeed::Unlinked, group, deed, None))?;
            return Ok(true);
        }
    }
    Ok(false)
}

pub(super) fn links(db: &Connection, family: &Family) -> Result<Vec<Link>, StoreError> {
    let sql = "SELECT number, at, author, title, url FROM links WHERE group_id = ?1 ORDER BY number";
    let mut links = of_family(db, sql, family, |row, group| {
        Ok(Link {
            number: row.get(0)?,
            group,
            at: Timestamp::from_micros(row.get(1)?),
            author: row.get(2)?,
            link: NewLink { title: row.get(3)?, url: row.get(4)? },
        })
    })?;
    links.sort_by_key(|link| link.number);
    Ok(links)
}

fn count(db: &Connection, table: &str, family: &Family) -> Result<usize, StoreError> {
    let sql = format!("SELECT count(*) FROM {table} WHERE group_id = ?1");
    let mut count = db.prepare_cached(&sql).map_err(read_error)?;
    family.iter().try_fold(0, |sum, (row, _)| {
        let n: i64 = count.query_row([row], |row| row.get(0)).map_err(read_error)?;
        Ok(sum + usize::try_from(n).unwrap_or(0))
    })
}

fn of_family<T>(
    db: &Connection,
    sql: &str,
    family: &Family,
    read: impl Fn(&Row<'_>, GroupId) -> rusqlite::Result<T>,
) -> Result<Vec<T>, StoreError> {
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let mut all = Vec::new();
    for (row, group) in family {
        let found = statement
            .query_map([row], |found| read(found, *group))
            .and_then(Iterator::collect::<Result<Vec<T>, _>>)
            .map_err(read_error)?;
        all.extend(found);
    }
    Ok(all)
}
