//! Reading replays and their items. Each answer comes from one snapshot.

use std::time::Duration;

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{Item, ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::super::catalog::uuid;
use super::super::{read_error, rows as letters};
use super::items;
use super::rows;
use crate::replays::{IN_HAND, ItemPage, ReplayPage, Return, SAMPLE, percentile_99};
use crate::{Cursor, Page, StoreError};

pub(super) fn one(db: &Connection, id: ReplayId) -> Result<Replay, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    Ok(rows::one(db, id)?.replay)
}

pub(super) fn children(db: &Connection, id: ReplayId) -> Result<Vec<Replay>, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let head = rows::head(db, id)?;
    let found = rows::select(db, "r.parent = ?1 ORDER BY r.ordinal", &[&head.row])?;
    Ok(found.into_iter().map(|found| found.replay).collect())
}

/// Who has a letter in hand.
pub(super) fn holder(db: &Connection, letter: LetterId) -> Result<Option<ReplayId>, StoreError> {
    let sql = "SELECT r.id FROM replay_items i JOIN replays r ON r.row = i.replay
                WHERE i.letter = ?1 AND i.state IN (?2, ?3, ?4, ?5) ORDER BY i.replay DESC LIMIT 1";
    let [claimed, intended, sent, in_doubt] = IN_HAND.map(ItemState::number);
    db.query_row(sql, params![letter.0.as_bytes(), claimed, intended, sent, in_doubt], |row| {
        uuid(row.get_ref(0)?.as_blob().map_err(|_| letters::unreadable("replays.id"))?).map(ReplayId)
    })
    .optional()
    .map_err(read_error)
}

pub(super) fn page(
    db: &Connection,
    state: Option<ReplayState>,
    page: &Page,
) -> Result<ReplayPage, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let before = number_of(page)?.unwrap_or(i64::MAX);
    let state = state.map(ReplayState::number);
    let condition =
        "r.parent IS NULL AND r.row < ?1 AND (?2 IS NULL OR r.state = ?2) ORDER BY r.row DESC LIMIT ?3";
    let mut found = rows::select(db, condition, &[&before, &state, &(page.limit as i64 + 1)])?;
    let more = found.len() > page.limit;
    found.truncate(page.limit);
    let next = found.last().filter(|_| more).map(|last| Cursor(last.row.to_string()));
    Ok(ReplayPage { replays: found.into_iter().map(|found| found.replay).collect(), next })
}

fn number_of(page: &Page) -> Result<Option<i64>, StoreError> {
    let text = page.cursor.as_ref().map(|Cursor(text)| text);
    text.map(|text| text.parse().map_err(|_| StoreError::BadCursor)).transpose()
}

/// Active ones, those that are over and still have work (to give back, to doubt, to wait for), and those that are halted
/// with sends of which nobody recorded what became: to doubt.
pub(super) fn active(db: &Connection) -> Result<Vec<Replay>, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let active = ReplayState::ALL.iter().filter(|state| state.is_active());
    let over = ReplayState::ALL.iter().filter(|state| state.is_over());
    let list = |states: Vec<u8>| states.iter().map(u8::to_string).collect::<Vec<_>>().join(", ");
    let left = [ItemState::Claimed, ItemState::Intended, ItemState::Sent];
    let has = |states: Vec<u8>| {
        let states = list(states);
        format!(
            "EXISTS (SELECT 1 FROM replay_counts c WHERE c.replay = r.row AND c.state IN ({states}) AND c.n > 0)"
        )
    };
    let condition = format!(
        "r.children = 0 AND (r.state IN ({}) OR r.state IN ({}) AND {} OR r.state IN ({}) AND {}) ORDER BY r.row",
        list(active.map(|state| state.number()).collect()),
        list(over.map(|state| state.number()).collect()),
        has(left.iter().map(|state| state.number()).collect()),
        list(vec![ReplayState::Paused.number(), ReplayState::Stopped.number()]),
        has(vec![ItemState::Intended.number()]),
    );
    let found = rows::select(db, &condition, &[])?;
    Ok(found.into_iter().map(|found| found.replay).collect())
}

