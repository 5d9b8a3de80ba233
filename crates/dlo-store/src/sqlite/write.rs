//! One insert, inside a transaction: recognise, group, place, write, count.
//!
//! Nothing here commits. What the catalog must learn is staged and merged after the commit, so a crash or a failure
//! between any two lines leaves the database and the memory as they were.

use std::collections::BTreeMap;

use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::time::Timestamp;
use rusqlite::{CachedStatement, Connection, params};

use super::catalog::{Staged, uuid};
use super::grouping::{Grouping, arrived, group_of, touch};
use super::splits::sort_new;
use super::writer::Shared;
use super::{again, audit, read_error, replays, suspects, triage};
use crate::place::Place;
use crate::prepare::{Prepared, with_suspicion};
use crate::triage::rules::{Sorter, as_stored};
use crate::{Checkpoint, Event, Inserted, StoreError, StoreLimits};

/// What a transaction needs beside its connection.
pub(super) struct Tools<'a> {
    pub(super) shared: &'a Shared,
    pub(super) limits: &'a StoreLimits,
    pub(super) running: &'a mut i64,
    pub(super) next_block: &'a mut i64,
    pub(super) unindexed: u64,
}

/// Where one letter's cold part stands, and how large its payload is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stored {
    pub(super) block: i64,
    pub(super) slot: usize,
    pub(super) size: u64,
}

/// What every letter needs, looked up once a batch.
struct Statements<'db> {
    origin: CachedStatement<'db>,
    letter: CachedStatement<'db>,
    tokens: CachedStatement<'db>,
    /// Replays whose messages may come back without our headers.
    expected: Vec<replays::Expected>,
}

const INSERT_ORIGIN: &str = "INSERT INTO origins VALUES (?1, ?2) ON CONFLICT DO NOTHING";
const INSERT_LETTER: &str = "
    INSERT INTO letters VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19,
           ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?30, 0, 1, ?31, ?32, ?33, ?34, ?35)
    ON CONFLICT (place) DO NOTHING";
const INSERT_TOKENS: &str = "INSERT INTO quick (rowid, tokens) VALUES (?1, ?2)";

impl<'db> Statements<'db> {
    fn new(db: &'db Connection, now: Timestamp) -> Result<Self, StoreError> {
        let get = |sql| db.prepare_cached(sql).map_err(read_error);
        Ok(Self {
            origin: get(INSERT_ORIGIN)?,
            letter: get(INSERT_LETTER)?,
            tokens: get(INSERT_TOKENS)?,
            expected: replays::expected(db, now)?,
        })
    }
}

/// Writes one prepared batch.
pub(super) fn insert(
    db: &Connection,
    staged: &mut Staged,
    tools: &mut Tools<'_>,
    batch: &Prepared,
    now: Timestamp,
) -> Result<Vec<Inserted>, StoreError> {
    let first_block = *tools.next_block;
    let mut places: Vec<Vec<Place>> =
        batch.blocks.iter().map(|b| vec![Place::NOWHERE; b.letters.len()]).collect();
    let mut results = Vec::with_capacity(batch.letters.len());
    let mut captured: BTreeMap<&str, u64> = BTreeMap::new();
    let mut statements = Statements::new(db, now)?;
    let mut sorter = Sorter::new(&batch.blocks);
    for (index, letter) in batch.letters.iter().enumerate() {
        let (block, slot) = batch.slots[index];
        let stored = Stored { block: first_block + block as i64, slot, size: batch.sizes[index] };
        sorter.at = (block, slot);
        let (inserted, place) = insert_one(
            db,
            &mut statements,
            staged,
            tools,
            letter,
            (stored, &batch.tokens[index], &mut sorter),
            now,
        )?;
        if let Some(place) = place {
            places[block][slot] = place;
        }
        if let Inserted::Stored(id) = inserted {
            *captured.entry(&letter.source).or_default() += 1;
            if batch.pointers[index] {
                db.execute("INSERT INTO pointers VALUES (?1)", [id.0.as_bytes()]).map_err(read_error)?;
            }
        }
        results.push(inserted);
    }
    write_blocks(db, tools, batch, &places)?;
    for (source, count) in captured {
        audit::append(db, &audit::Row::captured(now, source, count))?;
    }
    write_checkpoints(db, &batch.checkpoints)?;
    Ok(results)
}

fn write_checkpoints(db: &Connection, checkpoints: &[Checkpoint]) -> Result<(), StoreError> {
    let sql = "INSERT INTO checkpoints VALUES (?1, ?2, ?3, ?4, ?5)
               ON CONFLICT DO UPDATE SET next = excluded.next, mark = excluded.mark WHERE excluded.next >= next";
    let mut checkpoint = db.prepare_cached(sql).map_err(read_error)?;
    for at in checkpoints {
        checkpoint
            .execute(params![at.source, at.incarnation, at.partition, at.next, at.mark])
            .map_err(read_error)?;
    }
    Ok(())
}

