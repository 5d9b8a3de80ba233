//! Messages that come back without our headers: finds the sent item of an arriving letter and counts it.
//!
//! `dlo-core/src/replay/returns.rs` decides. Only replays with marks are asked, at most three index lookups for each of them
//! and each letter. Where no replay has marks, a batch pays for one lookup. `marks.rs` keeps the marks.

use std::time::Duration;

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::NewLetter;
use dlo_core::replay::returns::{
    SentMarks, failed_after, is_foreign, may_be_one_consumer, may_be_suspected, may_come_back,
};
use dlo_core::replay::run::LONGEST_DEATH;
use dlo_core::replay::{ReplayState, Settings, parse_send_id, send_id};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension};

use super::super::catalog::{Staged, uuid};
use super::super::{read_error, rows as letters};
use super::hand::{Hand, Told};
use super::rows::{self, FoundItem, ReplayRow};
use super::{items, marks};
use crate::StoreError;
use crate::block::Cold;
use crate::moves::Move;

/// Equal messages of one replay that are looked at, the latest first.
const EQUAL: i64 = 100;

/// A replay whose messages may come back.
#[derive(Debug)]
pub(in super::super) struct Expected {
    row: ReplayRow,
    id: ReplayId,
    source: String,
    window: Duration,
}

/// The item that an arriving letter belongs to.
#[derive(Debug)]
pub(in super::super) struct ForeignReturn {
    replay: ReplayId,
    found: FoundItem,
    /// Its message id proves it; else the id, or payload and key, suggest it.
    pub(in super::super) is_proven: bool,
}

impl ForeignReturn {
    pub(in super::super) fn letter(&self) -> LetterId {
        self.found.item.letter
    }

    /// The letter as if it had our headers.
    pub(in super::super) fn as_death(&self, letter: &NewLetter) -> NewLetter {
        NewLetter {
            replay_id: Some(send_id(self.replay, self.found.item.number)),
            replay_of: Some(self.letter()),
            ..letter.clone()
        }
    }
}

/// The replays whose messages may come back. Marks of one that is long over are deleted, some at a time.
pub(in super::super) fn expected(db: &Connection, now: Timestamp) -> Result<Vec<Expected>, StoreError> {
    let (mut all, mut last) = (Vec::new(), 0);
    while let Some(row) = marks::next_replay(db, last)? {
        last = row;
        match find(db, row, now)? {
            Some(expected) => all.push(expected),
            None => marks::forget(db, row)?,
        }
    }
    Ok(all)
}

fn find(db: &Connection, row: ReplayRow, now: Timestamp) -> Result<Option<Expected>, StoreError> {
    let sql = "SELECT id, source, settings, state, ended_at FROM replays WHERE row = ?1";
    let found = db
        .prepare_cached(sql)
        .and_then(|mut find| {
            let read = find.query_row([row], |found| {
                let id = uuid(found.get_ref(0)?.as_blob().map_err(|_| letters::unreadable("replays.id"))?)?;
                let settings: String = found.get(2)?;
                let settings: Settings =
                    serde_json::from_str(&settings).map_err(|_| letters::unreadable("replays.settings"))?;
                let source: Option<String> = found.get(1)?;
                let (state, ended): (u8, Option<i64>) = (found.get(3)?, found.get(4)?);
                let expected = source.map(|source| Expected {
                    row,
                    id: ReplayId(id),
                    source,
                    window: settings.window.0,
                });
                Ok((expected, ReplayState::from_number(state), ended))
            });
            read.optional()
        })
        .map_err(read_error)?;
    let Some((Some(expected), state, ended)) = found else { return Ok(None) };
    let longest = expected.window.max(LONGEST_DEATH);
    let ended = ended.map(Timestamp::from_micros).filter(|_| state.is_some_and(ReplayState::is_over));
    Ok(if ended.is_some_and(|ended| now.since(ended) > longest) { None } else { Some(expected) })
}

