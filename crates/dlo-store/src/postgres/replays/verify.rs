//! What must hold of replays: counts are those of the items, and what is in hand is in one hand.

use deadpool_postgres::Transaction;
use dlo_core::letter::Status;
use dlo_core::replay::ItemState;

use super::super::read_error;
use crate::StoreError;

/// What does not hold, in sentences.
pub(in super::super) async fn problems(db: &Transaction<'_>) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    let sql = "SELECT count(*) FROM (
                 SELECT sum(n) AS n FROM (
                   SELECT replay, state, n FROM replay_counts
                   UNION ALL SELECT replay, state, -count(*) FROM replay_items GROUP BY replay, state) c
                  GROUP BY replay, state) s WHERE n <> 0";
    let miscounted: i64 = db.query_one(sql, &[]).await.map_err(read_error)?.get(0);
    if miscounted > 0 {
        problems.push(format!("{miscounted} counts of replays are not those of their items"));
    }
    let (claimed, doubtful) = (i16::from(Status::Claimed.number()), i16::from(Status::InDoubt.number()));
    let held = [ItemState::Claimed, ItemState::Intended].map(|state| i16::from(state.number())).to_vec();
    let in_doubt = i16::from(ItemState::InDoubt.number());
    let sql = "SELECT count(*) FROM letters l WHERE l.status IN ($1, $2) AND 1 <>
                 (SELECT count(*) FROM replay_items i WHERE i.letter = l.id
                   AND CASE WHEN l.status = $1 THEN i.state = ANY($3) ELSE i.state = $4 END)";
    let hands: i64 =
        db.query_one(sql, &[&claimed, &doubtful, &held, &in_doubt]).await.map_err(read_error)?.get(0);
    if hands > 0 {
        problems.push(format!("{hands} letters are claimed or in doubt, and not in one replay each"));
    }
    let sql = "SELECT count(*) FROM replay_items i WHERE (i.state = ANY($3) OR i.state = $4) AND NOT EXISTS
                 (SELECT FROM letters l WHERE l.id = i.letter
                   AND l.status = CASE WHEN i.state = $4 THEN $2::smallint ELSE $1::smallint END)";
    let lost: i64 =
        db.query_one(sql, &[&claimed, &doubtful, &held, &in_doubt]).await.map_err(read_error)?.get(0);
    if lost > 0 {
        problems.push(format!("{lost} letters are in the hands of a replay, and stand elsewhere"));
    }
    Ok(problems)
}
