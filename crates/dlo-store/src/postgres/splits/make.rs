//! Making a split, taking it back, and listing what is remembered.

use deadpool_postgres::Transaction;
use dlo_core::group::{Group, GroupDeed, SplitOff};
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;

use super::super::rows::{self, GroupRow};
use super::super::text::{escape, escape_option};
use super::super::{audit, grouping, groups, read_error, triage};
use super::SPLITTING;
use crate::place::Place;
use crate::triage::rules::new_id;
use crate::triage::{NewSplit, Split, no_room, not_split, splittable};
use crate::{Deed, StoreError};

/// Makes the group and remembers the condition; the letters follow behind. Waits for the batches that are being stored, and
/// has those that come wait until it is written: they would not see it.
pub(super) async fn split(
    db: &Transaction<'_>,
    (id, split): (GroupId, &NewSplit),
    cap: usize,
    deed: &Deed,
    now: Timestamp,
) -> Result<Group, StoreError> {
    db.execute("SELECT pg_advisory_xact_lock($1)::text", &[&SPLITTING]).await.map_err(read_error)?;
    let family = groups::family(db, id).await?;
    let (base, head) = family.first().cloned().ok_or(StoreError::NoGroup(id))?;
    let made = db
        .query_one("SELECT count(*) FROM splits WHERE group_id = $1", &[&base])
        .await
        .map_err(read_error)?;
    let made = rows::number(made.get(0), "splits")?;
    splittable(&head, family.iter().skip(1).map(|(_, group)| group), made)?;
    grouping::lock(db, &head.source).await?;
    if grouping::room(db, &head.source, cap).await? == 0 {
        return Err(no_room(&head.source, cap));
    }
    let condition = split.condition.as_str().to_string();
    let off = SplitOff { from: head.id, condition, title: split.title()? };
    let made = Group { id: new_id(), split: Some(off), ..head.clone() };
    let row = insert(db, base, &made, now).await?;
    let sql = "INSERT INTO splits (group_id, split_id, at, author, next) VALUES ($1, $2, $3, $4, $5)";
    db.execute(sql, &[&base, &row, &now.as_micros(), &escape(&deed.author), &Place::END.0])
        .await
        .map_err(read_error)?;
    let told = [(head.id, format!("into {}", made.id)), (made.id, format!("from {}", head.id))];
    let log = told.map(|(id, what)| audit::Row::of_group(now, GroupDeed::SplitBy, id, deed, Some(what)));
    audit::append(db, &log).await?;
    groups::one(db, made.id).await
}

/// The group with the words of the one it comes from, standing where that one stands.
async fn insert(
    db: &Transaction<'_>,
    base: GroupRow,
    made: &Group,
    now: Timestamp,
) -> Result<GroupRow, StoreError> {
    let off = made.split.as_ref().ok_or_else(|| not_split(made.id))?;
    let sql = "INSERT INTO groups (uid, version, source, queue, consumer, event_type, error_class, template, overflow,
                                   status, split_from, split_where, split_title)
               SELECT $2, version, source, queue, consumer, event_type, error_class, template, overflow, status, $3, $4, $5
                 FROM groups WHERE id = $1 RETURNING id";
    let inserted = db
        .query_one(
            sql,
            &[&base, &made.id.0, &off.from.0, &escape(&off.condition), &escape_option(&off.title)],
        )
        .await
        .map_err(read_error)?;
    let row: GroupRow = inserted.get(0);
    triage::write_group(db, row, made).await?;
    let sql = "INSERT INTO seen VALUES ($1, pg_backend_pid() % 8, $2, $2)";
    db.execute(sql, &[&row, &now.as_micros()]).await.map_err(read_error)?;
    Ok(row)
}

/// Forgets the condition; the group goes back to where it came from, unless somebody merged it elsewhere. Batches that saw the
/// condition still bring letters to the group, which is spoken for.
pub(super) async fn unsplit(
    db: &Transaction<'_>,
    id: GroupId,
    deed: &Deed,
    now: Timestamp,
) -> Result<Group, StoreError> {
    let sql = "SELECT id, split_from, merged_into IS NULL FROM groups WHERE uid = $1";
    let found = db.query_opt(sql, &[&id.0]).await.map_err(read_error)?.ok_or(StoreError::NoGroup(id))?;
    let from = found.get::<_, Option<uuid::Uuid>>(1).map(GroupId).ok_or_else(|| not_split(id))?;
    let row: GroupRow = found.get(0);
    if db.execute("DELETE FROM splits WHERE split_id = $1", &[&row]).await.map_err(read_error)? == 0 {
        return Err(not_split(id));
    }
    let told = audit::Row::of_group(now, GroupDeed::Unsplit, id, deed, Some(format!("from {from}")));
    audit::append(db, &[told]).await?;
    if found.get(2) {
        triage::merge(db, from, &[id], deed, now).await?;
    }
    groups::one(db, id).await
}

/// The conditions that lead away from a group and its members.
pub(super) async fn list(db: &Transaction<'_>, id: GroupId) -> Result<Vec<Split>, StoreError> {
    let family: Vec<GroupRow> = groups::family(db, id).await?.iter().map(|(row, _)| *row).collect();
    let sql = "SELECT number, at, author, split_id, next IS NOT NULL FROM splits WHERE group_id = ANY($1) ORDER BY number";
    let found = db.query(sql, &[&family]).await.map_err(read_error)?;
    let made: Vec<GroupRow> = found.iter().map(|row| row.get(3)).collect();
    let mut groups = groups::of_rows(db, &made).await?;
    let split = |row: &tokio_postgres::Row| {
        Some(Split {
            number: row.get(0),
            at: Timestamp::from_micros(row.get(1)),
            author: rows::text(row, 2),
            group: groups.remove(&row.get(3))?,
            moving: row.get(4),
        })
    };
    Ok(found.iter().filter_map(split).collect())
}
