//! Planning: read in one snapshot, decided by dlo-core's planner, written a chunk at a time so that capture goes on.
//!
//! Members come first and their replays last. Until then they belong to a draft: a crash or a caller who goes away leaves
//! a draft, which is swept at once or when the store is opened again, and nobody ever saw any of it.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::mpsc::Sender;

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::Status;
use dlo_core::replay::planner::{Candidate, Kind, MOST_MEMBERS, Member, Planner, TooMany};
use dlo_core::replay::{Exclusion, ItemState, ReplayState};
use dlo_core::suspect::{Suspect, Suspicion};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::super::catalog::{GroupRow, uuid};
use super::super::writer::{Job, Shared, Writer};
use super::super::{audit, read, read_error, rows as letters, search, steps};
use super::rows::{self, ReplayRow};
use crate::place::Place;
use crate::planned::{Asked, Planned, distinct, write_up};
use crate::replays::{Members, NewReplay};
use crate::{Deed, Event, StoreError};

/// Items of one transaction: some ten milliseconds.
pub(super) const CHUNK: usize = 5_000;
/// Letters that are read by one statement.
const LOOK: usize = 2_000;

/// Decides what the plan is, from one snapshot.
pub(super) fn decide(
    db: &Connection,
    shared: &Shared,
    new: &NewReplay,
    now: Timestamp,
) -> Result<Vec<Planned>, StoreError> {
    let db = &db.unchecked_transaction().map_err(read_error)?;
    let mut planner = Planner::new(&new.policy, &new.settings, now);
    let places = match &new.members {
        Members::Query { query, .. } => {
            let asked = Asked::of(query);
            let mut leave_out = |why, query| {
                search::count(db, shared, query, u64::MAX, None)
                    .map(|count| planner.exclude(why, count.letters))
            };
            leave_out(Exclusion::NotOpen, &asked.others)?;
            leave_out(Exclusion::Held, &asked.held)?;
            planner.held_by(holder(db, &search::places(db, shared, &asked.held, 1)?)?);
            search::places(db, shared, &asked.open, MOST_MEMBERS)?
        }
        Members::Ids(ids) => {
            let places = places_of(db, shared, ids)?;
            planner.held_by(holder(db, &places)?);
            places
        }
    };
    if places.len() > MOST_MEMBERS {
        return Err(too_many(TooMany));
    }
    offer_all(db, shared, &places, &mut planner)?;
    for source in planner.asks_for_recovered() {
        tell_recovered(db, shared, &source, &mut planner)?;
    }
    Ok(write_up(new, planner.finish().map_err(StoreError::PlanRefused)?, now))
}

fn too_many(refusal: TooMany) -> StoreError {
    StoreError::Unsupported(refusal.to_string())
}

fn places_of(db: &Connection, shared: &Shared, ids: &[LetterId]) -> Result<Vec<Place>, StoreError> {
    let found = distinct(ids).into_iter().map(|id| Ok(read::find(db, shared, id)?.place));
    let mut places = found.collect::<Result<Vec<_>, StoreError>>()?;
    places.sort_unstable();
    Ok(places)
}

/// A replay that has one of these letters in hand.
fn holder(db: &Connection, places: &[Place]) -> Result<Option<ReplayId>, StoreError> {
    let sql = "SELECT r.id FROM letters l JOIN replay_items i ON i.letter = l.id JOIN replays r ON r.row = i.replay
                WHERE l.place IN (SELECT value FROM json_each(?1)) AND l.status = ?2 AND i.state IN (?3, ?4) LIMIT 1";
    let [claimed, intended] = [ItemState::Claimed, ItemState::Intended].map(ItemState::number);
    let places = steps::json_array(places.iter().map(|place| place.0));
    db.query_row(sql, params![places, Status::Claimed.number(), claimed, intended], |row| {
        uuid(row.get_ref(0)?.as_blob().map_err(|_| letters::unreadable("replays.id"))?).map(ReplayId)
    })
    .optional()
    .map_err(read_error)
}

