//! A run's writes, each under the lease of its holder: claim, intend, record, doubt, conclude, give back.

use std::collections::HashMap;

use dlo_core::id::ReplayId;
use dlo_core::letter::Status;
use dlo_core::replay::ItemState;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::super::catalog::Staged;
use super::super::{leases, read_error};
use super::hand::{Hand, Told};
use super::rows::{self, FoundItem, Head};
use super::whole::{ReadItem, Reading};
use super::{items, marks};
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
        let rest = "i.number >= ?2 ORDER BY i.number LIMIT ?3";
        let frozen = items::to_move(db, rest, &[&row, &next, &(most as i64)])?;
        let mut hand = Hand::of_run(db, staged, head, now);
        let next = next + frozen.len() as i64;
        for found in frozen {
            let open = found.standing.is_some_and(|letter| letter.status == Status::Open);
            let way = if open { Move::CLAIM } else { Move::SHORT };
            hand.take(found, way, Told::default());
            answer.claimed += u64::from(open);
            answer.short += u64::from(!open);
        }
        hand.finish()?;
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
    let mut found = by_number(db, head.row, read.iter().map(|read| read.number))?;
    let sent = read.iter().filter_map(|item| match &item.reading {
        Reading::Whole(_, marks) => Some((item.number, *marks)),
        Reading::Unreadable(_) => None,
    });
    marks::keep(db, head.row, sent)?;
    let mut hand = Hand::of_run(db, staged, head, now);
    let mut ready = Vec::with_capacity(read.len());
    for ReadItem { number, reading } in read {
        let Some(found) = found.remove(&number) else { continue };
        // Once it was published, an item goes again whatever came of those before it.
        let passed_over = found.waits && found.item.state == ItemState::Claimed;
        if !way.takes(found.item.state) || passed_over {
            continue;
        }
        if !is_ours(&found) {
            hand.take(found, Move::SHORT, Told::default());
            continue;
        }
        match reading {
            Reading::Whole(to_send, _) => {
                hand.take(found, way, Told::default());
                ready.push(*to_send);
            }
            Reading::Unreadable(note) => {
                hand.take(found, Move::UNREADABLE, Told { note: Some(note), ..Told::default() });
            }
        }
    }
    hand.finish()?;
    Ok(ready)
}

/// Whether the letter is still in the hands of a replay; nobody else claims a letter.
fn is_ours(found: &FoundItem) -> bool {
    matches!(found.standing.map(|letter| letter.status), Some(Status::Claimed | Status::InDoubt))
}

/// What stands under each number; whoever takes one takes it out, so that none is moved twice.
fn by_number(
    db: &Connection,
    row: rows::ReplayRow,
    numbers: impl Iterator<Item = u64>,
) -> Result<HashMap<u64, FoundItem>, StoreError> {
    let found = items::named(db, row, numbers)?;
    Ok(found.into_iter().map(|found| (found.item.number, found)).collect())
}

pub(super) fn record(
    db: &Connection,
    staged: &mut Staged,
    head: Head,
    ends: Vec<(u64, SendEnd)>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut found = by_number(db, head.row, ends.iter().map(|(number, _)| *number))?;
    let mut hand = Hand::of_run(db, staged, head, now);
    for (number, end) in ends {
        let Some(found) = found.remove(&number) else { continue };
        let way = end.as_move(found.item.state);
        let told = match end {
            SendEnd::Sent { partition, offset } => Told { partition, offset, note: None },
            SendEnd::Refused(why) => Told { note: Some(why), ..Told::default() },
            SendEnd::Unsent | SendEnd::Doubtful => Told::default(),
        };
        hand.take(found, way, told);
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
    take_all(Hand::of_run(db, staged, head, now), intended, Move::DOUBT)
}

pub(super) fn give_back(
    db: &Connection,
    staged: &mut Staged,
    head: Head,
    most: usize,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let claimed = in_hand(db, head.row, ItemState::Claimed, most as i64)?;
    take_all(Hand::of_run(db, staged, head, now), claimed, Move::GIVE_BACK)
}

pub(super) fn conclude(
    db: &Connection,
    staged: &mut Staged,
    head: Head,
    numbers: &[u64],
    how: Conclusion,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let found = items::named(db, head.row, numbers.iter().copied())?;
    take_all(Hand::of_run(db, staged, head, now), found, how.as_move())
}

/// Moves those that stand where the move begins; how many.
pub(super) fn take_all(mut hand: Hand<'_>, found: Vec<FoundItem>, way: Move) -> Result<u64, StoreError> {
    let moved =
        found.into_iter().map(|found| hand.take(found, way, Told::default())).filter(|moved| *moved).count();
    hand.finish()?;
    Ok(moved as u64)
}

/// Items in one of the states of the index of what is in hand.
fn in_hand(
    db: &Connection,
    row: rows::ReplayRow,
    state: ItemState,
    most: i64,
) -> Result<Vec<FoundItem>, StoreError> {
    let rest = "i.state IN (2, 3, 9) AND i.state = ?2 ORDER BY i.number LIMIT ?3";
    items::to_move(db, rest, &[&row, &state.number(), &most])
}

pub(super) fn mark(db: &Connection, head: &Head, mark: &str) -> Result<(), StoreError> {
    db.execute("UPDATE replays SET mark = ?2 WHERE row = ?1", params![head.row, mark]).map_err(read_error)?;
    Ok(())
}
