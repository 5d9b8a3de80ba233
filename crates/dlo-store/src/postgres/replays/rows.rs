//! Replays as rows. Column lists stand once; their order is the order of the reading.

use deadpool_postgres::Transaction;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{Item, ItemCounts, ItemState, Replay, ReplayCause, ReplayState};
use dlo_core::time::Timestamp;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::super::read_error;
use super::super::rows::{code, maybe_text, number, text, unreadable};
use super::super::text::{escape, escape_option};
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
    pub(super) next_claim: i64,
}

/// How the row of a replay is held while something is done with it.
#[derive(Debug, Clone, Copy)]
pub(super) enum Hold {
    Free,
    /// It does not change meanwhile: a pause waits for us, or we for it.
    Share,
    /// It is changed.
    Update,
}

pub(super) async fn head(db: &Transaction<'_>, id: ReplayId, hold: Hold) -> Result<Head, StoreError> {
    find_head(db, id, hold).await?.ok_or(StoreError::NoReplay(id))
}

pub(super) async fn find_head(
    db: &Transaction<'_>,
    id: ReplayId,
    hold: Hold,
) -> Result<Option<Head>, StoreError> {
    let lock = match hold {
        Hold::Free => "",
        Hold::Share => "FOR SHARE",
        Hold::Update => "FOR UPDATE",
    };
    let sql = format!("SELECT seq, state, author, error_class, next_claim FROM replays WHERE id = $1 {lock}");
    let statement = db.prepare_cached(&sql).await.map_err(read_error)?;
    let Some(row) = db.query_opt(&statement, &[&id.0]).await.map_err(read_error)? else { return Ok(None) };
    Ok(Some(Head {
        row: row.get(0),
        id,
        state: code(row.get(1), ReplayState::from_number, "replays.state")?,
        author: text(&row, 2),
        error_class: maybe_text(&row, 3),
        next_claim: row.get(4),
    }))
}

const REPLAY: &str = "r.seq, r.id, p.id, r.ordinal, r.children, r.state, r.query, r.source, r.event_type, r.error_class,
    r.cause, r.settings, r.author, r.reason, r.created_at, r.expires_at, r.started_at, r.ended_at, r.stop_reason,
    r.stop_letters, r.approvals, r.approvals_needed, r.by_class, r.excluded, r.doubts";

/// A replay with what only the store needs to know of it.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) row: ReplayRow,
    children: i64,
    pub(super) replay: Replay,
}

