//! Items on their way: each move writes the item, its letter's step, the audit row and the counts, in one transaction.
//!
//! An item is read together with where its letter stands, moves are decided in memory, and neighbours that moved alike are
//! written by one statement: a statement for each row costs more than the rows. A claim is no outcome, so its letters have one
//! audit row for the batch, which says how many.
//!
//! Where order matters, the first of a lane goes and the others wait. When an item comes to a good end, the next of its
//! lane may go; when it comes back after all, the next one waits again.

use std::collections::BTreeMap;

use dlo_core::letter::Step;
use dlo_core::replay::{ItemState, send_id, send_prefix};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::super::catalog::Staged;
use super::super::{audit, read_error, steps};
use super::items;
use super::rows::{self, FoundItem, Head, ReplayRow};
use crate::moves::Move;
use crate::{Deed, Event, StoreError};

/// A replay whose items are moved in this transaction.
pub(super) struct Hand<'t> {
    db: &'t Connection,
    staged: &'t mut Staged,
    head: Head,
    deed: Deed,
    now: Timestamp,
    counts: BTreeMap<ItemState, i64>,
    letters: steps::Together,
    moved: Vec<Moved>,
}

/// An item that was moved and is not written yet.
#[derive(Debug)]
struct Moved {
    found: FoundItem,
    way: Move,
    told: Told,
    /// Whether its letter took the step.
    stepped: bool,
}

impl Moved {
    /// Whether one statement can write both.
    fn is_followed_by(&self, next: &Self) -> bool {
        let how = |moved: &Self| (moved.way.to, moved.way.keeps_time());
        next.found.item.number == self.found.item.number + 1
            && how(next) == how(self)
            && next.told == self.told
    }
}

/// What is said of an item beside where it goes.
#[derive(Debug, Default, PartialEq)]
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
        let letters = steps::Together::default();
        Self { db, staged, head, deed, now, counts: BTreeMap::new(), letters, moved: Vec::new() }
    }

    /// Moves an item, if it stands where the move begins. Whether it did. An item is taken once by one hand.
    pub(super) fn take(&mut self, found: FoundItem, way: Move, told: Told) -> bool {
        let from = found.item.state;
        if !way.takes(from) {
            return false;
        }
        let stepped = match (way.step, found.standing) {
            (Some(step), Some(letter)) => self.letters.take(letter, step, self.staged),
            _ => false,
        };
        *self.counts.entry(from).or_default() -= 1;
        *self.counts.entry(way.to).or_default() += 1;
        self.moved.push(Moved { found, way, told, stepped });
        true
    }

    /// Writes what was moved.
    pub(super) fn finish(self) -> Result<(), StoreError> {
        self.write_items()?;
        self.write_lanes()?;
        self.log()?;
        self.letters.write(self.db)?;
        add_counts(self.db, self.head.row, self.counts.into_iter())
    }

    /// Neighbours that go the same way and are told the same are one statement.
    fn write_items(&self) -> Result<(), StoreError> {
        let mut moved: Vec<&Moved> = self.moved.iter().collect();
        // Stable: should one item have moved twice, its last move is written last.
        moved.sort_by_key(|moved| moved.found.item.number);
        moved.chunk_by(|a, b| a.is_followed_by(b)).try_for_each(|alike| self.write_alike(alike))
    }

    /// The range is gone through once, and each row is changed where it is found. Nothing is kept for taking back this
    /// statement alone (`OR FAIL`): where it fails, the whole transaction is taken back.
    fn write_alike(&self, alike: &[&Moved]) -> Result<(), StoreError> {
        let (Some(first), Some(last)) = (alike.first(), alike.last()) else { return Ok(()) };
        let (at, sent_at) = self.times(&first.way);
        let sql = "UPDATE OR FAIL replay_items
                      SET state = ?4, at = ifnull(?5, at), sent_at = ifnull(?6, sent_at), note = ?7,
                          partition = ifnull(?8, partition), log_offset = ifnull(?9, log_offset)
                    WHERE replay = ?1 AND number BETWEEN ?2 AND ?3";
        self.db
            .prepare_cached(sql)
            .and_then(|mut update| {
                update.execute(params![
                    self.head.row,
                    first.found.item.number as i64,
                    last.found.item.number as i64,
                    first.way.to.number(),
                    at,
                    sent_at,
                    first.told.note,
                    first.told.partition,
                    first.told.offset,
                ])
            })
            .map_err(read_error)?;
        Ok(())
    }

    /// The times that a move sets; what is not set stays.
    fn times(&self, way: &Move) -> (Option<i64>, Option<i64>) {
        let now = self.now.as_micros();
        ((!way.keeps_time()).then_some(now), (way.to == ItemState::Sent).then_some(now))
    }

    fn log(&self) -> Result<(), StoreError> {
        let mut alike: BTreeMap<Step, Vec<i64>> = BTreeMap::new();
        for Moved { found, way, told, .. } in self.moved.iter().filter(|moved| moved.stepped) {
            let Some(step) = way.step else { continue };
            match &told.note {
                None => alike.entry(step).or_default().push(found.item.number as i64),
                Some(note) => audit::append(
                    self.db,
                    &audit::Row {
                        letter: Some(found.item.letter),
                        reason: Some(note.clone()),
                        reference: Some(send_id(self.head.id, found.item.number)),
                        ..audit::Row::by(self.now, Event::Step(step), 1, &self.deed)
                    },
                )?,
            }
        }
        alike.into_iter().try_for_each(|(step, numbers)| self.log_alike(step, numbers))
    }

    fn log_alike(&self, step: Step, mut numbers: Vec<i64>) -> Result<(), StoreError> {
        let event = Event::Step(step);
        if step == Step::Claim {
            let count = numbers.len() as u64;
            let reference = Some(self.head.id.to_string());
            let row = audit::Row { reference, ..audit::Row::by(self.now, event, count, &self.deed) };
            return audit::append(self.db, &row);
        }
        numbers.sort_unstable();
        let sql = "INSERT OR FAIL INTO audit (at, event, author, reason, reference, letter, count)
                   SELECT ?4, ?5, ?6, ?7, ?8 || number, letter, 1 FROM replay_items
                    WHERE replay = ?1 AND number BETWEEN ?2 AND ?3 ORDER BY number";
        let mut insert = self.db.prepare_cached(sql).map_err(read_error)?;
        for (first, last) in items::runs(&numbers) {
            insert
                .execute(params![
                    self.head.row,
                    first,
                    last,
                    self.now.as_micros(),
                    event.number(),
                    self.deed.author,
                    self.deed.reason,
                    send_prefix(self.head.id),
                ])
                .map_err(read_error)?;
        }
        Ok(())
    }

    /// After the items, which it reads, and in their order.
    fn write_lanes(&self) -> Result<(), StoreError> {
        for Moved { found, way, .. } in &self.moved {
            match (found.item.state.clears_key(), way.to.clears_key()) {
                (false, true) => self.let_next_go(found)?,
                (true, false) => self.mark_next(found, true)?,
                (true, true) | (false, false) => {}
            }
        }
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
