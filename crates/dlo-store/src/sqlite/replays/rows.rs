//! Replays as rows. Column lists stand once; their order is the order of the reading.

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{Item, ItemCounts, ItemState, Replay, ReplayCause, ReplayState};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, Row, params};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::super::catalog::uuid;
use super::super::read_error;
use super::super::rows::unreadable;
use super::super::steps::{self, Standing};
use crate::StoreError;

/// The row number of a replay, which items carry.
pub(super) type ReplayRow = i64;

/// What a write needs to know of its replay.
#[derive(Debug, Clone)]
pub(super) struct Head {
    pub(super) row: ReplayRow,
    pub(super) id: ReplayId,
    pub(super) state: ReplayState,
    pub(super) author: String,
    /// Every member had it when the plan was made.
    pub(super) error_class: Option<String>,
}

pub(super) fn head(db: &Connection, id: ReplayId) -> Result<Head, StoreError> {
    find_head(db, id)?.ok_or(StoreError::NoReplay(id))
}

pub(super) fn find_head(db: &Connection, id: ReplayId) -> Result<Option<Head>, StoreError> {
    db.prepare_cached("SELECT row, state, author, error_class FROM replays WHERE id = ?1")
        .map_err(read_error)?
        .query_row([id.0.as_bytes()], |row| {
            let state = ReplayState::from_number(row.get(1)?).ok_or_else(|| unreadable("replays.state"))?;
            Ok(Head { row: row.get(0)?, id, state, author: row.get(2)?, error_class: row.get(3)? })
        })
        .optional()
        .map_err(read_error)
}

const REPLAY: &str = "r.row, r.id, p.id, r.ordinal, r.children, r.state, r.query, r.source, r.event_type, r.error_class,
    r.cause, r.settings, r.author, r.reason, r.created_at, r.expires_at, r.started_at, r.ended_at, r.stop_reason,
    r.stop_letters, r.approvals, r.approvals_needed, r.by_class, r.excluded, r.doubts";

/// A replay with what only the store needs to know of it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) row: ReplayRow,
    children: u32,
    pub(super) replay: Replay,
}

