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

struct Standing {
    place: i64,
    group: GroupRow,
    status: Status,
    /// Took the step in this call.
    moved: bool,
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
    write(db, standing.values().filter(|letter| letter.moved), step).await?;
    audit::append(db, &log).await?;
    tally.write(db, now).await?;
    Ok(results)
}

fn take(letter: &mut Standing, step: Step, tally: &mut Tally) -> Stepped {
    let from = letter.status;
    let Ok(to) = step.apply(from) else { return Stepped::Illegal { from } };
    tally.count(letter.group, from, -1);
    tally.count(letter.group, to, 1);
    letter.status = to;
    letter.moved = true;
    Stepped::Moved { from, to }
}

async fn lock(db: &Transaction<'_>, ids: &[LetterId]) -> Result<HashMap<LetterId, Standing>, StoreError> {
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let sql = "SELECT id, place, group_id, status FROM letters WHERE id = ANY($1) ORDER BY id FOR UPDATE";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let found = db.query(&statement, &[&ids]).await.map_err(read_error)?;
    found
        .iter()
        .map(|row| {
            let status = rows::status(row.get(3))?;
            let standing = Standing { place: row.get(1), group: row.get(2), status, moved: false };
            Ok((LetterId(row.get(0)), standing))
        })
        .collect()
}

async fn write<'s>(
    db: &Transaction<'_>,
    moved: impl Iterator<Item = &'s Standing>,
    step: Step,
) -> Result<(), StoreError> {
    let (places, statuses): (Vec<i64>, Vec<i16>) =
        moved.map(|letter| (letter.place, i16::from(letter.status.number()))).unzip();
    if places.is_empty() {
        return Ok(());
    }
    let sql = "UPDATE letters l SET status = t.status, replays = l.replays + $3
                 FROM UNNEST($1::bigint[], $2::smallint[]) AS t (place, status) WHERE l.place = t.place";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(&statement, &[&places, &statuses, &i64::from(step.is_send())]).await.map_err(read_error)?;
    Ok(())
}
