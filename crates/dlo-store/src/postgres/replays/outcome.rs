//! What becomes of what was sent: a person's word, a receipt, or a new death. None of these needs the lease of a run.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::NewLetter;
use dlo_core::replay::{ItemState, parse_send_id};
use dlo_core::time::Timestamp;

use super::super::read_error;
use super::hand::{Hand, Told};
use super::rows::{self, Hold, ReplayRow};
use super::run::keys;
use crate::moves::Move;
use crate::replays::Settling;
use crate::{Deed, StoreError};

pub(super) async fn settle(
    db: &Transaction<'_>,
    id: ReplayId,
    (numbers, how): (&[u64], Settling),
    deed: &Deed,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let head = rows::head(db, id, Hold::Free).await?;
    Hand::new(db, head, &keys(numbers), deed.clone(), now).await?.take_all(how.as_move()).await
}

/// Replay by replay, in the order of their ids.
pub(super) async fn receipts(
    db: &Transaction<'_>,
    receipts: &[(ReplayId, u64)],
    deed: &Deed,
    now: Timestamp,
) -> Result<Vec<bool>, StoreError> {
    let mut by_replay: BTreeMap<ReplayId, Vec<u64>> = BTreeMap::new();
    for (id, number) in receipts {
        by_replay.entry(*id).or_default().push(*number);
    }
    let mut known: BTreeMap<ReplayId, Vec<u64>> = BTreeMap::new();
    for (id, numbers) in by_replay {
        let Some(head) = rows::find_head(db, id, Hold::Free).await? else { continue };
        let hand = Hand::new(db, head, &keys(&numbers), deed.clone(), now).await?;
        known.insert(id, hand.items.keys().copied().collect());
        hand.take_all(Move::RECEIPT).await?;
    }
    let is_known = |(id, number): &(ReplayId, u64)| {
        known.get(id).is_some_and(|numbers| numbers.binary_search(number).is_ok())
    };
    Ok(receipts.iter().map(is_known).collect())
}

/// A death that says of which send it is: that item came back. Whether the letter is in the hands of another replay
/// by now, from which a late death does not take it.
pub(in super::super) async fn come_back(
    db: &Transaction<'_>,
    id: LetterId,
    death: &NewLetter,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let Some((replay, number)) = death.replay_id.as_deref().and_then(parse_send_id) else {
        return Ok(false);
    };
    let Some(head) = rows::find_head(db, replay, Hold::Free).await? else { return Ok(false) };
    let row = head.row;
    let mut hand = Hand::of_run(db, head, &keys(&[number]), now).await?;
    if hand.items.get(&number).is_none_or(|found| found.item.letter != id) {
        return Ok(false);
    }
    hand.take(number, Move::COME_BACK, Told { note: death.error_class.clone(), ..Told::default() });
    hand.finish().await?;
    held_by_another(db, id, row).await
}

async fn held_by_another(db: &Transaction<'_>, id: LetterId, replay: ReplayRow) -> Result<bool, StoreError> {
    use ItemState::{Claimed, InDoubt, Intended, Sent};
    let held = [Claimed, Intended, Sent, InDoubt].map(|state| i16::from(state.number())).to_vec();
    let sql = "SELECT 1 FROM replay_items WHERE letter = $1 AND replay <> $2 AND state = ANY($3) LIMIT 1";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    Ok(db.query_opt(&statement, &[&id.0, &replay, &held]).await.map_err(read_error)?.is_some())
}
