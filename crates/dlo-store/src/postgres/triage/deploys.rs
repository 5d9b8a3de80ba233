//! Marks of deployments: appended, listed newest first, the oldest forgotten past the bound.

use deadpool_postgres::Transaction;
use dlo_core::deploy::{Deploy, NewDeploy};
use dlo_core::limits;
use dlo_core::time::Timestamp;

use super::super::text::{escape, escape_option};
use super::super::{audit, read_error, rows};
use crate::{Deed, Event, Page, StoreError};

pub(super) async fn mark(
    db: &Transaction<'_>,
    what: &NewDeploy,
    at: Timestamp,
    deed: &Deed,
    now: Timestamp,
) -> Result<Deploy, StoreError> {
    let sql =
        "INSERT INTO deploys (at, version, consumer, source, url, author) VALUES ($1, $2, $3, $4, $5, $6)
               RETURNING number";
    let row = db
        .query_one(
            sql,
            &[
                &at.as_micros(),
                &escape(&what.version),
                &escape_option(&what.consumer),
                &escape_option(&what.source),
                &escape_option(&what.url),
                &escape(&deed.author),
            ],
        )
        .await
        .map_err(read_error)?;
    let number: i64 = row.get(0);
    // Numbers may have gaps, so that fewer may be kept than the bound allows, never more.
    db.execute("DELETE FROM deploys WHERE number <= $1", &[&(number - limits::DEPLOYS as i64)])
        .await
        .map_err(read_error)?;
    let told = audit::Row::by(now, Event::DeployMarked, 1, deed);
    let reference = told.reference.clone().or_else(|| Some(what.version.clone()));
    audit::append(db, &[audit::Row { source: what.source.clone(), reference, ..told }]).await?;
    Ok(Deploy { number, at, what: what.clone(), author: deed.author.clone() })
}

pub(super) async fn list(
    db: &Transaction<'_>,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    most: usize,
) -> Result<Vec<Deploy>, StoreError> {
    let sql =
        "SELECT number, at, version, consumer, source, url, author FROM deploys WHERE at >= $1 AND at <= $2
                ORDER BY at DESC, number DESC LIMIT $3";
    let from = from.map_or(i64::MIN, Timestamp::as_micros);
    let until = until.map_or(i64::MAX, Timestamp::as_micros);
    let found = db.query(sql, &[&from, &until, &(most.min(Page::MOST) as i64)]).await.map_err(read_error)?;
    let deploy = |row: &tokio_postgres::Row| Deploy {
        number: row.get(0),
        at: Timestamp::from_micros(row.get(1)),
        what: NewDeploy {
            version: rows::text(row, 2),
            consumer: rows::maybe_text(row, 3),
            source: rows::maybe_text(row, 4),
            url: rows::maybe_text(row, 5),
        },
        author: rows::text(row, 6),
    };
    Ok(found.iter().map(deploy).collect())
}
