//! What becomes of what was sent: a person's word, a receipt, or a new death. None of these needs the lease of a run.

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::NewLetter;
use dlo_core::replay::{ItemState, parse_send_id};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::super::catalog::Staged;
use super::super::read_error;
use super::hand::{Hand, Told};
use super::items;
use super::{rows, run};
use crate::moves::Move;
use crate::replays::Settling;
use crate::{Deed, StoreError};

pub(super) fn settle(
    db: &Connection,
    staged: &mut Staged,
    id: ReplayId,
    (numbers, how): (&[u64], Settling),
    deed: &Deed,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let head = rows::head(db, id)?;
    let found = items::named(db, head.row, numbers.iter().copied())?;
    run::take_all(Hand::new(db, staged, head, deed.clone(), now), found, how.as_move())
}

pub(super) fn receipts(
    db: &Connection,
    staged: &mut Staged,
    receipts: &[(ReplayId, u64)],
    deed: &Deed,
    now: Timestamp,
) -> Result<Vec<bool>, StoreError> {
    let mut known = Vec::with_capacity(receipts.len());
    for (id, number) in receipts {
        let Some(head) = rows::find_head(db, *id)? else {
            known.push(false);
            continue;
        };
        let found = items::find(db, head.row, *number)?;
        known.push(found.is_some());
        if let Some(found) = found {
            let mut hand = Hand::new(db, staged, head, deed.clone(), now);
            hand.take(found, Move::RECEIPT, Told::default());
            hand.finish()?;
        }
    }
    Ok(known)
}

/// A death that says of which send it is: that item came back. Whether the letter is in the hands of another replay
/// by now, from which a late death does not take it.
pub(in super::super) fn come_back(
    db: &Connection,
    staged: &mut Staged,
    id: LetterId,
    death: &NewLetter,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let Some((replay, number)) = death.replay_id.as_deref().and_then(parse_send_id) else {
        return Ok(false);
    };
    let Some(head) = rows::find_head(db, replay)? else { return Ok(false) };
    let row = head.row;
    let Some(found) = items::find(db, row, number)?.filter(|found| found.item.letter == id) else {
        return Ok(false);
    };
    let mut hand = Hand::of_run(db, staged, head, now);
    hand.take(found, Move::COME_BACK, Told { note: death.error_class.clone(), ..Told::default() });
    hand.finish()?;
    held_by_another(db, id, row)
}

fn held_by_another(db: &Connection, id: LetterId, replay: rows::ReplayRow) -> Result<bool, StoreError> {
    use ItemState::{Claimed, InDoubt, Intended, Sent};
    let held = [Claimed, Intended, Sent, InDoubt].map(ItemState::number);
    db.prepare_cached(
        "SELECT 1 FROM replay_items WHERE letter = ?1 AND replay <> ?2 AND state IN (?3, ?4, ?5, ?6)",
    )
    .and_then(|mut find| find.exists(params![id.0.as_bytes(), replay, held[0], held[1], held[2], held[3]]))
    .map_err(read_error)
}
