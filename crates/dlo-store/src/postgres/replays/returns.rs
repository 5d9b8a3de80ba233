//! Messages that come back without our headers: finds the sent item of an arriving letter and counts it.
//!
//! `dlo-core/src/replay/returns.rs` decides. Only replays with marks are asked, at most two index lookups for each of them
//! and each letter. Where no replay has marks, a batch pays for one lookup.

use std::collections::HashSet;
use std::time::Duration;

use deadpool_postgres::Transaction;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::NewLetter;
use dlo_core::message::Message;
use dlo_core::replay::returns::{
    SentMarks, failed_after, is_foreign, may_be_one_consumer, may_be_suspected, may_come_back,
};
use dlo_core::replay::run::LONGEST_DEATH;
use dlo_core::replay::{Item, ReplayState, Settings, parse_send_id, send_id};
use dlo_core::time::Timestamp;

use super::super::read_error;
use super::super::rows::{code, maybe_text, unreadable};
use super::hand::{Hand, Told};
use super::rows::{self, Hold, ReplayRow};
use crate::StoreError;
use crate::block::Cold;
use crate::moves::Move;
use crate::replays::ToSend;

/// Equal messages of one replay that are looked at, the latest first.
const EQUAL: i64 = 100;
/// Marks of a replay that is over, deleted with one batch of letters.
const FORGOTTEN: i64 = 2_000;

/// A replay whose messages may come back.
#[derive(Debug)]
pub(in super::super) struct Expected {
    row: ReplayRow,
    id: ReplayId,
    source: String,
    window: Duration,
    /// Items that letters of this batch have.
    taken: HashSet<u64>,
}

impl Expected {
    pub(in super::super) fn is_of(&self, letter: &NewLetter) -> bool {
        self.source == letter.source
    }

    fn take(&mut self, item: Item, is_proven: bool) -> ForeignReturn {
        self.taken.insert(item.number);
        ForeignReturn { replay: self.id, row: self.row, window: self.window, item, is_proven }
    }

    fn may_be(&self, item: &Item, now: Timestamp) -> bool {
        !self.taken.contains(&item.number) && may_come_back(item, self.window, now)
    }

    fn may_be_suspected(&self, item: &Item, now: Timestamp) -> bool {
        !self.taken.contains(&item.number) && may_be_suspected(item, self.window, now)
    }
}

/// The item that an arriving letter belongs to.
#[derive(Debug)]
pub(in super::super) struct ForeignReturn {
    replay: ReplayId,
    row: ReplayRow,
    window: Duration,
    item: Item,
    /// Its message id proves it; else the id, or payload and key, suggest it.
    pub(in super::super) is_proven: bool,
}

impl ForeignReturn {
    pub(in super::super) fn letter(&self) -> LetterId {
        self.item.letter
    }

    /// The letter as if it had our headers.
    pub(in super::super) fn as_death(&self, letter: &NewLetter) -> NewLetter {
        NewLetter {
            replay_id: Some(send_id(self.replay, self.item.number)),
            replay_of: Some(self.letter()),
            ..letter.clone()
        }
    }
}

/// Keeps the marks of items that are intended.
pub(super) async fn expect(
    db: &Transaction<'_>,
    replay: ReplayRow,
    items: &[ToSend],
) -> Result<(), StoreError> {
    let (mut marks, mut numbers) = (Vec::new(), Vec::new());
    for item in items {
        for mark in SentMarks::of(&item.origin, &item.message).iter() {
            marks.push(mark);
            numbers.push(item.number as i64);
        }
    }
    let sql = "INSERT INTO sent_marks SELECT $1, t.mark, t.number FROM UNNEST($2::bigint[], $3::bigint[]) AS t (mark, number)
               ON CONFLICT DO NOTHING";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(&statement, &[&replay, &marks, &numbers]).await.map_err(read_error)?;
    Ok(())
}

/// The replays whose messages may come back. Marks of one that is long over are deleted, some at a time.
pub(in super::super) async fn expected(
    db: &Transaction<'_>,
    now: Timestamp,
) -> Result<Vec<Expected>, StoreError> {
    let sql = "WITH RECURSIVE with_marks (replay) AS (
                 SELECT min(replay) FROM sent_marks
                 UNION ALL SELECT (SELECT min(m.replay) FROM sent_marks m WHERE m.replay > w.replay)
                   FROM with_marks w WHERE w.replay IS NOT NULL)
               SELECT r.seq, r.id, r.source, r.settings, r.state, r.ended_at
                 FROM with_marks w JOIN replays r ON r.seq = w.replay ORDER BY r.seq";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let mut all = Vec::new();
    for row in db.query(&statement, &[]).await.map_err(read_error)? {
        let Some(source) = maybe_text(&row, 2) else { continue };
        let settings: Settings =
            serde_json::from_str(row.get(3)).map_err(|_| unreadable("replays.settings"))?;
        let state = code(row.get(4), ReplayState::from_number, "replays.state")?;
        let ended = row.get::<_, Option<i64>>(5).map(Timestamp::from_micros).filter(|_| state.is_over());
        let window = settings.window.0;
        if ended.is_some_and(|ended| now.since(ended) > window.max(LONGEST_DEATH)) {
            forget(db, row.get(0)).await?;
        } else {
            all.push(Expected {
                row: row.get(0),
                id: ReplayId(row.get(1)),
                source,
                window,
                taken: HashSet::new(),
            });
        }
    }
    Ok(all)
}

