//! Planning: read, decided by dlo-core's planner and written in one transaction, which nobody else has to wait for.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::Status;
use dlo_core::replay::planner::{Candidate, Kind, MOST_MEMBERS, Member, Planner, TooMany};
use dlo_core::replay::{Exclusion, ItemState, Replay, ReplayState};
use dlo_core::suspect::Suspect;
use dlo_core::time::Timestamp;
use futures::TryStreamExt;
use tokio_postgres::Row;
use uuid::Uuid;

use super::super::rows::{maybe_text, number, status, text};
use super::super::text::escape;
use super::super::{audit, read_error, search, suspects};
use super::hand::add_counts;
use super::rows::{self, ReplayRow};
use crate::place::Place;
use crate::planned::{Asked, Planned, distinct, not_written, write_up};
use crate::replays::{Members, NewReplay};
use crate::{Deed, Event, StoreError};

/// Rows read or written by one statement.
const CHUNK: usize = 5_000;

pub(super) async fn plan(
    db: &Transaction<'_>,
    new: &NewReplay,
    now: Timestamp,
) -> Result<Replay, StoreError> {
    let planned = decide(db, new, now).await?;
    if let Some(void) = not_written(new, &planned) {
        return Ok(void);
    }
    let mut whole = None;
    for Planned { replay, members } in &planned {
        let children = if whole.is_none() { planned.len() - 1 } else { 0 };
        let row = rows::insert(db, whole, children, replay).await?;
        for (at, chunk) in members.chunks(CHUNK).enumerate() {
            write_members(db, row, at * CHUNK, chunk).await?;
        }
        add_counts(db, row, &BTreeMap::from([(ItemState::Frozen, members.len() as i64)])).await?;
        whole.get_or_insert(row);
    }
    let first = planned.into_iter().next().map(|planned| planned.replay);
    let replay = first.ok_or_else(|| StoreError::Refused("a plan without a replay".into()))?;
    note(db, &replay, now).await?;
    Ok(replay)
}

async fn note(db: &Transaction<'_>, replay: &Replay, now: Timestamp) -> Result<(), StoreError> {
    let deed = Deed {
        author: replay.author.clone(),
        reason: Some(replay.reason.clone()),
        reference: Some(replay.id.to_string()),
    };
    let row = audit::Row::by(now, Event::Replay(ReplayState::Planned), replay.counts.total(), &deed);
    audit::append(db, &[audit::Row { source: replay.source.clone(), ..row }]).await
}

async fn write_members(
    db: &Transaction<'_>,
    replay: ReplayRow,
    from: usize,
    members: &[Member],
) -> Result<(), StoreError> {
    let sql = "INSERT INTO replay_items (replay, number, letter, state, lane, waits)
               SELECT $1, $2 + t.place - 1, t.letter, $3, t.lane, t.waits
                 FROM UNNEST($4::uuid[], $5::bigint[], $6::boolean[]) WITH ORDINALITY AS t (letter, lane, waits, place)";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(
        &statement,
        &[
            &replay,
            &(from as i64),
            &i16::from(ItemState::Frozen.number()),
            &members.iter().map(|member| member.letter.0).collect::<Vec<_>>(),
            &members.iter().map(|member| member.lane).collect::<Vec<_>>(),
            &members.iter().map(|member| member.waits).collect::<Vec<_>>(),
        ],
    )
    .await
    .map_err(read_error)?;
    Ok(())
}

async fn decide(db: &Transaction<'_>, new: &NewReplay, now: Timestamp) -> Result<Vec<Planned>, StoreError> {
    let mut planner = Planner::new(&new.policy, &new.settings, now);
    let places = match &new.members {
        Members::Query { query, .. } => {
            let asked = Asked::of(query);
            for (why, query) in [(Exclusion::NotOpen, &asked.others), (Exclusion::Held, &asked.held)] {
                planner.exclude(why, search::count(db, query, u64::MAX, None).await?.letters);
            }
            planner.held_by(holder(db, &search::places(db, &asked.held, 1).await?).await?);
            search::places(db, &asked.open, MOST_MEMBERS).await?
        }
        Members::Ids(ids) => {
            let places = places_of(db, ids).await?;
            planner.held_by(holder(db, &places).await?);
            places
        }
    };
    if places.len() > MOST_MEMBERS {
        return Err(too_many(TooMany));
    }
    for chunk in places.chunks(CHUNK) {
        offer(db, chunk, &mut planner).await?;
    }
    for source in planner.asks_for_recovered() {
        tell_recovered(db, &source, &mut planner).await?;
    }
    Ok(write_up(new, planner.finish().map_err(StoreError::PlanRefused)?, now))
}

fn too_many(refusal: TooMany) -> StoreError {
    StoreError::Unsupported(refusal.to_string())
}