pub(super) fn items(
    db: &Connection,
    id: ReplayId,
    state: Option<ItemState>,
    page: &Page,
) -> Result<ItemPage, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let head = rows::head(db, id)?;
    let (from, limit) = (number_of(page)?.unwrap_or(0), page.limit as i64 + 1);
    let mut found = match state.map(ItemState::number) {
        None => items::select(db, "number >= ?2 ORDER BY number LIMIT ?3", &[&head.row, &from, &limit])?,
        Some(state) => {
            let rest = "number >= ?2 AND state = ?4 ORDER BY number LIMIT ?3";
            items::select(db, rest, &[&head.row, &from, &limit, &state])?
        }
    };
    let next = found.get(page.limit).map(|next| Cursor(next.number.to_string()));
    found.truncate(page.limit);
    Ok(ItemPage { items: found, next })
}

pub(super) fn marked(db: &Connection, id: ReplayId) -> Result<Option<String>, StoreError> {
    let row = rows::head(db, id)?.row;
    db.query_row("SELECT mark FROM replays WHERE row = ?1", [row], |row| row.get(0)).map_err(read_error)
}

pub(super) fn waiting(
    db: &Connection,
    id: ReplayId,
    before: Timestamp,
    most: usize,
) -> Result<Vec<Item>, StoreError> {
    let row = rows::head(db, id)?.row;
    let rest = "state = 4 AND sent_at <= ?2 ORDER BY sent_at, number LIMIT ?3";
    items::select(db, rest, &[&row, &before.as_micros(), &(most as i64)])
}

/// A batch of deaths has one time, so that what has the time of the last comes along even past `most`.
pub(super) fn returns(
    db: &Connection,
    id: ReplayId,
    since: Timestamp,
    most: usize,
) -> Result<Vec<Return>, StoreError> {
    let head = rows::head(db, id)?;
    let sql = format!(
        "SELECT {} FROM replay_items i WHERE replay = ?1 AND state IN (7, 15) AND at > ?2 ORDER BY at, number",
        rows::ITEM
    );
    let mut statement = db.prepare_cached(&sql).map_err(read_error)?;
    let mut found = statement.query(params![head.row, since.as_micros()]).map_err(read_error)?;
    let mut returns: Vec<Return> = Vec::new();
    while let Some(row) = found.next().map_err(read_error)? {
        let item = rows::item(row).map_err(read_error)?;
        let at = item.at.unwrap_or(since);
        if returns.len() >= most && returns.last().is_none_or(|last| last.at != at) {
            break;
        }
        returns.push(Return {
            number: item.number,
            letter: item.letter,
            sent_at: item.sent_at,
            at,
            error_class: item.note,
            former_class: head.error_class.clone(),
        });
    }
    Ok(returns)
}

/// Of members spread over the replay. One that died again tells nothing: its first failure was long before.
pub(super) fn usual_death(db: &Connection, id: ReplayId) -> Result<Option<Duration>, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let found = rows::one(db, id)?;
    let stride = (found.replay.counts.total() / SAMPLE).max(1);
    let mut read = db
        .prepare_cached(
            "SELECT l.failed_at - l.first_failed_at FROM replay_items i JOIN letters l ON l.id = i.letter
              WHERE i.replay = ?1 AND i.number = ?2 AND l.deaths = 1 AND l.first_failed_at IS NOT NULL",
        )
        .map_err(read_error)?;
    let mut took = Vec::new();
    for number in (0..found.replay.counts.total()).step_by(stride as usize).take(SAMPLE as usize) {
        let micros = read.query_map(params![found.row, number as i64], |row| row.get::<_, i64>(0));
        for micros in micros.map_err(read_error)? {
            took.push(micros.map_err(read_error)?);
        }
    }
    Ok(percentile_99(took))
}