/// The sent item that a letter without our headers belongs to. `cold` reads its message.
pub(in super::super) fn find_return(
    db: &Connection,
    expected: &[Expected],
    letter: &NewLetter,
    cold: impl FnOnce() -> Option<Cold>,
    now: Timestamp,
) -> Result<Option<ForeignReturn>, StoreError> {
    let mut here = expected.iter().filter(|replay| replay.source == letter.source).peekable();
    if here.peek().is_none() {
        return Ok(None);
    }
    let Some(Cold { headers, payload, .. }) = cold() else { return Ok(None) };
    let message = dlo_core::message::Message { key: letter.message.key.clone(), headers, payload };
    if !is_foreign(&message) {
        return Ok(None);
    }
    let own = letter.origin.message_id.as_deref().and_then(parse_send_id);
    let (id, body) = (SentMarks::id(&letter.origin), SentMarks::body(&message));
    let mut suspected = None;
    for replay in here {
        marks::index(db, replay.row)?;
        let back = |found: FoundItem, is_proven| ForeignReturn { replay: replay.id, found, is_proven };
        if let Some((_, number)) = own.filter(|(id, _)| *id == replay.id)
            && let Some(found) = items::find(db, replay.row, number)?
            && may_come_back(&found.item, replay.window, now)
        {
            return Ok(Some(back(found, true)));
        }
        let same_id = with_mark(db, replay, id)?;
        if let Some(found) = proven(db, replay, &same_id, letter, now)? {
            return Ok(Some(back(found, true)));
        }
        if suspected.is_none() {
            let may_be = |found: &FoundItem| may_be_suspected(&found.item, replay.window, now);
            let found = match same_id.into_iter().find(may_be) {
                Some(found) => Some(found),
                None => with_mark(db, replay, body)?.into_iter().find(may_be),
            };
            suspected = found.map(|found| back(found, false));
        }
    }
    Ok(suspected)
}

/// The first of the items with the letter's message id that the id proves.
fn proven(
    db: &Connection,
    replay: &Expected,
    same_id: &[FoundItem],
    letter: &NewLetter,
    now: Timestamp,
) -> Result<Option<FoundItem>, StoreError> {
    for found in same_id {
        if may_come_back(&found.item, replay.window, now)
            && failed_after(&found.item, letter.failed_at)
            && may_be_one_consumer(letter.consumer.as_deref(), consumer(db, found.item.letter)?.as_deref())
        {
            return Ok(Some(found.clone()));
        }
    }
    Ok(None)
}

/// The consumer of a letter that is here, if it is known.
fn consumer(db: &Connection, letter: LetterId) -> Result<Option<String>, StoreError> {
    let sql = "SELECT CASE WHEN g.overflow THEN l.own_consumer ELSE g.consumer END
                 FROM letters l JOIN groups g ON g.id = l.group_id WHERE l.id = ?1";
    db.prepare_cached(sql)
        .and_then(|mut find| find.query_row([letter.0.as_bytes()], |row| row.get(0)).optional())
        .map(Option::flatten)
        .map_err(read_error)
}

/// The latest items with a mark, in order.
fn with_mark(db: &Connection, replay: &Expected, mark: Option<i64>) -> Result<Vec<FoundItem>, StoreError> {
    let Some(mark) = mark else { return Ok(Vec::new()) };
    let rest = "i.number IN (SELECT number FROM sent_marks WHERE replay = ?1 AND mark = ?2
                  ORDER BY number DESC LIMIT ?3) ORDER BY i.number";
    items::to_move(db, rest, &[&replay.row, &mark, &EQUAL])
}

/// Counts the item as a suspected return. `false`: its outcome is known, so that nothing is suspected.
pub(in super::super) fn suspect_return(
    db: &Connection,
    staged: &mut Staged,
    back: ForeignReturn,
    letter: &NewLetter,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let Some(head) = rows::find_head(db, back.replay)? else { return Ok(false) };
    let way = Move::suspect(back.found.item.state);
    let mut hand = Hand::of_run(db, staged, head, now);
    let taken = hand.take(back.found, way, Told { note: letter.error_class.clone(), ..Told::default() });
    hand.finish()?;
    Ok(taken)
}
