//! Saved views: replaced by their name, bounded per person and for the shared ones.

use deadpool_postgres::Transaction;
use dlo_core::limits;
use dlo_core::time::Timestamp;
use dlo_core::view::{View, ViewOf};

use super::super::text::escape;
use super::super::{audit, read_error, rows};
use crate::triage::{NewView, too_many};
use crate::{Deed, Event, StoreError};

pub(super) async fn save(
    db: &Transaction<'_>,
    view: &NewView,
    deed: &Deed,
    now: Timestamp,
) -> Result<View, StoreError> {
    let owner = view.owner.clone().unwrap_or_default();
    let sql = "INSERT INTO views VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (owner, kind, name) DO UPDATE
               SET query = excluded.query, author = excluded.author, at = excluded.at";
    let (name, query) = (escape(&view.name), escape(&view.query));
    db.execute(
        sql,
        &[
            &escape(&owner),
            &i16::from(view.of.number()),
            &name,
            &query,
            &escape(&deed.author),
            &now.as_micros(),
        ],
    )
    .await
    .map_err(read_error)?;
    let sql = "SELECT count(*) FROM views WHERE owner = $1";
    let count: i64 = db.query_one(sql, &[&escape(&owner)]).await.map_err(read_error)?.get(0);
    if count > limits::VIEWS as i64 {
        return Err(too_many("views of a person, or shared ones,", limits::VIEWS));
    }
    append(db, Event::ViewSaved, &view.name, deed, now).await?;
    let NewView { name, of, query, owner } = view.clone();
    Ok(View { name, of, query, owner, author: deed.author.clone(), saved_at: now })
}

pub(super) async fn list(db: &Transaction<'_>, person: Option<&str>) -> Result<Vec<View>, StoreError> {
    let sql = "SELECT owner, kind, name, query, author, at FROM views WHERE owner IN ('', $1)
                ORDER BY name COLLATE \"C\", owner COLLATE \"C\", kind";
    let found = db.query(sql, &[&escape(person.unwrap_or_default())]).await.map_err(read_error)?;
    let view = |row: &tokio_postgres::Row| {
        Ok(View {
            owner: Some(rows::text(row, 0)).filter(|owner| !owner.is_empty()),
            of: rows::code(row.get(1), ViewOf::from_number, "views.kind")?,
            name: rows::text(row, 2),
            query: rows::text(row, 3),
            author: rows::text(row, 4),
            saved_at: Timestamp::from_micros(row.get(5)),
        })
    };
    found.iter().map(view).collect()
}

pub(super) async fn remove(
    db: &Transaction<'_>,
    (name, of, owner): (&str, ViewOf, Option<&str>),
    deed: &Deed,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM views WHERE owner = $1 AND kind = $2 AND name = $3";
    let owner = escape(owner.unwrap_or_default());
    let gone =
        db.execute(sql, &[&owner, &i16::from(of.number()), &escape(name)]).await.map_err(read_error)? == 1;
    if gone {
        append(db, Event::ViewRemoved, name, deed, now).await?;
    }
    Ok(gone)
}

async fn append(
    db: &Transaction<'_>,
    event: Event,
    name: &str,
    deed: &Deed,
    now: Timestamp,
) -> Result<(), StoreError> {
    let row = audit::Row::by(now, event, 1, deed);
    let reference = row.reference.clone().or_else(|| Some(name.into()));
    audit::append(db, &[audit::Row { reference, ..row }]).await
}
