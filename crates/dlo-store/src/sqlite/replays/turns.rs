//! Where a replay stands: its states, settings and approvals, each change with an audit row.

use dlo_core::id::ReplayId;
use dlo_core::replay::{Approval, Replay, ReplayState, Settings};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::super::{audit, read_error};
use super::rows::{self, ReplayRow};
use crate::moves::{adjustable, approvable, turned};
use crate::replays::Turn;
use crate::{Deed, Event, StoreError};

pub(super) fn turn(
    db: &Connection,
    id: ReplayId,
    turn: &Turn,
    deed: &Deed,
    now: Timestamp,
) -> Result<Replay, StoreError> {
    let found = rows::one(db, id)?;
    let replay = turned(found.replay, turn, now)?;
    db.prepare_cached(
        "UPDATE replays SET state = ?2, started_at = ?3, ended_at = ?4, stop_reason = ?5, stop_letters = ?6
          WHERE row = ?1",
    )
    .map_err(read_error)?
    .execute(params![
        found.row,
        replay.state.number(),
        replay.started_at.map(Timestamp::as_micros),
        replay.ended_at.map(Timestamp::as_micros),
        replay.stop_reason,
        rows::to_json(&replay.stop_letters)?,
    ])
    .map_err(read_error)?;
    note(db, &replay, Event::Replay(turn.to), deed, now)?;
    Ok(replay)
}

pub(super) fn adjust(
    db: &Connection,
    id: ReplayId,
    settings: Settings,
    deed: &Deed,
    now: Timestamp,
) -> Result<Replay, StoreError> {
    let mut found = rows::one(db, id)?;
    adjustable(&found.replay, &settings)?;
    db.execute(
        "UPDATE replays SET settings = ?2 WHERE row = ?1",
        params![found.row, rows::to_json(&settings)?],
    )
    .map_err(read_error)?;
    found.replay.settings = settings;
    note(db, &found.replay, Event::Adjusted, deed, now)?;
    Ok(found.replay)
}

/// Children are approved with their parent.
pub(super) fn approve(
    db: &Connection,
    id: ReplayId,
    deed: &Deed,
    now: Timestamp,
) -> Result<Replay, StoreError> {
    let mut found = rows::one(db, id)?;
    approvable(&found.replay)?;
    if add_approval(db, found.row, &mut found.replay, deed, now)? {
        for mut child in rows::select(db, "r.parent = ?1", &[&found.row])? {
            add_approval(db, child.row, &mut child.replay, deed, now)?;
        }
        note(db, &found.replay, Event::Approved, deed, now)?;
    }
    Ok(found.replay)
}

fn add_approval(
    db: &Connection,
    row: ReplayRow,
    replay: &mut Replay,
    deed: &Deed,
    now: Timestamp,
) -> Result<bool, StoreError> {
    if replay.approvals.iter().any(|approval| approval.author == deed.author) {
        return Ok(false);
    }
    replay.approvals.push(Approval { author: deed.author.clone(), at: now });
    db.execute(
        "UPDATE replays SET approvals = ?2 WHERE row = ?1",
        params![row, rows::to_json(&replay.approvals)?],
    )
    .map_err(read_error)?;
    Ok(true)
}

fn note(
    db: &Connection,
    replay: &Replay,
    event: Event,
    deed: &Deed,
    now: Timestamp,
) -> Result<(), StoreError> {
    let stop = replay
        .stop_reason
        .clone()
        .filter(|_| matches!(event, Event::Replay(ReplayState::Paused | ReplayState::Stopped)));
    audit::append(
        db,
        &audit::Row {
            reason: deed.reason.clone().or(stop),
            reference: Some(replay.id.to_string()),
            source: replay.source.clone(),
            ..audit::Row::by(now, event, replay.counts.total(), deed)
        },
    )
}
