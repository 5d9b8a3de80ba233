//! A run's writes, each under the lease of its holder: claim, intend, record, doubt, conclude, give back.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use dlo_core::letter::Status;
use dlo_core::replay::ItemState;
use dlo_core::time::Timestamp;
use uuid::Uuid;

use super::super::text::escape;
use super::super::{leases, read_error};
use super::hand::{Hand, Told};
use super::rows::{self, Head, Hold};
use super::{returns, whole};
use crate::StoreError;
use crate::moves::Move;
use crate::replays::{BYTES_AT_ONCE, Claimed, Conclusion, Run, SendEnd, ToSend};

/// The replay of a run, if the run still has its lease; it keeps it until the transaction ends.
async fn held(db: &Transaction<'_>, run: &Run<'_>, hold: Hold) -> Result<Head, StoreError> {
    leases::check(db, std::slice::from_ref(run.lease)).await?;
    rows::head(db, run.id, hold).await
}

pub(super) async fn claim(
    db: &Transaction<'_>,
    run: &Run<'_>,
    most: usize,
    now: Timestamp,
) -> Result<Claimed, StoreError> {
    let head = held(db, run, Hold::Update).await?;
    let (row, next) = (head.row, head.next_claim);
    let mut answer = Claimed::default();
    if head.state.is_active() {
        let numbers: Vec<i64> = (next..next.saturating_add(most as i64)).collect();
        let mut hand = Hand::of_run(db, head, &numbers, now).await?;
        let frozen: Vec<_> =
            hand.items.values().map(|found| (found.item.number, found.item.letter)).collect();
        for (number, letter) in &frozen {
            let open = hand.status(*letter) == Some(Status::Open);
            hand.take(*number, if open { Move::CLAIM } else { Move::SHORT }, Told::default());
            answer.claimed += u64::from(open);
            answer.short += u64::from(!open);
        }
        hand.finish().await?;
        let next = next + frozen.len() as i64;
        db.execute("UPDATE replays SET next_claim = $2 WHERE seq = $1", &[&row, &next])
            .await
            .map_err(read_error)?;
    }
    let sql = "SELECT coalesce(sum(n), 0)::bigint FROM replay_counts WHERE replay = $1 AND state = $2";
    let frozen = i16::from(ItemState::Frozen.number());
    let left: i64 = db.query_one(sql, &[&row, &frozen]).await.map_err(read_error)?.get(0);
    answer.left = left as u64;
    Ok(answer)
}

pub(super) async fn intend(
    db: &Transaction<'_>,
    run: &Run<'_>,
    most: usize,
    now: Timestamp,
) -> Result<Vec<ToSend>, StoreError> {
    let head = held(db, run, Hold::Share).await?;
    let rest = "state IN (2, 3, 9) AND state = 2 AND NOT waits ORDER BY number LIMIT $2";
    let found = rows::items(db, rest, &[&head.row, &(most as i64)]).await?;
    let found: Vec<_> = found.iter().map(|found| (found.item.number as i64, found.item.letter.0)).collect();
    let numbers = at_once(db, found).await?;
    mark(db, head, &numbers, Move::INTEND, now).await
}

/// The first of them, until they have [`BYTES_AT_ONCE`].
async fn at_once(db: &Transaction<'_>, found: Vec<(i64, Uuid)>) -> Result<Vec<i64>, StoreError> {
    let letters: Vec<Uuid> = found.iter().map(|(_, letter)| *letter).collect();
    let sql = "SELECT id, payload_size FROM letters WHERE id = ANY($1)";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let sizes = db.query(&statement, &[&letters]).await.map_err(read_error)?;
    let sizes: HashMap<Uuid, i64> = sizes.iter().map(|row| (row.get(0), row.get(1))).collect();
    let mut bytes = 0;
    let fits = |(_, letter): &(i64, Uuid)| {
        let before = bytes;
        bytes += sizes.get(letter).map_or(0, |size| size.unsigned_abs());
        before < BYTES_AT_ONCE
    };
    Ok(found.into_iter().take_while(fits).map(|(number, _)| number).collect())
}

pub(super) async fn intend_again(
    db: &Transaction<'_>,
    run: &Run<'_>,
    numbers: &[u64],
    now: Timestamp,
) -> Result<Vec<ToSend>, StoreError> {
    let head = held(db, run, Hold::Share).await?;
    mark(db, head, &keys(numbers), Move::INTEND_AGAIN, now).await
}