/// Replays under a condition on `replays r`, with their counts.
pub(super) fn select(
    db: &Connection,
    condition: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<Found>, StoreError> {
    let sql =
        format!("SELECT {REPLAY} FROM replays r LEFT JOIN replays p ON p.row = r.parent WHERE {condition}");
    let mut statement = db.prepare_cached(&sql).map_err(read_error)?;
    let found: Vec<Found> =
        statement.query_map(values, replay).and_then(Iterator::collect).map_err(read_error)?;
    found.into_iter().map(|found| with_counts(db, found)).collect()
}

pub(super) fn one(db: &Connection, id: ReplayId) -> Result<Found, StoreError> {
    select(db, "r.id = ?1", &[&id.0.as_bytes()])?.pop().ok_or(StoreError::NoReplay(id))
}

fn replay(row: &Row<'_>) -> rusqlite::Result<Found> {
    let time = |index: usize| row.get::<_, Option<i64>>(index).map(|at| at.map(Timestamp::from_micros));
    let id: Vec<u8> = row.get(1)?;
    let parent: Option<Vec<u8>> = row.get(2)?;
    let cause: Option<u8> = row.get(10)?;
    let cause = cause.map(|code| ReplayCause::from_number(code).ok_or_else(|| unreadable("replays.cause")));
    let replay = Replay {
        id: ReplayId(uuid(&id)?),
        parent: parent.map(|id| uuid(&id)).transpose()?.map(ReplayId),
        ordinal: row.get(3)?,
        state: ReplayState::from_number(row.get(5)?).ok_or_else(|| unreadable("replays.state"))?,
        query: row.get(6)?,
        source: row.get(7)?,
        event_type: row.get(8)?,
        error_class: row.get(9)?,
        cause: cause.transpose()?,
        settings: json(row, 11, "replays.settings")?,
        author: row.get(12)?,
        reason: row.get(13)?,
        created_at: Timestamp::from_micros(row.get(14)?),
        expires_at: Timestamp::from_micros(row.get(15)?),
        started_at: time(16)?,
        ended_at: time(17)?,
        stop_reason: row.get(18)?,
        stop_letters: json(row, 19, "replays.stop_letters")?,
        approvals: json(row, 20, "replays.approvals")?,
        approvals_needed: row.get(21)?,
        by_class: json(row, 22, "replays.by_class")?,
        excluded: json(row, 23, "replays.excluded")?,
        doubts: json(row, 24, "replays.doubts")?,
        counts: ItemCounts::default(),
    };
    Ok(Found { row: row.get(0)?, children: row.get(4)?, replay })
}

fn json<T: DeserializeOwned>(row: &Row<'_>, index: usize, column: &'static str) -> rusqlite::Result<T> {
    let text: String = row.get(index)?;
    serde_json::from_str(&text).map_err(|_| unreadable(column))
}

fn with_counts(db: &Connection, mut found: Found) -> Result<Found, StoreError> {
    let sql = if found.children == 0 {
        "SELECT state, n FROM replay_counts WHERE replay = ?1"
    } else {
        "SELECT c.state, sum(c.n) FROM replays r JOIN replay_counts c ON c.replay = r.row WHERE r.parent = ?1
          GROUP BY c.state"
    };
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let counts = statement
        .query_map([found.row], |row| Ok((item_state(row, 0)?, row.get::<_, i64>(1)?)))
        .map_err(read_error)?;
    for count in counts {
        let (state, n) = count.map_err(read_error)?;
        found.replay.counts.set(state, n as u64);
    }
    Ok(found)
}

pub(super) fn insert(
    db: &Connection,
    row: ReplayRow,
    parent: Option<ReplayRow>,
    children: usize,
    replay: &Replay,
) -> Result<(), StoreError> {
    let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    db.prepare_cached(
        "INSERT INTO replays VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18,
         ?19, ?20, ?21, ?22, ?23, ?24, ?25, NULL, 0)",
    )
    .map_err(read_error)?
    .execute(params![
        row,
        replay.id.0.as_bytes(),
        parent,
        replay.ordinal,
        children as i64,
        replay.state.number(),
        replay.query,
        replay.source,
        replay.event_type,
        replay.error_class,
        replay.cause.map(ReplayCause::number),
        to_json(&replay.settings)?,
        replay.author,
        replay.reason,
        replay.created_at.as_micros(),
        replay.expires_at.as_micros(),
        micros(replay.started_at),
        micros(replay.ended_at),
        replay.stop_reason,
        to_json(&replay.stop_letters)?,
        to_json(&replay.approvals)?,
        replay.approvals_needed,
        to_json(&replay.by_class)?,
        to_json(&replay.excluded)?,
        to_json(&replay.doubts)?,
    ])
    .map_err(read_error)?;
    Ok(())
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError::Refused(e.to_string()))
}

/// The columns of an item in `replay_items i`.
pub(super) const ITEM: &str =
    "i.number, i.letter, i.state, i.at, i.sent_at, i.partition, i.log_offset, i.note, i.lane, i.waits";

/// An item with what only the store needs to know of it, and where its letter stands; `None`: it is not here.
#[derive(Debug, Clone)]
pub(super) struct FoundItem {
    pub(super) item: Item,
    pub(super) lane: Option<i64>,
    pub(super) waits: bool,
    pub(super) standing: Option<Standing>,
}

/// Reads the columns of [`ITEM`].
pub(super) fn item(row: &Row<'_>) -> rusqlite::Result<Item> {
    let time = |index: usize| row.get::<_, Option<i64>>(index).map(|at| at.map(Timestamp::from_micros));
    Ok(Item {
        number: row.get::<_, i64>(0)? as u64,
        letter: letter(row, 1)?,
        state: item_state(row, 2)?,
        at: time(3)?,
        sent_at: time(4)?,
        partition: row.get(5)?,
        offset: row.get(6)?,
        note: row.get(7)?,
    })
}

/// Reads the columns of [`ITEM`] and those of [`steps::STANDING`] behind them.
pub(super) fn found_item(row: &Row<'_>) -> rusqlite::Result<FoundItem> {
    Ok(FoundItem {
        item: item(row)?,
        lane: row.get(8)?,
        waits: row.get(9)?,
        standing: steps::standing(row, 10)?,
    })
}

pub(super) fn letter(row: &Row<'_>, index: usize) -> rusqlite::Result<LetterId> {
    let bytes = row.get_ref(index)?.as_blob().map_err(|_| unreadable("replay_items.letter"))?;
    uuid(bytes).map(LetterId)
}

pub(super) fn item_state(row: &Row<'_>, index: usize) -> rusqlite::Result<ItemState> {
    ItemState::from_number(row.get(index)?).ok_or_else(|| unreadable("replay_items.state"))
}
