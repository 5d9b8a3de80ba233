//! Repairs beside the letters they repair.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::Status;
use dlo_core::message::{Message, Payload};
use dlo_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::rows::{maybe_text, number, text};
use super::super::text::{escape, escape_option};
use super::super::{audit, read_error, steps};
use super::rows::{self, Hold};
use crate::block::Block;
use crate::repairs::{AS_CAPTURED, Sealed};
use crate::replays::NOT_SENT;
use crate::{Deed, Event, Repair, Repaired, StoreError};

pub(super) async fn write(
    db: &Transaction<'_>,
    repairs: &[Sealed],
    deed: &Deed,
    now: Timestamp,
) -> Result<Vec<Repaired>, StoreError> {
    let ids: Vec<LetterId> = repairs.iter().map(|repair| repair.letter).collect();
    let standing = steps::lock(db, &ids).await?;
    let answer = |repair: &Sealed| match standing.get(&repair.letter).map(|letter| letter.status) {
        None => Repaired::Missing,
        Some(Status::Open) => Repaired::Stored,
        Some(other) => Repaired::NotOpen(other),
    };
    let answers: Vec<Repaired> = repairs.iter().map(answer).collect();
    let taken: Vec<&Sealed> = repairs
        .iter()
        .zip(&answers)
        .filter(|(_, answer)| **answer == Repaired::Stored)
        .map(|(repair, _)| repair)
        .collect();
    insert(db, &taken, deed, now).await?;
    let told = |repair: &&Sealed| {
        let row = audit::Row::by(now, Event::Repaired, 1, deed);
        audit::Row { letter: Some(repair.letter), ..row }
    };
    audit::append(db, &taken.iter().map(told).collect::<Vec<_>>()).await?;
    Ok(answers)
}

/// Of several for one letter the last is active.
async fn insert(
    db: &Transaction<'_>,
    repairs: &[&Sealed],
    deed: &Deed,
    now: Timestamp,
) -> Result<(), StoreError> {
    let letters: Vec<Uuid> = repairs.iter().map(|repair| repair.letter.0).collect();
    let statement = db
        .prepare_cached("UPDATE repairs SET active = false WHERE letter = ANY($1) AND active")
        .await
        .map_err(read_error)?;
    db.execute(&statement, &[&letters]).await.map_err(read_error)?;
    let sql = "INSERT INTO repairs
               SELECT t.letter, coalesce((SELECT max(r.number) FROM repairs r WHERE r.letter = t.letter), 0)
                      + row_number() OVER (PARTITION BY t.letter ORDER BY t.place),
                      t.msg_key, t.message, $5, $6, t.expression, $7,
                      t.place = max(t.place) OVER (PARTITION BY t.letter)
                 FROM UNNEST($1::uuid[], $2::bytea[], $3::bytea[], $4::text[])
                      WITH ORDINALITY AS t (letter, msg_key, message, expression, place)";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(
        &statement,
        &[
            &letters,
            &repairs.iter().map(|repair| repair.key.as_deref()).collect::<Vec<_>>(),
            &repairs.iter().map(|repair| &repair.message[..]).collect::<Vec<_>>(),
            &repairs.iter().map(|repair| escape_option(&repair.expression)).collect::<Vec<_>>(),
            &escape(&deed.author),
            &escape_option(&deed.reason),
            &now.as_micros(),
        ],
    )
    .await
    .map_err(read_error)?;
    Ok(())
}

/// The messages that are sent instead of the originals, where there are any; each is whole or says why not.
pub(super) async fn active(
    db: &Transaction<'_>,
    ids: &[Uuid],
) -> Result<HashMap<LetterId, Result<Message, StoreError>>, StoreError> {
    let sql = "SELECT letter, msg_key, message FROM repairs WHERE letter = ANY($1) AND active";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let found = db.query(&statement, &[&ids]).await.map_err(read_error)?;
    Ok(found.iter().map(|row| (LetterId(row.get(0)), open(row.get(1), row.get(2)))).collect())
}

fn open(key: Option<Vec<u8>>, message: &[u8]) -> Result<Message, StoreError> {
    let cold = Block::open(message)?.cold(0)?;
    Ok(Message { key: key.map(Payload::from), headers: cold.headers, payload: cold.payload })
}

/// When a member of a replay, or of its children, was last repaired.
pub(super) async fn last(db: &Transaction<'_>, id: ReplayId) -> Result<Option<Timestamp>, StoreError> {
    let row = rows::head(db, id, Hold::Free).await?.row;
    let sql = "SELECT max(p.at) FROM replays r JOIN replay_items i ON i.replay = r.seq
                 JOIN repairs p ON p.letter = i.letter WHERE r.seq = $1 OR r.parent = $1";
    let at: Option<i64> = db.query_one(sql, &[&row]).await.map_err(read_error)?.get(0);
    Ok(at.map(Timestamp::from_micros))
}

/// Members of a replay, or of its children, that are still to be sent and not as they were captured.
pub(super) async fn changed_members(db: &Transaction<'_>, id: ReplayId) -> Result<u64, StoreError> {
    let row = rows::head(db, id, Hold::Free).await?.row;
    let sql = "SELECT count(*) FROM replays r JOIN replay_items i ON i.replay = r.seq
                 JOIN repairs p ON p.letter = i.letter
                WHERE (r.seq = $1 OR r.parent = $1) AND p.active AND p.expression IS DISTINCT FROM $2
                  AND i.state = ANY($3)";
    let states = NOT_SENT.map(|state| i16::from(state.number())).to_vec();
    let found = db.query_one(sql, &[&row, &AS_CAPTURED, &states]).await.map_err(read_error)?;
    Ok(found.get::<_, i64>(0).unsigned_abs())
}

/// Those of some letters that would not be sent as they were captured, and since when.
pub(super) async fn changed(
    db: &Transaction<'_>,
    letters: &[LetterId],
) -> Result<Vec<(LetterId, Timestamp)>, StoreError> {
    let letters: Vec<Uuid> = letters.iter().map(|letter| letter.0).collect();
    let sql =
        "SELECT letter, at FROM repairs WHERE letter = ANY($1) AND active AND expression IS DISTINCT FROM $2";
    let found = db.query(sql, &[&letters, &AS_CAPTURED]).await.map_err(read_error)?;
    Ok(found.iter().map(|row| (LetterId(row.get(0)), Timestamp::from_micros(row.get(1)))).collect())
}

pub(super) async fn all(db: &Transaction<'_>, letter: LetterId) -> Result<Vec<Repair>, StoreError> {
    let sql = "SELECT msg_key, message, number, author, reason, expression, at, active FROM repairs
                WHERE letter = $1 ORDER BY number";
    let found = db.query(sql, &[&letter.0]).await.map_err(read_error)?;
    let repair = |row: &Row| {
        Ok(Repair {
            letter,
            number: number(row.get(2), "repairs.number")?,
            message: open(row.get(0), row.get(1))?,
            author: text(row, 3),
            reason: maybe_text(row, 4),
            expression: maybe_text(row, 5),
            at: Timestamp::from_micros(row.get(6)),
            active: row.get(7),
        })
    };
    found.iter().map(repair).collect()
}
