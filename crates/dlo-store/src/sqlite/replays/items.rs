//! Items on their way: each move writes the item, its letter's step, the audit row and the counts, in one transaction.
//!
//! Where order matters, the first of a lane goes and the others wait. When an item comes to a good end, the next of its
//! lane may go; when it comes back after all, the next one waits again.

use std::collections::BTreeMap;

use dlo_core::replay::{ItemState, send_id};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::super::catalog::Staged;
use super::super::{audit, read_error, steps};
use super::rows::{self, FoundItem, Head, ITEM, ReplayRow};
use crate::moves::Move;
use crate::{Deed, Event, Stepped, StoreError};

/// A replay whose items are moved in this transaction.
pub(super) struct Hand<'t> {
    pub(super) db: &'t Connection,
    staged: &'t mut Staged,
    pub(super) head: Head,
    deed: Deed,
    now: Timestamp,
    counts: BTreeMap<ItemState, i64>,
}

/// What is said of an item beside where it goes.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) partition: Option<i32>,
    pub(super) offset: Option<i64>,
    pub(super) note: Option<String>,
}

impl<'t> Hand<'t> {
    /// What the replay does by itself is done in the name of whoever planned it.
    pub(super) fn of_run(db: &'t Connection, staged: &'t mut Staged, head: Head, now: Timestamp) -> Self {
        let deed = Deed { author: head.author.clone(), reason: None, reference: None };
        Self::new(db, staged, head, deed, now)
    }

    pub(super) fn new(
        db: &'t Connection,
        staged: &'t mut Staged,
        head: Head,
        deed: Deed,
        now: Timestamp,
    ) -> Self {
        Self { db, staged, head, deed, now, counts: BTreeMap::new() }
    }

    /// Moves an item, if it stands where the move begins. Whether it did.
    pub(super) fn take(&mut self, found: &FoundItem, way: Move, told: Told) -> Result<bool, StoreError> {
        let item = &found.item;
        if !way.takes(item.state) {
            return Ok(false);
        }
        if let Some(step) = way.step
            && let Stepped::Moved { .. } = steps::advance(self.db, self.staged, item.letter, step)?
        {
            audit::append(
                self.db,
                &audit::Row {
                    letter: Some(item.letter),
                    reason: told.note.clone().or_else(|| self.deed.reason.clone()),
                    reference: Some(send_id(self.head.id, item.number)),
                    ..audit::Row::by(self.now, Event::Step(step), 1, &self.deed)
                },
            )?;
        }
        self.write(found, way, told)?;
        *self.counts.entry(item.state).or_default() -= 1;
        *self.counts.entry(way.to).or_default() += 1;
        match (item.state.clears_key(), way.to.clears_key()) {
            (false, true) => self.let_next_go(found)?,
            (true, false) => self.mark_next(found, true)?,
            (true, true) | (false, false) => {}
        }
        Ok(true)
    }

    fn write(&self, found: &FoundItem, way: Move, told: Told) -> Result<(), StoreError> {
        let at = if way.keeps_time() { found.item.at } else { Some(self.now) };
        let sent_at = if way.to == ItemState::Sent { Some(self.now) } else { found.item.sent_at };
        self.db
            .prepare_cached(
                "UPDATE replay_items SET state = ?3, at = ?4, sent_at = ?5, partition = ?6, log_offset = ?7, note = ?8
                  WHERE replay = ?1 AND number = ?2",
            )
            .map_err(read_error)?
            .execute(params![
                self.head.row,
                found.item.number as i64,
                way.to.number(),
                at.map(Timestamp::as_micros),
                sent_at.map(Timestamp::as_micros),
                told.partition.or(found.item.partition),
                told.offset.or(found.item.offset),
                told.note,
            ])
            .map_err(read_error)?;
        Ok(())
    }

    /// Unless it waits itself: then whoever it waits for lets them go. Looked up now, since this transaction may have
    /// changed it after the item was read.
    fn let_next_go(&self, found: &FoundItem) -> Result<(), StoreError> {
        if found.lane.is_none() {
            return Ok(());
        }
        let waits: bool = self
            .db
            .prepare_cached("SELECT waits FROM replay_items WHERE replay = ?1 AND number = ?2")
            .and_then(|mut find| {
                find.query_row(params![self.head.row, found.item.number as i64], |row| row.get(0))
            })
            .map_err(read_error)?;
        if waits { Ok(()) } else { self.mark_next(found, false) }
    }

    /// Says of those behind it in its lane whether they wait, up to the first that has no good end itself.
    fn mark_next(&self, found: &FoundItem, waits: bool) -> Result<(), StoreError> {
        let Some(lane) = found.lane else { return Ok(()) };
        let mut number = found.item.number as i64;
        loop {
            let next: Option<(i64, ItemState)> = self
                .db
                .prepare_cached(
                    "SELECT number, state FROM replay_items INDEXED BY items_by_lane
                      WHERE replay = ?1 AND lane = ?2 AND number > ?3 ORDER BY number LIMIT 1",
                )
                .and_then(|mut next| {
                    next.query_row(params![self.head.row, lane, number], |row| {
                        Ok((row.get(0)?, rows::item_state(row, 1)?))
                    })
                    .optional()
                })
                .map_err(read_error)?;
            let Some((next, state)) = next else { return Ok(()) };
            self.db
                .prepare_cached("UPDATE replay_items SET waits = ?3 WHERE replay = ?1 AND number = ?2")
                .and_then(|mut mark| mark.execute(params![self.head.row, next, waits]))
                .map_err(read_error)?;
            if !state.clears_key() {
                return Ok(());
            }
            number = next;
        }
    }

    /// Writes the counts.
    pub(super) fn finish(self) -> Result<(), StoreError> {
        add_counts(self.db, self.head.row, self.counts.into_iter())
    }
}

pub(super) fn add_counts(
    db: &Connection,
    replay: ReplayRow,
    deltas: impl Iterator<Item = (ItemState, i64)>,
) -> Result<(), StoreError> {
    let mut count = db
        .prepare_cached(
            "INSERT INTO replay_counts VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET n = n + excluded.n",
        )
        .map_err(read_error)?;
    for (state, delta) in deltas.filter(|(_, delta)| *delta != 0) {
        count.execute(params![replay, state.number(), delta]).map_err(read_error)?;
    }
    Ok(())
}

/// One item, if it is there.
pub(super) fn find(db: &Connection, replay: ReplayRow, number: u64) -> Result<Option<FoundItem>, StoreError> {
    let Ok(number) = i64::try_from(number) else { return Ok(None) };
    let sql = format!("SELECT {ITEM} FROM replay_items WHERE replay = ?1 AND number = ?2");
    db.prepare_cached(&sql)
        .and_then(|mut find| find.query_row(params![replay, number], rows::item).optional())
        .map_err(read_error)
}

/// Items of a replay under a condition, in the order given; `?1` is the replay.
pub(super) fn select(
    db: &Connection,
    rest: &str,
    values: &[&dyn rusqlite::ToSql],
) -> Result<Vec<FoundItem>, StoreError> {
    let sql = format!("SELECT {ITEM} FROM replay_items WHERE replay = ?1 AND {rest}");
    db.prepare_cached(&sql)
        .and_then(|mut find| find.query_map(values, rows::item).and_then(Iterator::collect))
        .map_err(read_error)
}