async fn places_of(db: &Transaction<'_>, ids: &[LetterId]) -> Result<Vec<Place>, StoreError> {
    let ids: Vec<Uuid> = distinct(ids).into_iter().map(|id| id.0).collect();
    let found = db
        .query(
            "SELECT t.id, l.place FROM UNNEST($1::uuid[]) AS t (id) LEFT JOIN letters l ON l.id = t.id",
            &[&ids],
        )
        .await
        .map_err(read_error)?;
    let place = |row: &Row| {
        let place: Option<i64> = row.get(1);
        place.map(Place).ok_or(StoreError::NoLetter(LetterId(row.get(0))))
    };
    let mut places: Vec<Place> = found.iter().map(place).collect::<Result<_, _>>()?;
    places.sort_unstable();
    Ok(places)
}

/// A replay that has one of these letters in hand.
async fn holder(db: &Transaction<'_>, places: &[Place]) -> Result<Option<ReplayId>, StoreError> {
    let sql =
        "SELECT r.id FROM letters l JOIN replay_items i ON i.letter = l.id JOIN replays r ON r.seq = i.replay
                WHERE l.place = ANY($1) AND l.status = $2 AND i.state = ANY($3) LIMIT 1";
    let places: Vec<i64> = places.iter().map(|place| place.0).collect();
    let held = [ItemState::Claimed, ItemState::Intended].map(|state| i16::from(state.number())).to_vec();
    let found = db.query_opt(sql, &[&places, &i16::from(Status::Claimed.number()), &held]).await;
    Ok(found.map_err(read_error)?.map(|row| ReplayId(row.get(0))))
}

async fn offer(db: &Transaction<'_>, places: &[Place], planner: &mut Planner<'_>) -> Result<(), StoreError> {
    let places: Vec<i64> = places.iter().map(|place| place.0).collect();
    let sql = "SELECT l.id, l.status, l.msg_key, l.payload_size, l.replays, l.failed_at,
                      EXISTS (SELECT FROM pointers p WHERE p.letter = l.id), g.source,
                      CASE WHEN g.overflow THEN l.own_type ELSE g.event_type END,
                      CASE WHEN g.overflow THEN l.own_class ELSE g.error_class END, g.owner,
                      CASE WHEN g.overflow THEN l.own_consumer ELSE g.consumer END, s.kind, o.status
                 FROM letters l JOIN groups g ON g.id = l.group_id
                 LEFT JOIN suspects s ON s.letter = l.id LEFT JOIN letters o ON o.id = s.related WHERE l.place = ANY($1) ORDER BY l.place";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    for row in db.query(&statement, &[&places]).await.map_err(read_error)? {
        let (source, event_type, error_class) = (text(&row, 7), maybe_text(&row, 8), maybe_text(&row, 9));
        let (owner, consumer) = (maybe_text(&row, 10), maybe_text(&row, 11));
        let candidate = Candidate {
            letter: LetterId(row.get(0)),
            kind: Kind {
                source: &source,
                event_type: event_type.as_deref(),
                error_class: error_class.as_deref(),
                owner: owner.as_deref(),
                consumer: consumer.as_deref(),
            },
            key: row.get(2),
            status: status(row.get(1))?,
            pointer: row.get(6),
            suspected: is_left_out(&row)?,
            payload_size: number(row.get(3), "letters.payload_size")?,
            replays: number(row.get(4), "letters.replays")?,
            failed_at: Timestamp::from_micros(row.get(5)),
        };
        planner.offer(&candidate).map_err(too_many)?;
    }
    Ok(())
}

fn is_left_out(row: &Row) -> Result<bool, StoreError> {
    let Some(kind) = row.get::<_, Option<i16>>(12) else { return Ok(false) };
    Ok(Suspect::is_left_out(suspects::kind(kind)?, status(row.get(13))?))
}

/// Every recovered letter of a source that has a key, one by one: there may be more of them than fit in memory.
async fn tell_recovered(
    db: &Transaction<'_>,
    source: &str,
    planner: &mut Planner<'_>,
) -> Result<(), StoreError> {
    let sql = "SELECT l.msg_key, l.failed_at FROM groups g JOIN letters l ON l.group_id = g.id
                WHERE g.source = $1 AND l.status = ANY($2) AND l.msg_key IS NOT NULL";
    let recovered = [Status::Recovered, Status::Sent].map(|status| i16::from(status.number())).to_vec();
    let name = escape(source).into_owned();
    let values: [&(dyn tokio_postgres::types::ToSql + Sync); 2] = [&name, &recovered];
    let rows = db.query_raw(sql, values).await.map_err(read_error)?;
    futures::pin_mut!(rows);
    while let Some(row) = rows.try_next().await.map_err(read_error)? {
        planner.recovered(source, row.get(0), Timestamp::from_micros(row.get(1)));
    }
    Ok(())
}