/// Reads items whole and marks them as intended, as far as they may be sent.
async fn mark(
    db: &Transaction<'_>,
    head: Head,
    numbers: &[i64],
    way: Move,
    now: Timestamp,
) -> Result<Vec<ToSend>, StoreError> {
    if !head.state.is_active() || numbers.is_empty() {
        return Ok(Vec::new());
    }
    let row = head.row;
    let mut hand = Hand::of_run(db, head, numbers, now).await?;
    let wanted: Vec<_> = hand
        .items
        .values()
        // An earlier one of its key may have come back between the look and the lock. Once it was published, an item goes
        // again whatever came of those before it.
        .filter(|found| {
            way.takes(found.item.state) && !(found.waits && found.item.state == ItemState::Claimed)
        })
        .map(|found| (found.item.number, found.item.letter))
        .collect();
    let mut read: HashMap<u64, whole::Reading> = whole::read(db, &wanted).await?;
    let mut ready = Vec::with_capacity(wanted.len());
    for (number, letter) in wanted {
        let ours = matches!(hand.status(letter), Some(Status::Claimed | Status::InDoubt));
        match read.remove(&number).filter(|_| ours) {
            None => {
                hand.take(number, Move::SHORT, Told::default());
            }
            Some(whole::Reading::Unreadable(why)) => {
                hand.take(number, Move::UNREADABLE, Told { note: Some(why), ..Told::default() });
            }
            Some(whole::Reading::Whole(to_send)) => {
                hand.take(number, way, Told::default());
                ready.push(*to_send);
            }
        }
    }
    hand.finish().await?;
    returns::expect(db, row, &ready).await?;
    Ok(ready)
}

pub(super) async fn record(
    db: &Transaction<'_>,
    run: &Run<'_>,
    ends: &[(u64, SendEnd)],
    now: Timestamp,
) -> Result<(), StoreError> {
    let head = held(db, run, Hold::Free).await?;
    let numbers: Vec<u64> = ends.iter().map(|(number, _)| *number).collect();
    let mut hand = Hand::of_run(db, head, &keys(&numbers), now).await?;
    for (number, end) in ends {
        let Some(state) = hand.items.get(number).map(|found| found.item.state) else { continue };
        let told = match end {
            SendEnd::Sent { partition, offset } => {
                Told { partition: *partition, offset: *offset, note: None }
            }
            SendEnd::Refused(why) => Told { note: Some(why.clone()), ..Told::default() },
            SendEnd::Unsent | SendEnd::Doubtful => Told::default(),
        };
        hand.take(*number, end.as_move(state), told);
    }
    hand.finish().await
}

pub(super) async fn doubt(db: &Transaction<'_>, run: &Run<'_>, now: Timestamp) -> Result<u64, StoreError> {
    let head = held(db, run, Hold::Free).await?;
    let intended = rows::items(db, "state IN (2, 3, 9) AND state = 3", &[&head.row]).await?;
    let numbers: Vec<i64> = intended.iter().map(|found| found.item.number as i64).collect();
    Hand::of_run(db, head, &numbers, now).await?.take_all(Move::DOUBT).await
}

pub(super) async fn give_back(
    db: &Transaction<'_>,
    run: &Run<'_>,
    most: usize,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let head = held(db, run, Hold::Free).await?;
    let rest = "state IN (2, 3, 9) AND state = 2 ORDER BY number LIMIT $2";
    let claimed = rows::items(db, rest, &[&head.row, &(most as i64)]).await?;
    let numbers: Vec<i64> = claimed.iter().map(|found| found.item.number as i64).collect();
    Hand::of_run(db, head, &numbers, now).await?.take_all(Move::GIVE_BACK).await
}

pub(super) async fn conclude(
    db: &Transaction<'_>,
    run: &Run<'_>,
    numbers: &[u64],
    how: Conclusion,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let head = held(db, run, Hold::Free).await?;
    Hand::of_run(db, head, &keys(numbers), now).await?.take_all(how.as_move()).await
}

pub(super) async fn note(db: &Transaction<'_>, run: &Run<'_>, mark: &str) -> Result<(), StoreError> {
    let head = held(db, run, Hold::Update).await?;
    db.execute("UPDATE replays SET mark = $2 WHERE seq = $1", &[&head.row, &escape(mark)])
        .await
        .map_err(read_error)?;
    Ok(())
}

/// Numbers as the database has them; larger ones are no item's.
pub(super) fn keys(numbers: &[u64]) -> Vec<i64> {
    numbers.iter().filter_map(|number| i64::try_from(*number).ok()).collect()
}
