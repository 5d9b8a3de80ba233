//! Marks of deployments: appended, listed newest first, the oldest forgotten past the bound.

use dlo_core::deploy::{Deploy, NewDeploy};
use dlo_core::limits;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::super::{audit, read_error};
use crate::{Deed, Event, Page, StoreError};

pub(super) fn mark(
    db: &Connection,
    what: NewDeploy,
    at: Timestamp,
    deed: &Deed,
    now: Timestamp,
) -> Result<Deploy, StoreError> {
    db.execute(
        "INSERT INTO deploys (at, version, consumer, source, url, author) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![at.as_micros(), what.version, what.consumer, what.source, what.url, deed.author],
    )
    .map_err(read_error)?;
    let number = db.last_insert_rowid();
    // Numbers are given one by one and only the oldest go, so the distance of two is at most how many there are.
    db.execute("DELETE FROM deploys WHERE number <= ?1", [number - limits::DEPLOYS as i64])
        .map_err(read_error)?;
    let row = audit::Row::by(now, Event::DeployMarked, 1, deed);
    let reference = row.reference.clone().or_else(|| Some(what.version.clone()));
    audit::append(db, &audit::Row { source: what.source.clone(), reference, ..row })?;
    Ok(Deploy { number, at, what, author: deed.author.clone() })
}

pub(super) fn list(
    db: &Connection,
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    most: usize,
) -> Result<Vec<Deploy>, StoreError> {
    let mut select = db
        .prepare_cached(
            "SELECT number, at, version, consumer, source, url, author FROM deploys WHERE at >= ?1 AND at <= ?2
              ORDER BY at DESC, number DESC LIMIT ?3",
        )
        .map_err(read_error)?;
    let bounds = params![
        from.map_or(i64::MIN, Timestamp::as_micros),
        until.map_or(i64::MAX, Timestamp::as_micros),
        most.min(Page::MOST) as i64
    ];
    select
        .query_map(bounds, |row| {
            let what = NewDeploy {
                version: row.get(2)?,
                consumer: row.get(3)?,
                source: row.get(4)?,
                url: row.get(5)?,
            };
            Ok(Deploy {
                number: row.get(0)?,
                at: Timestamp::from_micros(row.get(1)?),
                what,
                author: row.get(6)?,
            })
        })
        .and_then(Iterator::collect)
        .map_err(read_error)
}
