//! What must hold of replays: counts are those of the items, and what is in hand is in one hand.

use dlo_core::letter::Status;
use dlo_core::replay::ItemState;
use rusqlite::{Connection, params};

use super::super::read_error;
use crate::StoreError;

/// What does not hold, in sentences.
pub(in super::super) fn problems(db: &Connection) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    let miscounted: i64 = db
        .query_row(
            "SELECT count(*) FROM (
               SELECT replay, state, sum(n) AS n FROM (
                 SELECT replay, state, n FROM replay_counts
                 UNION ALL SELECT i.replay, i.state, -count(*) FROM replay_items i
                   JOIN replays r ON r.row = i.replay GROUP BY i.replay, i.state)
               GROUP BY replay, state) WHERE n <> 0",
            [],
            |row| row.get(0),
        )
        .map_err(read_error)?;
    if miscounted > 0 {
        problems.push(format!("{miscounted} counts of replays are not those of their items"));
    }
    let (claimed, doubtful) = (Status::Claimed.number(), Status::InDoubt.number());
    let states = [ItemState::Claimed, ItemState::Intended, ItemState::InDoubt].map(ItemState::number);
    let hands: i64 = db
        .query_row(
            "SELECT count(*) FROM letters l WHERE l.status IN (?1, ?2) AND 1 <>
               (SELECT count(*) FROM replay_items i JOIN replays r ON r.row = i.replay
                 WHERE i.letter = l.id AND CASE l.status WHEN ?1 THEN i.state IN (?3, ?4) ELSE i.state = ?5 END)",
            params![claimed, doubtful, states[0], states[1], states[2]],
            |row| row.get(0),
        )
        .map_err(read_error)?;
    if hands > 0 {
        problems.push(format!("{hands} letters are claimed or in doubt, and not in one replay each"));
    }
    let lost: i64 = db
        .query_row(
            "SELECT count(*) FROM replay_items i JOIN replays r ON r.row = i.replay
              WHERE i.state IN (?3, ?4, ?5) AND NOT EXISTS (SELECT 1 FROM letters l WHERE l.id = i.letter
                AND l.status = CASE i.state WHEN ?5 THEN ?2 ELSE ?1 END)",
            params![claimed, doubtful, states[0], states[1], states[2]],
            |row| row.get(0),
        )
        .map_err(read_error)?;
    if lost > 0 {
        problems.push(format!("{lost} letters are in the hands of a replay, and stand elsewhere"));
    }
    Ok(problems)
}