/// Rows that another transaction is deleting are left to it.
async fn forget(db: &Transaction<'_>, row: ReplayRow) -> Result<(), StoreError> {
    let sql = "DELETE FROM sent_marks WHERE (replay, mark, number) IN
                 (SELECT replay, mark, number FROM sent_marks WHERE replay = $1 LIMIT $2 FOR UPDATE SKIP LOCKED)";
    db.execute(sql, &[&row, &FORGOTTEN]).await.map_err(read_error)?;
    Ok(())
}

/// The sent item that a letter without our headers belongs to, if no other letter of the batch has it. `cold` has its
/// message.
pub(in super::super) async fn find_return(
    db: &Transaction<'_>,
    expected: &mut [Expected],
    letter: &NewLetter,
    cold: Cold,
    now: Timestamp,
) -> Result<Option<ForeignReturn>, StoreError> {
    let Cold { headers, payload, .. } = cold;
    let message = Message { key: letter.message.key.clone(), headers, payload };
    if !is_foreign(&message) {
        return Ok(None);
    }
    let own = letter.origin.message_id.as_deref().and_then(parse_send_id);
    let (id, body) = (SentMarks::id(&letter.origin), SentMarks::body(&message));
    let mut suspected = None;
    for replay in expected {
        if !replay.is_of(letter) {
            continue;
        }
        if let Some((_, number)) = own.filter(|(id, _)| *id == replay.id) {
            let found = rows::items(db, "number = $2", &[&replay.row, &(number as i64)]).await?;
            if let Some(found) = found.into_iter().find(|found| replay.may_be(&found.item, now)) {
                return Ok(Some(replay.take(found.item, true)));
            }
        }
        let same_id = with_mark(db, replay, id).await?;
        if let Some(item) = proven(db, replay, &same_id, letter, now).await? {
            return Ok(Some(replay.take(item, true)));
        }
        if suspected.is_none() {
            let found = match same_id.into_iter().find(|item| replay.may_be_suspected(item, now)) {
                Some(item) => Some(item),
                None => {
                    let same_body = with_mark(db, replay, body).await?;
                    same_body.into_iter().find(|item| replay.may_be_suspected(item, now))
                }
            };
            suspected = found.map(|item| (replay, item));
        }
    }
    Ok(suspected.map(|(replay, item): (&mut Expected, Item)| replay.take(item, false)))
}

/// The first of the items with the letter's message id that the id proves.
async fn proven(
    db: &Transaction<'_>,
    replay: &Expected,
    same_id: &[Item],
    letter: &NewLetter,
    now: Timestamp,
) -> Result<Option<Item>, StoreError> {
    for item in same_id {
        if replay.may_be(item, now)
            && failed_after(item, letter.failed_at)
            && may_be_one_consumer(letter.consumer.as_deref(), consumer(db, item.letter).await?.as_deref())
        {
            return Ok(Some(item.clone()));
        }
    }
    Ok(None)
}

/// The consumer of a letter that is here, if it is known.
async fn consumer(db: &Transaction<'_>, letter: LetterId) -> Result<Option<String>, StoreError> {
    let sql = "SELECT CASE WHEN g.overflow THEN l.own_consumer ELSE g.consumer END
                 FROM letters l JOIN groups g ON g.id = l.group_id WHERE l.id = $1";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let row = db.query_opt(&statement, &[&letter.0]).await.map_err(read_error)?;
    Ok(row.and_then(|row| maybe_text(&row, 0)))
}

/// The latest items with a mark, in order.
async fn with_mark(
    db: &Transaction<'_>,
    replay: &Expected,
    mark: Option<i64>,
) -> Result<Vec<Item>, StoreError> {
    let Some(mark) = mark else { return Ok(Vec::new()) };
    let rest = "number IN (SELECT m.number FROM sent_marks m WHERE m.replay = $1 AND m.mark = $2
                  ORDER BY m.number DESC LIMIT $3) ORDER BY number";
    let found = rows::items(db, rest, &[&replay.row, &mark, &EQUAL]).await?;
    Ok(found.into_iter().map(|found| found.item).collect())
}

/// Whether the item of a proven return may still come back, read after its letter was locked: another batch may have had a
/// copy. It stays locked.
pub(in super::super) async fn is_still_expected(
    db: &Transaction<'_>,
    back: &ForeignReturn,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let number = back.item.number as i64;
    let found = rows::items(db, "number = $2 FOR UPDATE", &[&back.row, &number]).await?;
    Ok(found.iter().any(|found| may_come_back(&found.item, back.window, now)))
}

/// Counts the item as a suspected return. `false`: its outcome is known, so that nothing is suspected.
pub(in super::super) async fn suspect_return(
    db: &Transaction<'_>,
    back: &ForeignReturn,
    letter: &NewLetter,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let Some(head) = rows::find_head(db, back.replay, Hold::Free).await? else { return Ok(false) };
    let number = back.item.number;
    let mut hand = Hand::of_run(db, head, &[number as i64], now).await?;
    let Some(state) = hand.items.get(&number).map(|found| found.item.state) else { return Ok(false) };
    let told = Told { note: letter.error_class.clone(), ..Told::default() };
    let taken = hand.take(number, Move::suspect(state), told);
    hand.finish().await?;
    Ok(taken)
}