/// Replays under a condition on `replays r`, with their counts.
pub(super) async fn select(
    db: &Transaction<'_>,
    condition: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Found>, StoreError> {
    let sql =
        format!("SELECT {REPLAY} FROM replays r LEFT JOIN replays p ON p.seq = r.parent WHERE {condition}");
    let statement = db.prepare_cached(&sql).await.map_err(read_error)?;
    let rows = db.query(&statement, values).await.map_err(read_error)?;
    let mut found: Vec<Found> = rows.iter().map(replay).collect::<Result<_, _>>()?;
    for one in &mut found {
        one.replay.counts = counts(db, one).await?;
    }
    Ok(found)
}

pub(super) async fn one(db: &Transaction<'_>, id: ReplayId) -> Result<Found, StoreError> {
    select(db, "r.id = $1", &[&id.0]).await?.pop().ok_or(StoreError::NoReplay(id))
}

fn replay(row: &Row) -> Result<Found, StoreError> {
    let time = |index: usize| row.get::<_, Option<i64>>(index).map(Timestamp::from_micros);
    let cause: Option<i16> = row.get(10);
    let cause = cause.map(|cause| code(cause, ReplayCause::from_number, "replays.cause"));
    let needed: i16 = row.get(21);
    let replay = Replay {
        id: ReplayId(row.get(1)),
        parent: row.get::<_, Option<uuid::Uuid>>(2).map(ReplayId),
        ordinal: number(row.get(3), "replays.ordinal")?,
        state: code(row.get(5), ReplayState::from_number, "replays.state")?,
        query: maybe_text(row, 6),
        source: maybe_text(row, 7),
        event_type: maybe_text(row, 8),
        error_class: maybe_text(row, 9),
        cause: cause.transpose()?,
        settings: json(row, 11, "replays.settings")?,
        author: text(row, 12),
        reason: text(row, 13),
        created_at: Timestamp::from_micros(row.get(14)),
        expires_at: Timestamp::from_micros(row.get(15)),
        started_at: time(16),
        ended_at: time(17),
        stop_reason: maybe_text(row, 18),
        stop_letters: json(row, 19, "replays.stop_letters")?,
        approvals: json(row, 20, "replays.approvals")?,
        approvals_needed: u8::try_from(needed).map_err(|_| unreadable("replays.approvals_needed"))?,
        by_class: json(row, 22, "replays.by_class")?,
        excluded: json(row, 23, "replays.excluded")?,
        doubts: json(row, 24, "replays.doubts")?,
        counts: ItemCounts::default(),
    };
    Ok(Found { row: row.get(0), children: row.get(4), replay })
}

/// JSON escapes by itself what PostgreSQL cannot keep.
fn json<T: DeserializeOwned>(row: &Row, index: usize, column: &'static str) -> Result<T, StoreError> {
    serde_json::from_str(row.get(index)).map_err(|_| unreadable(column))
}

pub(super) fn to_json(value: &impl Serialize) -> Result<String, StoreError> {
    serde_json::to_string(value).map_err(|e| StoreError::Refused(e.to_string()))
}

async fn counts(db: &Transaction<'_>, found: &Found) -> Result<ItemCounts, StoreError> {
    let sql = if found.children == 0 {
        "SELECT state, n FROM replay_counts WHERE replay = $1"
    } else {
        "SELECT c.state, sum(c.n)::bigint FROM replays r JOIN replay_counts c ON c.replay = r.seq
          WHERE r.parent = $1 GROUP BY c.state"
    };
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let mut counts = ItemCounts::default();
    for row in db.query(&statement, &[&found.row]).await.map_err(read_error)? {
        counts.set(item_state(row.get(0))?, number(row.get(1), "replay_counts.n")?);
    }
    Ok(counts)
}

pub(super) async fn insert(
    db: &Transaction<'_>,
    parent: Option<ReplayRow>,
    children: usize,
    replay: &Replay,
) -> Result<ReplayRow, StoreError> {
    let sql = "INSERT INTO replays (id, parent, ordinal, children, state, query, source, event_type, error_class, cause,
                 settings, author, reason, created_at, expires_at, stop_letters, approvals, approvals_needed, by_class,
                 excluded, doubts)
               VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, '[]', '[]', $16, $17, $18, $19)
               RETURNING seq";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let row = db
        .query_one(
            &statement,
            &[
                &replay.id.0,
                &parent,
                &i64::from(replay.ordinal),
                &(children as i64),
                &i16::from(replay.state.number()),
                &escape_option(&replay.query),
                &escape_option(&replay.source),
                &escape_option(&replay.event_type),
                &escape_option(&replay.error_class),
                &replay.cause.map(|cause| i16::from(cause.number())),
                &to_json(&replay.settings)?,
                &escape(&replay.author),
                &escape(&replay.reason),
                &replay.created_at.as_micros(),
                &replay.expires_at.as_micros(),
                &i16::from(replay.approvals_needed),
                &to_json(&replay.by_class)?,
                &to_json(&replay.excluded)?,
                &to_json(&replay.doubts)?,
            ],
        )
        .await
        .map_err(read_error)?;
    Ok(row.get(0))
}

pub(super) const ITEM: &str = "number, letter, state, at, sent_at, partition, log_offset, note, lane, waits";

/// An item with what only the store needs to know of it.
#[derive(Debug, Clone)]
pub(super) struct FoundItem {
    pub(super) item: Item,
    pub(super) lane: Option<i64>,
    /// An earlier one of its lane has no good end.
    pub(super) waits: bool,
}

/// Reads the columns of [`ITEM`].
pub(super) fn item(row: &Row) -> Result<FoundItem, StoreError> {
    let time = |index: usize| row.get::<_, Option<i64>>(index).map(Timestamp::from_micros);
    let item = Item {
        number: number(row.get(0), "replay_items.number")?,
        letter: LetterId(row.get(1)),
        state: item_state(row.get(2))?,
        at: time(3),
        sent_at: time(4),
        partition: row.get(5),
        offset: row.get(6),
        note: maybe_text(row, 7),
    };
    Ok(FoundItem { item, lane: row.get(8), waits: row.get(9) })
}

pub(super) fn item_state(number: i16) -> Result<ItemState, StoreError> {
    code(number, ItemState::from_number, "replay_items.state")
}

/// Items of a replay under a condition, in the order given; `$1` is the replay.
pub(super) async fn items(
    db: &Transaction<'_>,
    rest: &str,
    values: &[&(dyn ToSql + Sync)],
) -> Result<Vec<FoundItem>, StoreError> {
    let sql = format!("SELECT {ITEM} FROM replay_items WHERE replay = $1 AND {rest}");
    let statement = db.prepare_cached(&sql).await.map_err(read_error)?;
    db.query(&statement, values).await.map_err(read_error)?.iter().map(item).collect()
}