/// The words of a group, copied once, so that the catalog is not held while rows are read.
struct Words {
    source: String,
    event_type: Option<String>,
    error_class: Option<String>,
    owner: Option<String>,
    consumer: Option<String>,
    overflow: bool,
}

fn words(shared: &Shared, row: GroupRow) -> Option<Words> {
    shared.catalog(|catalog| {
        catalog.groups.get(&row).map(|group| Words {
            source: group.source.clone(),
            event_type: group.event_type.clone(),
            error_class: group.error_class.clone(),
            owner: group.owner.clone(),
            consumer: group.consumer.clone(),
            overflow: group.overflow,
        })
    })
}

fn offer_all(
    db: &Connection,
    shared: &Shared,
    places: &[Place],
    planner: &mut Planner<'_>,
) -> Result<(), StoreError> {
    let mut groups: HashMap<GroupRow, Words> = HashMap::new();
    let mut statement = db
        .prepare_cached(
            "SELECT id, group_id, status, msg_key, payload_size, replays, failed_at, own_type, own_class, own_consumer,
                    EXISTS (SELECT 1 FROM pointers p WHERE p.letter = letters.id),
                    (SELECT s.kind FROM suspects s WHERE s.letter = letters.id),
                    (SELECT o.status FROM suspects s JOIN letters o ON o.id = s.related WHERE s.letter = letters.id)
               FROM letters WHERE place IN (SELECT value FROM json_each(?1)) ORDER BY place",
        )
        .map_err(read_error)?;
    for some in places.chunks(LOOK) {
        let some = steps::json_array(some.iter().map(|place| place.0));
        let mut found = statement.query([some]).map_err(read_error)?;
        while let Some(row) = found.next().map_err(read_error)? {
            let group: GroupRow = row.get(1).map_err(read_error)?;
            let words = match groups.entry(group) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(new) => {
                    let lost = || read_error(letters::unreadable("letters.group_id"));
                    new.insert(words(shared, group).ok_or_else(lost)?)
                }
            };
            let candidate = candidate(row, words).map_err(read_error)?;
            planner.offer(&candidate).map_err(too_many)?;
        }
    }
    Ok(())
}

fn candidate<'r>(row: &'r rusqlite::Row<'_>, words: &'r Words) -> rusqlite::Result<Candidate<'r>> {
    let text = |index: usize| row.get_ref(index)?.as_str_or_null().map_err(rusqlite::Error::from);
    let id = row.get_ref(0)?.as_blob().map_err(|_| letters::unreadable("letters.id"))?;
    let of_group = |word: &'r Option<String>| word.as_deref();
    let kind = Kind {
        source: &words.source,
        event_type: if words.overflow { text(7)? } else { of_group(&words.event_type) },
        error_class: if words.overflow { text(8)? } else { of_group(&words.error_class) },
        owner: of_group(&words.owner),
        consumer: if words.overflow { text(9)? } else { of_group(&words.consumer) },
    };
    Ok(Candidate {
        letter: LetterId(uuid(id)?),
        kind,
        key: row.get_ref(3)?.as_blob_or_null().map_err(rusqlite::Error::from)?,
        status: Status::from_number(row.get(2)?).ok_or_else(|| letters::unreadable("letters.status"))?,
        pointer: row.get(10)?,
        suspected: is_left_out(row)?,
        payload_size: row.get::<_, i64>(4)? as u64,
        replays: row.get(5)?,
        failed_at: Timestamp::from_micros(row.get(6)?),
    })
}

fn is_left_out(row: &rusqlite::Row<'_>) -> rusqlite::Result<bool> {
    let Some(kind) = row.get::<_, Option<u8>>(11)? else { return Ok(false) };
    let kind = Suspicion::from_number(kind).ok_or_else(|| letters::unreadable("suspects.kind"))?;
    let first = Status::from_number(row.get(12)?).ok_or_else(|| letters::unreadable("letters.status"))?;
    Ok(Suspect::is_left_out(kind, first))
}

