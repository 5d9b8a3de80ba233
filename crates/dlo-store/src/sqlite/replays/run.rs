//! A run's writes, each under the lease of its holder: claim, intend, record, doubt, conclude, give back.

use std::collections::BTreeSet;

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::Status;
use dlo_core::replay::ItemState;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::super::catalog::Staged;
use super::super::{leases, read_error, steps};
use super::items::{self, Hand, Told};
use super::rows::{self, Head};
use super::whole::{ReadItem, Reading};
use crate::moves::Move;
use crate::replays::{Claimed, Conclusion, SendEnd, ToSend};
use crate::{Lease, StoreError};

/// The replay of a run, if the run still has its lease.
pub(super) fn held(db: &Connection, id: ReplayId, lease: &Lease, now: Timestamp) -> Result<Head, StoreError> {
    leases::check(db, std::slice::from_ref(lease), now)?;
    rows::head(db, id)
}

pub(super) fn claim(
    db: &Connection,
    staged: &mut Staged,
    head: Head,
    most: usize,
    now: Timestamp,
) -> Result<Claimed, StoreError> {
    let mut answer = Claimed::default();
    let row = head.row;
    if head.state.is_active() {
        let next: i64 = db
            .query_row("SELECT next_claim FROM replays WHERE row = ?1", [row], |row| row.get(0))
            .map_err(read_error)?;
        let frozen =
            items::select(db, "number >= ?2 ORDER BY number LIMIT ?3", &[&row, &next, &(most as i64)])?;
        let mut hand = Hand::of_run(db, staged, head, now);
        for found in &frozen {
            let open = steps::status(db, found.item.letter)? == Some(Status::Open);
            let way = if open { Move::CLAIM } else { Move::SHORT };
            hand.take(found, way, Told::default())?;
            answer.claimed += u64::from(open);
            answer.short += u64::from(!open);
        }
        hand.finish()?;
        let next = next + frozen.len() as i64;
        db.execute("UPDATE replays SET next_claim = ?2 WHERE row = ?1", [row, next]).map_err(read_error)?;
    }
    answer.left = count(db, row, ItemState::Frozen)?;
    Ok(answer)
}

fn count(db: &Connection, row: rows::ReplayRow, state: ItemState) -> Result<u64, StoreError> {
    let sql = "SELECT ifnull(max(n), 0) FROM replay_counts WHERE replay = ?1 AND state = ?2";
    db.query_row(sql, params![row, state.number()], |row| row.get::<_, i64>(0))
        .map(|n| n as u64)
        .map_err(read_error)
}

/// Marks what was read as intended, as far as it still may be sent.
pub(super) fn intend(
    db: &Connection,
    staged: &mut Staged,
    head: Head,
    read: Vec<ReadItem>,
    way: Move,
    now: Timestamp,
) -> Result<Vec<ToSend>, StoreError> {
    if !head.state.is_active() {
        return Ok(Vec::new());
    }
    let mut hand = Hand::of_run(db, staged, head, now);
    let mut ready = Vec::with_capacity(read.len());
    for ReadItem { number, reading } in read {
        let Some(found) = items::find(db, hand.head.row, number)? else { continue };
        // Once it was published, an item goes again whatever came of those before it.
        let passed_over = found.waits && found.item.state == ItemState::Claimed;
        if !way.takes(found.item.state) || passed_over {
            continue;
        }
        if !is_ours(db, found.item.letter)? {
            hand.take(&found, Move::SHORT, Told::default())?;
            continue;
        }
        match reading {
            Reading::Whole(to_send) => {
                hand.take(&found, way, Told::default())?;
                ready.push(*to_send);
            }
            Reading::Unreadable(note) => {
                hand.take(&found, Move::UNREADABLE, Told { note: Some(note), ..Told::default() })?;
            }
        }
    }
    hand.finish()?;
    Ok(ready)
}

/// Whether the letter is still in the hands of a replay; nobody else claims a letter.
fn is_ours(db: &Connection, letter: LetterId) -> Result<bool, StoreError> {
    Ok(matches!(steps::status(db, letter)?, Some(Status::Claimed | Status::InDoubt)))
}

pub(super) fn record(
    db: &Connection,
    staged: &mut Staged,
    head: Head,
    ends: Vec<(u64, SendEnd)>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut hand = Hand::of_run(db, staged, head, now);
    for (number, end) in ends {
        let Some(found) = items::find(db, hand.head.row, number)? else { continue };
        let way = end.as_move();
        let told = match end {
            SendEnd::Sent { partition, offset } => Told { partition, offset, note: None },
            SendEnd::Refused(why) => Told { note: Some(why), ..Told::default() },
            SendEnd::Unsent | SendEnd::Doubtful => Told::default(),
        };
        hand.take(&found, way, told)?;
    }
    hand.finish()
}

pub(super) fn doubt(
    db: &Connection,
    staged: &mut Staged,
    head: Head,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let intended = in_hand(db, head.row, ItemState::Intended, i64::MAX)?;
    take_all(Hand::of_run(db, staged, head, now), &intended, Move::DOUBT)
}

pub(super) fn give_back(
    db: &Connection,
    staged: &mut Staged,
    head: Head,
    most: usize,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let claimed = in_hand(db, head.row, ItemState::Claimed, most as i64)?;
    take_all(Hand::of_run(db, staged, head, now), &claimed, Move::GIVE_BACK)
}

pub(super) fn conclude(
    db: &Connection,
    staged: &mut Staged,
    head: Head,
    numbers: &[u64],
    how: Conclusion,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let found = named(db, head.row, numbers)?;
    take_all(Hand::of_run(db, staged, head, now), &found, how.as_move())
}

/// The items of these numbers that are there, each once, in order.
pub(super) fn named(
    db: &Connection,
    row: rows::ReplayRow,
    numbers: &[u64],
) -> Result<Vec<rows::FoundItem>, StoreError> {
    let numbers: BTreeSet<u64> = numbers.iter().copied().collect();
    let found = numbers.into_iter().map(|number| items::find(db, row, number));
    found.filter_map(Result::transpose).collect()
}

/// Moves those that stand where the move begins; how many.
pub(super) fn take_all(mut hand: Hand<'_>, found: &[rows::FoundItem], way: Move) -> Result<u64, StoreError> {
    let mut moved = 0;
    for found in found {
        moved += u64::from(hand.take(found, way, Told::default())?);
    }
    hand.finish()?;
    Ok(moved)
}

/// Items in one of the states of the index of what is in hand.
fn in_hand(
    db: &Connection,
    row: rows::ReplayRow,
    state: ItemState,
    most: i64,
) -> Result<Vec<rows::FoundItem>, StoreError> {
    items::select(
        db,
        "state IN (2, 3, 9) AND state = ?2 ORDER BY number LIMIT ?3",
        &[&row, &state.number(), &most],
    )
}

pub(super) fn mark(db: &Connection, head: &Head, mark: &str) -> Result<(), StoreError> {
    db.execute("UPDATE replays SET mark = ?2 WHERE row = ?1", params![head.row, mark]).map_err(read_error)?;
    Ok(())
}
