//! Saved views: replaced by their name, bounded per person and for the shared ones.

use dlo_core::limits;
use dlo_core::time::Timestamp;
use dlo_core::view::{View, ViewOf};
use rusqlite::{Connection, params};

use super::super::{audit, read_error, rows};
use crate::triage::{NewView, too_many};
use crate::{Deed, Event, StoreError};

pub(super) fn save(db: &Connection, view: NewView, deed: &Deed, now: Timestamp) -> Result<View, StoreError> {
    let owner = view.owner.clone().unwrap_or_default();
    db.execute(
        "INSERT INTO views VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT DO UPDATE
         SET query = excluded.query, author = excluded.author, at = excluded.at",
        params![owner, view.of.number(), view.name, view.query, deed.author, now.as_micros()],
    )
    .map_err(read_error)?;
    let count: i64 = db
        .query_row("SELECT count(*) FROM views WHERE owner = ?1", [&owner], |row| row.get(0))
        .map_err(read_error)?;
    if count > limits::VIEWS as i64 {
        return Err(too_many("views of a person, or shared ones,", limits::VIEWS));
    }
    append(db, Event::ViewSaved, &view.name, deed, now)?;
    let NewView { name, of, query, owner } = view;
    Ok(View { name, of, query, owner, author: deed.author.clone(), saved_at: now })
}

pub(super) fn list(db: &Connection, person: Option<&str>) -> Result<Vec<View>, StoreError> {
    let sql = "SELECT owner, kind, name, query, author, at FROM views WHERE owner IN ('', ?1) ORDER BY name, owner, kind";
    let mut select = db.prepare_cached(sql).map_err(read_error)?;
    select
        .query_map([person.unwrap_or_default()], |row| {
            Ok(View {
                owner: Some(row.get::<_, String>(0)?).filter(|owner| !owner.is_empty()),
                of: ViewOf::from_number(row.get(1)?).ok_or_else(|| rows::unreadable("views.kind"))?,
                name: row.get(2)?,
                query: row.get(3)?,
                author: row.get(4)?,
                saved_at: Timestamp::from_micros(row.get(5)?),
            })
        })
        .and_then(Iterator::collect)
        .map_err(read_error)
}

pub(super) fn remove(
    db: &Connection,
    name: &str,
    of: ViewOf,
    owner: Option<&str>,
    deed: &Deed,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM views WHERE owner = ?1 AND kind = ?2 AND name = ?3";
    let gone =
        db.execute(sql, params![owner.unwrap_or_default(), of.number(), name]).map_err(read_error)? == 1;
    if gone {
        append(db, Event::ViewRemoved, name, deed, now)?;
    }
    Ok(gone)
}

fn append(db: &Connection, event: Event, name: &str, deed: &Deed, now: Timestamp) -> Result<(), StoreError> {
    let row = audit::Row::by(now, event, 1, deed);
    audit::append(db, &audit::Row { reference: row.reference.clone().or_else(|| Some(name.into())), ..row })
}
