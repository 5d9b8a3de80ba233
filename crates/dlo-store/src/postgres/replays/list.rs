//! Reading replays and their items. Each answer comes from one snapshot.

use std::time::Duration;

use deadpool_postgres::Transaction;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{Item, ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;

use super::super::read_error;
use super::super::text::unescape;
use super::rows::{self, Found, FoundItem, Hold};
use crate::replays::{IN_HAND, ItemPage, ReplayPage, Return, SAMPLE, percentile_99};
use crate::{Cursor, Page, StoreError};

pub(super) async fn one(db: &Transaction<'_>, id: ReplayId) -> Result<Replay, StoreError> {
    Ok(rows::one(db, id).await?.replay)
}

fn plain(found: Vec<Found>) -> Vec<Replay> {
    found.into_iter().map(|found| found.replay).collect()
}

fn plain_items(found: Vec<FoundItem>) -> Vec<Item> {
    found.into_iter().map(|found| found.item).collect()
}

pub(super) async fn children(db: &Transaction<'_>, id: ReplayId) -> Result<Vec<Replay>, StoreError> {
    let head = rows::head(db, id, Hold::Free).await?;
    rows::select(db, "r.parent = $1 ORDER BY r.ordinal", &[&head.row]).await.map(plain)
}

/// Who has a letter in hand.
pub(super) async fn holder(db: &Transaction<'_>, letter: LetterId) -> Result<Option<ReplayId>, StoreError> {
    let sql = "SELECT r.id FROM replay_items i JOIN replays r ON r.seq = i.replay
                WHERE i.letter = $1 AND i.state = ANY($2) ORDER BY i.replay DESC LIMIT 1";
    let held = IN_HAND.map(|state| i16::from(state.number())).to_vec();
    let found = db.query_opt(sql, &[&letter.0, &held]).await.map_err(read_error)?;
    Ok(found.map(|row| ReplayId(row.get(0))))
}

pub(super) async fn page(
    db: &Transaction<'_>,
    state: Option<ReplayState>,
    page: &Page,
) -> Result<ReplayPage, StoreError> {
    let before = number_of(page)?.unwrap_or(i64::MAX);
    let state = state.map(|state| i16::from(state.number()));
    let condition = "r.parent IS NULL AND r.seq < $1 AND ($2::smallint IS NULL OR r.state = $2)
                     ORDER BY r.seq DESC LIMIT $3";
    let mut found = rows::select(db, condition, &[&before, &state, &(page.limit as i64 + 1)]).await?;
    let more = found.len() > page.limit;
    found.truncate(page.limit);
    let next = found.last().filter(|_| more).map(|last| Cursor(last.row.to_string()));
    Ok(ReplayPage { replays: plain(found), next })
}

fn number_of(page: &Page) -> Result<Option<i64>, StoreError> {
    let text = page.cursor.as_ref().map(|Cursor(text)| text);
    text.map(|text| text.parse().map_err(|_| StoreError::BadCursor)).transpose()
}

/// Active ones, those that are over and still have work (to give back, to doubt, to wait for), and those that are halted
/// with sends of which nobody recorded what became: to doubt.
pub(super) async fn active(db: &Transaction<'_>) -> Result<Vec<Replay>, StoreError> {
    let states = |wanted: fn(ReplayState) -> bool| {
        let states = ReplayState::ALL.iter().filter(move |state| wanted(**state));
        states.map(|state| i16::from(state.number())).collect::<Vec<_>>()
    };
    let left = [ItemState::Claimed, ItemState::Intended, ItemState::Sent];
    let left = left.map(|state| i16::from(state.number())).to_vec();
    let intended = i16::from(ItemState::Intended.number());
    let condition = "r.children = 0 AND (r.state = ANY($1)
        OR r.state = ANY($2) AND EXISTS
           (SELECT FROM replay_counts c WHERE c.replay = r.seq AND c.state = ANY($3) AND c.n > 0)
        OR r.state = ANY($4) AND EXISTS
           (SELECT FROM replay_counts c WHERE c.replay = r.seq AND c.state = $5 AND c.n > 0)) ORDER BY r.seq";
    let halted = |state| matches!(state, ReplayState::Paused | ReplayState::Stopped);
    let (active, over) = (states(ReplayState::is_active), states(ReplayState::is_over));
    rows::select(db, condition, &[&active, &over, &left, &states(halted), &intended]).await.map(plain)
}