/// Stores one letter. The place is returned when its cold part is needed.
fn insert_one(
    db: &Connection,
    statements: &mut Statements<'_>,
    staged: &mut Staged,
    tools: &mut Tools<'_>,
    letter: &NewLetter,
    (stored, tokens, sorter): (Stored, &str, &mut Sorter<'_>),
    now: Timestamp,
) -> Result<(Inserted, Option<Place>), StoreError> {
    let mut former = match letter.replay_of {
        Some(former) => again::find(db, former)?,
        None => None,
    };
    let mut back = match former {
        Some(_) => None,
        None => replays::find_return(db, &statements.expected, letter, || sorter.cold(), now)?,
    };
    let death;
    let letter = match back.take_if(|back| back.is_proven) {
        Some(back) => {
            former = again::find(db, back.letter())?;
            death = back.as_death(letter);
            &death
        }
        None => letter,
    };
    let id = former.as_ref().map_or_else(|| LetterId::new(now, rand::random()), |former| former.id);
    if let Some(known) = known_death(db, statements, letter, id)? {
        return Ok((Inserted::Duplicate(known), None));
    }
    let mut group = group_of(staged, tools, letter, now);
    if let Some(former) = former {
        again::die_again(
            db,
            staged,
            tools,
            &former,
            &again::NewDeath { letter, group, stored, tokens, now },
        )?;
        return Ok((Inserted::DiedAgain(id), Some(Place::ELSEWHERE)));
    }
    group.row = sort_new(tools.shared, sorter, group.row, || as_stored(letter, id, stored.size, now));
    let suspect = match back {
        Some(back) => suspects::find_return(db, staged, back, letter, now)?,
        None => suspects::find_copy(db, letter, id)?,
    };
    let place = insert_row(statements, tools, letter, group, stored, id, now)?;
    match suspect {
        Some(suspect) => {
            suspects::write(db, id, suspect)?;
            write_tokens(&mut statements.tokens, place, &with_suspicion(tokens, suspect.kind))?;
        }
        None => write_tokens(&mut statements.tokens, place, tokens)?,
    }
    staged.count(group.row, letter.status, 1);
    touch(staged, tools, group.row, letter, now);
    let arrived = arrived(staged, &letter.source, now);
    arrived.captured += 1;
    arrived.deaths += 1;
    if letter.status == Status::Discarded {
        audit::append(db, &audit::Row::of_letter(now, Event::Step(Step::Discard), id, letter))?;
    }
    Ok((Inserted::Stored(id), Some(place)))
}

/// Remembers the death as one of letter `id`; if it is remembered already, says of which letter.
fn known_death(
    db: &Connection,
    statements: &mut Statements<'_>,
    letter: &NewLetter,
    id: LetterId,
) -> Result<Option<LetterId>, StoreError> {
    let Some(key) = &letter.dedupe else { return Ok(None) };
    if statements.origin.execute(params![key.0, id.0.as_bytes()]).map_err(read_error)? == 1 {
        return Ok(None);
    }
    let mut find = db.prepare_cached("SELECT letter FROM origins WHERE key = ?1").map_err(read_error)?;
    find.query_row([&key.0], |row| row.get::<_, Vec<u8>>(0).and_then(|bytes| uuid(&bytes)))
        .map(|known| Some(LetterId(known)))
        .map_err(read_error)
}

fn insert_row(
    statements: &mut Statements<'_>,
    tools: &mut Tools<'_>,
    letter: &NewLetter,
    group: Grouping,
    stored: Stored,
    id: LetterId,
    now: Timestamp,
) -> Result<Place, StoreError> {
    let mut place = next_place(tools, letter.failed_at);
    let own = |word: Option<&String>| if group.overflow { word.cloned() } else { None };
    let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    loop {
        let written = statements
            .letter
            .execute(params![
                place.0,
                id.0.as_bytes(),
                group.row,
                letter.status.number(),
                stored.block,
                stored.slot as i64,
                now.as_micros(),
                letter.failed_at.as_micros(),
                micros(letter.first_failed_at),
                micros(letter.received_at),
                micros(letter.published_at),
                letter.origin.broker.number(),
                letter.origin.incarnation,
                letter.origin.partition,
                letter.origin.offset,
                letter.origin.message_id,
                letter.message.key.as_ref().map(|key| &key.0[..]),
                letter.content_type,
                letter.event_version,
                letter.correlation_id,
                letter.trace_id,
                letter.consumer_id,
                letter.consumer_version,
                letter.attempts,
                letter.error_message,
                letter.error_code,
                letter.reason.number(),
                letter.verdict.number(),
                letter.rule,
                stored.size as i64,
                letter.replay_id,
                own(Some(&letter.origin.queue)),
                own(letter.consumer.as_ref()),
                own(letter.event_type.as_ref()),
                own(letter.error_class.as_ref()),
            ])
            .map_err(read_error)?;
        if written == 1 {
            return Ok(place);
        }
        place = place.next();
    }
}

pub(super) fn next_place(tools: &mut Tools<'_>, failed_at: Timestamp) -> Place {
    *tools.running += 1;
    Place::new(failed_at, *tools.running)
}

pub(super) fn index_tokens(db: &Connection, place: Place, tokens: &str) -> Result<(), StoreError> {
    write_tokens(&mut db.prepare_cached(INSERT_TOKENS).map_err(read_error)?, place, tokens)
}

fn write_tokens(insert: &mut CachedStatement<'_>, place: Place, tokens: &str) -> Result<(), StoreError> {
    if !tokens.is_empty() {
        insert.execute(params![place.0, tokens]).map_err(read_error)?;
    }
    Ok(())
}

/// Writes the blocks of which at least one letter is new.
fn write_blocks(
    db: &Connection,
    tools: &mut Tools<'_>,
    batch: &Prepared,
    places: &[Vec<Place>],
) -> Result<(), StoreError> {
    let mut block = db.prepare_cached("INSERT INTO blocks VALUES (?1, ?2, ?3)").map_err(read_error)?;
    let mut waits = db.prepare_cached("INSERT INTO unindexed VALUES (?1)").map_err(read_error)?;
    for (packed, places) in batch.blocks.iter().zip(places) {
        let id = *tools.next_block;
        *tools.next_block += 1;
        if places.iter().all(|place| *place == Place::NOWHERE) {
            continue;
        }
        let list: Vec<u8> = places.iter().flat_map(|place| place.0.to_le_bytes()).collect();
        block.execute(params![id, list, packed.data]).map_err(read_error)?;
        waits.execute([id]).map_err(read_error)?;
        tools.unindexed += places.iter().filter(|place| place.0 > 0).count() as u64;
    }
    Ok(())
}

/// Writes what was staged: groups, counts, sources. Once per transaction, however many letters it holds.
pub(super) fn flush(db: &Connection, staged: &Staged) -> Result<(), StoreError> {
    let mut group = db
        .prepare_cached(
            "INSERT INTO groups (id, uid, version, source, queue, consumer, event_type, error_class, template, overflow,
                                 status, owner, first_seen, last_seen, split_from, split_where, split_title)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)",
        )
        .map_err(read_error)?;
    for (row, new) in &staged.new_groups {
        let split = new.split.as_ref();
        group
            .execute(params![
                row,
                new.id.0.as_bytes(),
                new.fingerprint_version,
                new.source,
                new.queue,
                new.consumer,
                new.event_type,
                new.error_class,
                new.template,
                new.overflow,
                new.life.status.number(),
                new.owner,
                new.first_seen.as_micros(),
                new.last_seen.as_micros(),
                split.map(|split| split.from.0.as_bytes().to_vec()),
                split.map(|split| &split.condition),
                split.and_then(|split| split.title.as_ref()),
            ])
            .map_err(read_error)?;
    }
    let mut seen = db
        .prepare_cached(
            "UPDATE groups SET first_seen = min(first_seen, ?2), last_seen = max(last_seen, ?3) WHERE id = ?1",
        )
        .map_err(read_error)?;
    for (row, touch) in &staged.touched {
        seen.execute(params![row, touch.first.as_micros(), touch.last.as_micros()]).map_err(read_error)?;
    }
    triage::flush(db, staged)?;
    let mut count = db
        .prepare_cached("INSERT INTO counts VALUES (?1, ?2, ?3) ON CONFLICT DO UPDATE SET n = n + excluded.n")
        .map_err(read_error)?;
    for ((row, status), delta) in &staged.counts {
        count.execute(params![row, status.number(), delta]).map_err(read_error)?;
    }
    let mut source = db
        .prepare_cached(
            "INSERT INTO sources VALUES (?1, ?2, ?3, ?4) ON CONFLICT DO UPDATE SET captured = captured + excluded.captured,
             deaths = deaths + excluded.deaths, last_captured = max(ifnull(last_captured, 0), excluded.last_captured)",
        )
        .map_err(read_error)?;
    for (name, arrived) in &staged.sources {
        source
            .execute(params![name, arrived.captured, arrived.deaths as i64, arrived.at.as_micros()])
            .map_err(read_error)?;
    }
    Ok(())
}