/// Every recovered letter of a source that has a key.
fn tell_recovered(
    db: &Connection,
    shared: &Shared,
    source: &str,
    planner: &mut Planner<'_>,
) -> Result<(), StoreError> {
    let of_source = |catalog: &super::super::catalog::Catalog| {
        let groups = catalog.groups.iter().filter(|(_, group)| group.source == source);
        groups.map(|(row, _)| *row).collect::<Vec<_>>()
    };
    let mut statement = db
        .prepare_cached(
            "SELECT msg_key, failed_at FROM letters INDEXED BY letters_by_group
              WHERE group_id = ?1 AND status IN (?2, ?3) AND msg_key IS NOT NULL",
        )
        .map_err(read_error)?;
    for group in shared.catalog(of_source) {
        let [recovered, sent] = [Status::Recovered, Status::Sent].map(Status::number);
        let mut found = statement.query(params![group, recovered, sent]).map_err(read_error)?;
        while let Some(row) = found.next().map_err(read_error)? {
            let key: Vec<u8> = row.get(0).map_err(read_error)?;
            let failed_at: i64 = row.get(1).map_err(read_error)?;
            planner.recovered(source, &key, Timestamp::from_micros(failed_at));
        }
    }
    Ok(())
}

/// Row numbers that are being written. Dropped before it is finished, it has what was written swept.
pub(super) struct Draft {
    jobs: Sender<Job>,
    /// The first of them; the others follow.
    pub(super) first: ReplayRow,
    count: usize,
    finished: bool,
}

impl Draft {
    pub(super) fn new(jobs: Sender<Job>, first: ReplayRow, count: usize) -> Self {
        Self { jobs, first, count, finished: false }
    }

    pub(super) fn finish(mut self) {
        self.finished = true;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if !self.finished {
            let rows = self.first..self.first + self.count as i64;
            // If the store is closed, its next opening sweeps.
            let _ = self.jobs.send(Job::Run(Box::new(move |writer| {
                if let Err(error) =
                    writer.transact(|db, _, _| rows.clone().try_for_each(|row| sweep_one(db, row)))
                {
                    tracing::warn!(%error, "an unfinished plan stays until the store is opened again");
                }
            })));
        }
    }
}

/// Reserves row numbers for the replays of a plan; the first of them.
pub(super) fn begin(writer: &mut Writer, planned: &[Planned]) -> Result<ReplayRow, StoreError> {
    let first = writer.next_replay;
    writer.transact(|db, _, _| {
        for (row, planned) in (first..).zip(planned) {
            db.execute("INSERT INTO drafts VALUES (?1, ?2)", params![row, planned.replay.id.0.as_bytes()])
                .map_err(read_error)?;
        }
        Ok(())
    })?;
    writer.next_replay += planned.len() as i64;
    Ok(first)
}

/// The draft is gone if the office was restored from a backup meanwhile.
fn check(db: &Connection, row: ReplayRow, planned: &[u8; 16]) -> Result<(), StoreError> {
    let there = db
        .prepare_cached("SELECT 1 FROM drafts WHERE row = ?1 AND id = ?2")
        .and_then(|mut find| find.exists(params![row, planned]))
        .map_err(read_error)?;
    if !there {
        return Err(StoreError::Unavailable("it was restored while a plan was written; plan again".into()));
    }
    Ok(())
}

