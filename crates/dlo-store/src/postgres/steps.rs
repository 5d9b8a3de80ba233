//! Steps of letters: legal by the one table in `dlo-core`, counted and audited in the same transaction.
//!
//! The letters are locked in the order of their ids, so that of two who want the same one, one is told that it is gone.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use dlo_core::time::Timestamp;
use uuid::Uuid;

use super::rows::{self, GroupRow};
use super::tally::Tally;
use super::{audit, read_error};
use crate::{Deed, Event, Stepped, StoreError};

/// A letter that is locked.
pub(super) struct Standing {
    place: i64,
    group: GroupRow,
    pub(super) status: Status,
    /// Took a step in this transaction.
    moved: bool,
    /// Sends among its steps.
    sends: i64,
}

pub(super) async fn step(
    db: &Transaction<'_>,
    ids: &[LetterId],
    step: Step,
    deed: &Deed,
    now: Timestamp,
) -> Result<Vec<Stepped>, StoreError> {
    let mut standing = lock(db, ids).await?;
    let mut tally = Tally::default();
    let mut log = Vec::new();
    let mut results = Vec::with_capacity(ids.len());
    for id in ids {
        let result = match standing.get_mut(id) {
            None => Stepped::Missing,
            Some(letter) => take(letter, step, &mut tally),
        };
        if matches!(result, Stepped::Moved { .. }) {
            log.push(audit::Row { letter: Some(*id), ..audit::Row::by(now, Event::Step(step), 1, deed) });
        }
        results.push(result);
    }
    write(db, standing.values()).await?;
    audit::append(db, &log).await?;
    tally.write(db, now).await?;
    Ok(results)
}

/// Takes the step in memory; [`write`] writes it.
pub(super) fn take(letter: &mut Standing, step: Step, tally: &mut Tally) -> Stepped {
    let from = letter.status;
    let Ok(to) = step.apply(from) else { return Stepped::Illegal { from } };
    tally.count(letter.group, from, -1);
    tally.count(letter.group, to, 1);
    letter.status = to;
    letter.moved = true;
    letter.sends += i64::from(step.is_send());
    Stepped::Moved { from, to }
}

/// Locks letters in the order of their ids; those that are here.
pub(super) async fn lock(
    db: &Transaction<'_>,
    ids: &[LetterId],
) -> Result<HashMap<LetterId, Standing>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let sql = "SELECT id, place, group_id, status FROM letters WHERE id = ANY($1) ORDER BY id FOR UPDATE";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let found = db.query(&statement, &[&ids]).await.map_err(read_error)?;
    found
        .iter()
        .map(|row| {
            let status = rows::status(row.get(3))?;
            let standing = Standing { place: row.get(1), group: row.get(2), status, moved: false, sends: 0 };
            Ok((LetterId(row.get(0)), standing))
        })
        .collect()
}

/// Writes those that took a step.
pub(super) async fn write<'s>(
    db: &Transaction<'_>,
    letters: impl Iterator<Item = &'s Standing>,
) -> Result<(), StoreError> {
    let moved: Vec<&Standing> = letters.filter(|letter| letter.moved).collect();
    if moved.is_empty() {
        return Ok(());
    }
    let places: Vec<i64> = moved.iter().map(|letter| letter.place).collect();
    let statuses: Vec<i16> = moved.iter().map(|letter| letter.status.number().into()).collect();
    let sends: Vec<i64> = moved.iter().map(|letter| letter.sends).collect();
    let sql = "UPDATE letters l SET status = t.status, replays = l.replays + t.sends
                 FROM UNNEST($1::bigint[], $2::smallint[], $3::bigint[]) AS t (place, status, sends)
                WHERE l.place = t.place";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(&statement, &[&places, &statuses, &sends]).await.map_err(read_error)?;
    Ok(())
}
