//! Items on their way: each move writes the item, its letter's step, the audit row and the counts, in one transaction.
//!
//! Everything that is moved is locked first, letters before items and each in the order of its key, decided in memory, and
//! written by one statement a table. Where order matters, the first of a lane goes and the others wait: when an item comes
//! to a good end, the next of its lane may go; when it comes back after all, the next one waits again.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Transaction;
use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use dlo_core::replay::{Item, ItemState, send_id};
use dlo_core::time::Timestamp;

use super::super::steps::{self, Standing};
use super::super::tally::Tally;
use super::super::text::escape_option;
use super::super::{audit, read_error};
use super::rows::{self, FoundItem, Head, ReplayRow};
use crate::moves::Move;
use crate::{Deed, Event, Stepped, StoreError};

/// Items of a replay, locked, to be moved in this transaction.
pub(super) struct Hand<'t> {
    db: &'t Transaction<'t>,
    pub(super) head: Head,
    deed: Deed,
    now: Timestamp,
    /// In order.
    pub(super) items: BTreeMap<u64, FoundItem>,
    letters: HashMap<LetterId, Standing>,
    tally: Tally,
    counts: BTreeMap<ItemState, i64>,
    log: Vec<audit::Row>,
    /// A claim is no outcome: its letters have one audit row for the batch, which says how many.
    claimed: u64,
    /// Where each item that was moved stood before.
    moved: BTreeMap<u64, ItemState>,
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
    pub(super) async fn of_run(
        db: &'t Transaction<'t>,
        head: Head,
        numbers: &[i64],
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        let deed = Deed { author: head.author.clone(), reason: None, reference: None };
        Self::new(db, head, numbers, deed, now).await
    }

    pub(super) async fn new(
        db: &'t Transaction<'t>,
        head: Head,
        numbers: &[i64],
        deed: Deed,
        now: Timestamp,
    ) -> Result<Self, StoreError> {
        // Which letter an item has never changes.
        let found = rows::items(db, "number = ANY($2)", &[&head.row, &numbers]).await?;
        let ids: Vec<LetterId> = found.iter().map(|found| found.item.letter).collect();
        let letters = steps::lock(db, &ids).await?;
        let locked =
            rows::items(db, "number = ANY($2) ORDER BY number FOR UPDATE", &[&head.row, &numbers]).await?;
        let items = locked.into_iter().map(|found| (found.item.number, found)).collect();
        Ok(Self {
            db,
            head,
            deed,
            now,
            items,
            letters,
            tally: Tally::default(),
            counts: BTreeMap::new(),
            log: Vec::new(),
            claimed: 0,
            moved: BTreeMap::new(),
        })
    }

    pub(super) fn status(&self, letter: LetterId) -> Option<Status> {
        self.letters.get(&letter).map(|letter| letter.status)
    }

    /// Moves an item, if it stands where the move begins. Whether it did.
    pub(super) fn take(&mut self, number: u64, way: Move, told: Told) -> bool {
        let Some(found) = self.items.get_mut(&number) else { return false };
        let item = &mut found.item;
        let from = item.state;
        if !way.takes(from) {
            return false;
        }
        if let (Some(step), Some(letter)) = (way.step, self.letters.get_mut(&item.letter))
            && let Stepped::Moved { .. } = steps::take(letter, step, &mut self.tally)
        {
            if step == Step::Claim {
                self.claimed += 1;
            } else {
                self.log.push(audit::Row {
                    letter: Some(item.letter),
                    reason: told.note.clone().or_else(|| self.deed.reason.clone()),
                    reference: Some(send_id(self.head.id, number)),
                    ..audit::Row::by(self.now, Event::Step(step), 1, &self.deed)
                });
            }
        }
        change(item, way, told, self.now);
        *self.counts.entry(from).or_default() -= 1;
        *self.counts.entry(way.to).or_default() += 1;
        self.moved.entry(number).or_insert(from);
        true
    }

    /// Moves every item that stands where the move begins; writes; how many.
    pub(super) async fn take_all(mut self, way: Move) -> Result<u64, StoreError> {
        let numbers: Vec<u64> = self.items.keys().copied().collect();
        let moved = numbers.into_iter().filter(|number| self.take(*number, way, Told::default())).count();
        self.finish().await?;
        Ok(moved as u64)
    }

    /// Writes what was moved.
    pub(super) async fn finish(mut self) -> Result<(), StoreError> {
        if self.moved.is_empty() {
            return Ok(());
        }
        if self.claimed > 0 {
            let reference = Some(self.head.id.to_string());
            let event = Event::Step(Step::Claim);
            self.log
                .push(audit::Row { reference, ..audit::Row::by(self.now, event, self.claimed, &self.deed) });
        }
        self.write_items().await?;
        steps::write(self.db, self.letters.values()).await?;
        self.write_lanes().await?;
        audit::append(self.db, &self.log).await?;
        add_counts(self.db, self.head.row, &self.counts).await?;
        self.tally.write(self.db, self.now).await
    }

    async fn write_items(&self) -> Result<(), StoreError> {
        let items: Vec<&Item> =
            self.moved.keys().filter_map(|number| self.items.get(number)).map(|found| &found.item).collect();
        let micros = |time: Option<Timestamp>| time.map(Timestamp::as_micros);
        let sql = "UPDATE replay_items i
                      SET state = t.state, at = t.at, sent_at = t.sent_at, partition = t.partition,
                          log_offset = t.log_offset, note = t.note
                     FROM UNNEST($2::bigint[], $3::smallint[], $4::bigint[], $5::bigint[], $6::integer[], $7::bigint[],
                          $8::text[]) AS t (number, state, at, sent_at, partition, log_offset, note)
                    WHERE i.replay = $1 AND i.number = t.number";
        let statement = self.db.prepare_cached(sql).await.map_err(read_error)?;
        self.db
            .execute(
                &statement,
                &[
                    &self.head.row,
                    &items.iter().map(|item| item.number as i64).collect::<Vec<_>>(),
                    &items.iter().map(|item| i16::from(item.state.number())).collect::<Vec<_>>(),
                    &items.iter().map(|item| micros(item.at)).collect::<Vec<_>>(),
                    &items.iter().map(|item| micros(item.sent_at)).collect::<Vec<_>>(),
                    &items.iter().map(|item| item.partition).collect::<Vec<_>>(),
                    &items.iter().map(|item| item.offset).collect::<Vec<_>>(),
                    &items.iter().map(|item| escape_option(&item.note)).collect::<Vec<_>>(),
                ],
            )
            .await
            .map_err(read_error)?;
        Ok(())
    }

    async fn write_lanes(&self) -> Result<(), StoreError> {
        for (number, from) in &self.moved {
            let Some(FoundItem { item, lane: Some(lane), .. }) = self.items.get(number) else { continue };
            match (from.clears_key(), item.state.clears_key()) {
                (false, true) => {
                    if !self.waits(*number).await? {
                        self.mark_next(*number, *lane, false).await?;
                    }
                }
                (true, false) => self.mark_next(*number, *lane, true).await?,
                (true, true) | (false, false) => {}
            }
        }
        Ok(())
    }

    /// An item that waits lets nobody go: whoever it waits for does.
    async fn waits(&self, number: u64) -> Result<bool, StoreError> {
        let sql = "SELECT waits FROM replay_items WHERE replay = $1 AND number = $2";
        let statement = self.db.prepare_cached(sql).await.map_err(read_error)?;
        let row = self.db.query_one(&statement, &[&self.head.row, &(number as i64)]).await;
        Ok(row.map_err(read_error)?.get(0))
    }

    /// Says of those behind it in its lane whether they wait, up to the first that has no good end itself.
    async fn mark_next(&self, number: u64, lane: i64, waits: bool) -> Result<(), StoreError> {
        let sql = "UPDATE replay_items SET waits = $4 WHERE replay = $1 AND number =
                     (SELECT number FROM replay_items WHERE replay = $1 AND lane = $2 AND number > $3
                       ORDER BY number LIMIT 1)
                   RETURNING number, state";
        let statement = self.db.prepare_cached(sql).await.map_err(read_error)?;
        let mut number = number as i64;
        loop {
            let row = self.db.query_opt(&statement, &[&self.head.row, &lane, &number, &waits]).await;
            let Some(row) = row.map_err(read_error)? else { return Ok(()) };
            if !rows::item_state(row.get(1))?.clears_key() {
                return Ok(());
            }
            number = row.get(0);
        }
    }
}

fn change(item: &mut Item, way: Move, told: Told, now: Timestamp) {
    if !way.keeps_time() {
        item.at = Some(now);
    }
    if way.to == ItemState::Sent {
        item.sent_at = Some(now);
    }
    item.state = way.to;
    item.partition = told.partition.or(item.partition);
    item.offset = told.offset.or(item.offset);
    item.note = told.note;
}

pub(super) async fn add_counts(
    db: &Transaction<'_>,
    replay: ReplayRow,
    deltas: &BTreeMap<ItemState, i64>,
) -> Result<(), StoreError> {
    let (states, deltas): (Vec<i16>, Vec<i64>) = deltas
        .iter()
        .filter(|(_, delta)| **delta != 0)
        .map(|(state, delta)| (i16::from(state.number()), *delta))
        .unzip();
    let sql = "INSERT INTO replay_counts SELECT $1, t.state, t.n FROM UNNEST($2::smallint[], $3::bigint[]) AS t (state, n)
               ON CONFLICT (replay, state) DO UPDATE SET n = replay_counts.n + excluded.n";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(&statement, &[&replay, &states, &deltas]).await.map_err(read_error)?;
    Ok(())
}