/// Writes members `from` on, a chunk of them.
pub(super) fn write_chunk(
    db: &Connection,
    row: ReplayRow,
    id: &[u8; 16],
    from: usize,
    members: &[Member],
) -> Result<(), StoreError> {
    check(db, row, id)?;
    if members.iter().all(|member| member.lane.is_none() && !member.waits) {
        return write_plain(db, row, from, members);
    }
    let mut insert = db
        .prepare_cached(
            "INSERT INTO replay_items (replay, number, letter, state, lane, waits) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        )
        .map_err(read_error)?;
    for (number, member) in (from as i64..).zip(members) {
        insert
            .execute(params![
                row,
                number,
                member.letter.0.as_bytes(),
                ItemState::Frozen.number(),
                member.lane,
                member.waits,
            ])
            .map_err(read_error)?;
    }
    Ok(())
}

/// Members without order have nothing but their letters, which come as one list: a statement for each costs more than the
/// row.
fn write_plain(db: &Connection, row: ReplayRow, from: usize, members: &[Member]) -> Result<(), StoreError> {
    let mut letters = String::with_capacity(2 + members.len() * 35);
    for member in members {
        letters.push(if letters.is_empty() { '[' } else { ',' });
        letters.push('"');
        letters.push_str(member.letter.0.simple().encode_lower(&mut [0; 32]));
        letters.push('"');
    }
    letters.push(']');
    let sql = "INSERT INTO replay_items (replay, number, letter, state, waits)
               SELECT ?1, ?2 + key, unhex(value), ?3, 0 FROM json_each(?4)";
    db.prepare_cached(sql)
        .and_then(|mut insert| insert.execute(params![row, from as i64, ItemState::Frozen.number(), letters]))
        .map_err(read_error)?;
    Ok(())
}

/// Makes the plan of the draft.
pub(super) fn publish(
    db: &Connection,
    first: ReplayRow,
    planned: &[Planned],
    now: Timestamp,
) -> Result<(), StoreError> {
    let Some(whole) = planned.first() else { return Ok(()) };
    for (row, planned_one) in (first..).zip(planned) {
        let replay = &planned_one.replay;
        check(db, row, replay.id.0.as_bytes())?;
        let is_whole = row == first;
        let parent = (!is_whole).then_some(first);
        let children = if is_whole { planned.len() - 1 } else { 0 };
        rows::insert(db, row, parent, children, replay)?;
        let frozen = planned_one.members.len() as i64;
        super::hand::add_counts(db, row, std::iter::once((ItemState::Frozen, frozen)))?;
        db.execute("DELETE FROM drafts WHERE row = ?1", [row]).map_err(read_error)?;
    }
    let replay = &whole.replay;
    let deed = Deed {
        author: replay.author.clone(),
        reason: Some(replay.reason.clone()),
        reference: Some(replay.id.to_string()),
    };
    let count = replay.counts.total();
    let event = Event::Replay(ReplayState::Planned);
    let row = audit::Row { source: replay.source.clone(), ..audit::Row::by(now, event, count, &deed) };
    audit::append(db, &row)
}

/// Takes away what plans left that were never finished.
pub(in super::super) fn sweep(db: &Connection) -> Result<(), StoreError> {
    let drafts: Vec<ReplayRow> = db
        .prepare("SELECT row FROM drafts")
        .and_then(|mut find| find.query_map([], |row| row.get(0)).and_then(Iterator::collect))
        .map_err(read_error)?;
    drafts.into_iter().try_for_each(|row| sweep_one(db, row))
}

fn sweep_one(db: &Connection, row: ReplayRow) -> Result<(), StoreError> {
    db.execute("DELETE FROM replay_items WHERE replay IN (SELECT row FROM drafts WHERE row = ?1)", [row])
        .and_then(|_| db.execute("DELETE FROM drafts WHERE row = ?1", [row]))
        .map_err(read_error)?;
    Ok(())
}

/// The first row number that no replay has.
pub(in super::super) fn next_row(db: &Connection) -> Result<ReplayRow, StoreError> {
    db.query_row("SELECT ifnull(max(row), 0) + 1 FROM replays", [], |row| row.get(0)).map_err(read_error)
}
