//! Notes and links: what people write beside a group. Bounded by counting those of the whole family.

use deadpool_postgres::Transaction;
use dlo_core::group::GroupDeed;
use dlo_core::id::GroupId;
use dlo_core::limits;
use dlo_core::time::Timestamp;

use super::super::rows::{self, GroupRow};
use super::super::text::escape;
use super::super::{audit, groups, read_error};
use crate::triage::{Link, NewLink, Note, too_many};
use crate::{Deed, StoreError};

/// The rows of a family and the id of its head, which comes first.
async fn family(db: &Transaction<'_>, id: GroupId) -> Result<(Vec<GroupRow>, GroupId), StoreError> {
    let family = groups::family(db, id).await?;
    let head = family.first().map(|(_, group)| group.id).ok_or(StoreError::NoGroup(id))?;
    Ok((family.iter().map(|(row, _)| *row).collect(), head))
}

async fn count(db: &Transaction<'_>, table: &str, family: &[GroupRow]) -> Result<usize, StoreError> {
    let sql = format!("SELECT count(*) FROM {table} WHERE group_id = ANY($1)");
    let row = db.query_one(&sql, &[&family]).await.map_err(read_error)?;
    rows::number(row.get(0), "count")
}

pub(super) async fn add_note(
    db: &Transaction<'_>,
    id: GroupId,
    text: &str,
    deed: &Deed,
    now: Timestamp,
) -> Result<Note, StoreError> {
    let (family, group) = family(db, id).await?;
    if count(db, "notes", &family).await? >= limits::NOTES {
        return Err(too_many("notes of a group", limits::NOTES));
    }
    let sql = "INSERT INTO notes (group_id, at, author, text) VALUES ($1, $2, $3, $4) RETURNING number";
    let row = db
        .query_one(sql, &[&family[0], &now.as_micros(), &escape(&deed.author), &escape(text)])
        .await
        .map_err(read_error)?;
    audit::append(db, &[audit::Row::of_group(now, GroupDeed::Noted, group, deed, None)]).await?;
    Ok(Note { number: row.get(0), group, at: now, author: deed.author.clone(), text: text.to_string() })
}

pub(super) async fn notes(db: &Transaction<'_>, id: GroupId) -> Result<Vec<Note>, StoreError> {
    let (family, _) = family(db, id).await?;
    let sql = "SELECT n.number, g.uid, n.at, n.author, n.text FROM notes n JOIN groups g ON g.id = n.group_id
                WHERE n.group_id = ANY($1) ORDER BY n.number";
    let found = db.query(sql, &[&family]).await.map_err(read_error)?;
    let note = |row: &tokio_postgres::Row| Note {
        number: row.get(0),
        group: GroupId(row.get(1)),
        at: Timestamp::from_micros(row.get(2)),
        author: rows::text(row, 3),
        text: rows::text(row, 4),
    };
    Ok(found.iter().map(note).collect())
}

pub(super) async fn add_link(
    db: &Transaction<'_>,
    id: GroupId,
    link: &NewLink,
    deed: &Deed,
    now: Timestamp,
) -> Result<Link, StoreError> {
    let (family, group) = family(db, id).await?;
    if count(db, "links", &family).await? >= limits::LINKS {
        return Err(too_many("links of a group", limits::LINKS));
    }
    let sql =
        "INSERT INTO links (group_id, at, author, title, url) VALUES ($1, $2, $3, $4, $5) RETURNING number";
    let (title, url) = (escape(&link.title), escape(&link.url));
    let row = db
        .query_one(sql, &[&family[0], &now.as_micros(), &escape(&deed.author), &title, &url])
        .await
        .map_err(read_error)?;
    let told = audit::Row::of_group(now, GroupDeed::Linked, group, deed, Some(link.title.clone()));
    audit::append(db, &[told]).await?;
    Ok(Link { number: row.get(0), group, at: now, author: deed.author.clone(), link: link.clone() })
}

pub(super) async fn remove_link(
    db: &Transaction<'_>,
    id: GroupId,
    number: i64,
    deed: &Deed,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let (family, _) = family(db, id).await?;
    let sql = "DELETE FROM links l USING groups g WHERE l.number = $1 AND l.group_id = ANY($2) AND g.id = l.group_id
               RETURNING g.uid";
    let gone = db.query_opt(sql, &[&number, &family]).await.map_err(read_error)?;
    if let Some(row) = &gone {
        let group = GroupId(row.get(0));
        audit::append(db, &[audit::Row::of_group(now, GroupDeed::Unlinked, group, deed, None)]).await?;
    }
    Ok(gone.is_some())
}

pub(super) async fn links(db: &Transaction<'_>, id: GroupId) -> Result<Vec<Link>, StoreError> {
    let (family, _) = family(db, id).await?;
    let sql = "SELECT l.number, g.uid, l.at, l.author, l.title, l.url FROM links l JOIN groups g ON g.id = l.group_id
                WHERE l.group_id = ANY($1) ORDER BY l.number";
    let found = db.query(sql, &[&family]).await.map_err(read_error)?;
    let link = |row: &tokio_postgres::Row| Link {
        number: row.get(0),
        group: GroupId(row.get(1)),
        at: Timestamp::from_micros(row.get(2)),
        author: rows::text(row, 3),
        link: NewLink { title: rows::text(row, 4), url: rows::text(row, 5) },
    };
    Ok(found.iter().map(link).collect())
}
