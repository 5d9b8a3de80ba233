//! Where a replay stands: its states, settings and approvals, each change with an audit row.

use deadpool_postgres::Transaction;
use dlo_core::id::ReplayId;
use dlo_core::replay::{Approval, Replay, ReplayState, Settings};
use dlo_core::time::Timestamp;

use super::super::text::escape_option;
use super::super::{audit, read_error};
use super::rows::{self, Found, Hold, ReplayRow};
use crate::moves::{adjustable, approvable, turned};
use crate::replays::Turn;
use crate::{Deed, Event, StoreError};

/// The replay, which nobody else changes meanwhile.
async fn locked(db: &Transaction<'_>, id: ReplayId) -> Result<Found, StoreError> {
    rows::head(db, id, Hold::Update).await?;
    rows::one(db, id).await
}

pub(super) async fn turn(
    db: &Transaction<'_>,
    id: ReplayId,
    turn: &Turn,
    deed: &Deed,
    now: Timestamp,
) -> Result<Replay, StoreError> {
    let found = locked(db, id).await?;
    let replay = turned(found.replay, turn, now)?;
    let micros = |time: Option<Timestamp>| time.map(Timestamp::as_micros);
    db.execute(
        "UPDATE replays SET state = $2, started_at = $3, ended_at = $4, stop_reason = $5, stop_letters = $6
          WHERE seq = $1",
        &[
            &found.row,
            &i16::from(replay.state.number()),
            &micros(replay.started_at),
            &micros(replay.ended_at),
            &escape_option(&replay.stop_reason),
            &rows::to_json(&replay.stop_letters)?,
        ],
    )
    .await
    .map_err(read_error)?;
    note(db, &replay, Event::Replay(turn.to), deed, now).await?;
    Ok(replay)
}

pub(super) async fn adjust(
    db: &Transaction<'_>,
    id: ReplayId,
    settings: &Settings,
    deed: &Deed,
    now: Timestamp,
) -> Result<Replay, StoreError> {
    let mut found = locked(db, id).await?;
    adjustable(&found.replay, settings)?;
    let json = rows::to_json(settings)?;
    db.execute("UPDATE replays SET settings = $2 WHERE seq = $1", &[&found.row, &json])
        .await
        .map_err(read_error)?;
    found.replay.settings = settings.clone();
    note(db, &found.replay, Event::Adjusted, deed, now).await?;
    Ok(found.replay)
}

/// Children are approved with their parent.
pub(super) async fn approve(
    db: &Transaction<'_>,
    id: ReplayId,
    deed: &Deed,
    now: Timestamp,
) -> Result<Replay, StoreError> {
    let mut found = locked(db, id).await?;
    approvable(&found.replay)?;
    if add_approval(db, found.row, &mut found.replay, deed, now).await? {
        for mut child in rows::select(db, "r.parent = $1 ORDER BY r.seq", &[&found.row]).await? {
            add_approval(db, child.row, &mut child.replay, deed, now).await?;
        }
        note(db, &found.replay, Event::Approved, deed, now).await?;
    }
    Ok(found.replay)
}

async fn add_approval(
    db: &Transaction<'_>,
    row: ReplayRow,
    replay: &mut Replay,
    deed: &Deed,
    now: Timestamp,
) -> Result<bool, StoreError> {
    if replay.approvals.iter().any(|approval| approval.author == deed.author) {
        return Ok(false);
    }
    replay.approvals.push(Approval { author: deed.author.clone(), at: now });
    let json = rows::to_json(&replay.approvals)?;
    db.execute("UPDATE replays SET approvals = $2 WHERE seq = $1", &[&row, &json])
        .await
        .map_err(read_error)?;
    Ok(true)
}

async fn note(
    db: &Transaction<'_>,
    replay: &Replay,
    event: Event,
    deed: &Deed,
    now: Timestamp,
) -> Result<(), StoreError> {
    let stops = matches!(event, Event::Replay(ReplayState::Paused | ReplayState::Stopped));
    let row = audit::Row {
        reason: deed.reason.clone().or_else(|| replay.stop_reason.clone().filter(|_| stops)),
        reference: Some(replay.id.to_string()),
        source: replay.source.clone(),
        ..audit::Row::by(now, event, replay.counts.total(), deed)
    };
    audit::append(db, &[row]).await
}