pub(super) async fn items(
    db: &Transaction<'_>,
    id: ReplayId,
    state: Option<ItemState>,
    page: &Page,
) -> Result<ItemPage, StoreError> {
    let head = rows::head(db, id, Hold::Free).await?;
    let (from, limit) = (number_of(page)?.unwrap_or(0), page.limit as i64 + 1);
    let state = state.map(|state| i16::from(state.number()));
    let rest = "number >= $2 AND ($4::smallint IS NULL OR state = $4) ORDER BY number LIMIT $3";
    let mut found = rows::items(db, rest, &[&head.row, &from, &limit, &state]).await?;
    let next = found.get(page.limit).map(|next| Cursor(next.item.number.to_string()));
    found.truncate(page.limit);
    Ok(ItemPage { items: plain_items(found), next })
}

pub(super) async fn marked(db: &Transaction<'_>, id: ReplayId) -> Result<Option<String>, StoreError> {
    let row = rows::head(db, id, Hold::Free).await?.row;
    let found = db.query_one("SELECT mark FROM replays WHERE seq = $1", &[&row]).await.map_err(read_error)?;
    Ok(found.get::<_, Option<String>>(0).map(unescape))
}

pub(super) async fn waiting(
    db: &Transaction<'_>,
    id: ReplayId,
    before: Timestamp,
    most: usize,
) -> Result<Vec<Item>, StoreError> {
    let row = rows::head(db, id, Hold::Free).await?.row;
    let rest = "state = 4 AND sent_at <= $2 ORDER BY sent_at, number LIMIT $3";
    rows::items(db, rest, &[&row, &before.as_micros(), &(most as i64)]).await.map(plain_items)
}

/// A batch of deaths has one time, so that what has the time of the last comes along even past `most`.
pub(super) async fn returns(
    db: &Transaction<'_>,
    id: ReplayId,
    since: Timestamp,
    most: usize,
) -> Result<Vec<Return>, StoreError> {
    let head = rows::head(db, id, Hold::Free).await?;
    let rest = "state IN (7, 15) AND at > $2 ORDER BY at FETCH FIRST $3 ROWS WITH TIES";
    let mut found =
        plain_items(rows::items(db, rest, &[&head.row, &since.as_micros(), &(most as i64)]).await?);
    found.sort_by_key(|item| (item.at, item.number));
    let back = |item: Item| Return {
        number: item.number,
        letter: item.letter,
        sent_at: item.sent_at,
        at: item.at.unwrap_or(since),
        error_class: item.note,
        former_class: head.error_class.clone(),
    };
    Ok(found.into_iter().map(back).collect())
}

/// Of members spread over the replay. One that died again tells nothing: its first failure was long before.
pub(super) async fn usual_death(db: &Transaction<'_>, id: ReplayId) -> Result<Option<Duration>, StoreError> {
    let found = rows::one(db, id).await?;
    let total = found.replay.counts.total();
    let stride = (total / SAMPLE).max(1) as usize;
    let numbers: Vec<i64> = (0..total as i64).step_by(stride).take(SAMPLE as usize).collect();
    let sql = "SELECT l.failed_at - l.first_failed_at FROM replay_items i JOIN letters l ON l.id = i.letter
                WHERE i.replay = $1 AND i.number = ANY($2) AND l.deaths = 1 AND l.first_failed_at IS NOT NULL";
    let took = db.query(sql, &[&found.row, &numbers]).await.map_err(read_error)?;
    Ok(percentile_99(took.iter().map(|row| row.get(0)).collect()))
}
