//! One insert, inside a transaction: recognise, group, place, write, count.
//!
//! Locks are taken in one order by everybody (leases, letters that come back and then their items, dedupe keys, death ids,
//! conditions, sources with new groups, counts), each kind in the order of its keys, so that overlapping batches wait for
//! each other and never in a circle. Each table is written by one statement for the whole batch.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use deadpool_postgres::Transaction;
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::time::Timestamp;
use uuid::Uuid;

use super::grouping::{self, Grouping};
use super::letters::{self, Row};
use super::replays::{self, ForeignReturn};
use super::tally::Tally;
use super::text::escape;
use super::{again, audit, read_error, splits, suspects};
use crate::place::Place;
use crate::prepare::Prepared;
use crate::triage::rules::Sorter;
use crate::{Checkpoint, Event, Inserted, StoreError};

/// Bytes of blocks in one statement: what the driver and the server hold at once.
const BLOCK_BYTES: usize = 8 * 1024 * 1024;

/// Writes one prepared batch.
pub(super) async fn insert(
    db: &Transaction<'_>,
    batch: &Prepared,
    now: Timestamp,
    groups_per_source: usize,
) -> Result<Vec<Inserted>, StoreError> {
    let (mut letters, mut returned) = with_returns(db, batch, now).await?;
    let here = lock_formers(db, &letters).await?;
    check_proven(db, batch, &mut letters, &mut returned, now).await?;
    let results = recognise(db, &letters, &here, now).await?;
    let fresh: Vec<usize> =
        (0..results.len()).filter(|at| !matches!(results[*at], Inserted::Duplicate(_))).collect();
    if !fresh.is_empty() {
        let batch = NewBatch { letters: &letters, batch, returned };
        write(db, &batch, &results, &fresh, now, groups_per_source).await?;
    }
    write_checkpoints(db, &batch.checkpoints).await?;
    Ok(results)
}

/// A batch with what was found out about its letters.
struct NewBatch<'b> {
    letters: &'b [NewLetter],
    batch: &'b Prepared,
    /// Those that a replay probably sent, by their index.
    returned: HashMap<usize, ForeignReturn>,
}

/// The letters, as deaths of other letters where they came back from a replay without our headers.
async fn with_returns<'b>(
    db: &Transaction<'_>,
    batch: &'b Prepared,
    now: Timestamp,
) -> Result<(Cow<'b, [NewLetter]>, HashMap<usize, ForeignReturn>), StoreError> {
    let mut letters: Cow<'b, [NewLetter]> = Cow::Borrowed(&batch.letters);
    let mut returned = HashMap::new();
    let mut expected = replays::expected(db, now).await?;
    if expected.is_empty() {
        return Ok((letters, returned));
    }
    let mut sorter = Sorter::new(&batch.blocks);
    for (at, letter) in batch.letters.iter().enumerate() {
        if letter.replay_of.is_some() || !expected.iter().any(|replay| replay.is_of(letter)) {
            continue;
        }
        sorter.at = batch.slots[at];
        let Some(cold) = sorter.cold() else { continue };
        let Some(back) = replays::find_return(db, &mut expected, letter, cold, now).await? else { continue };
        if back.is_proven {
            letters.to_mut()[at] = back.as_death(letter);
        }
        returned.insert(at, back);
    }
    Ok((letters, returned))
}

/// Reads the items of proven returns again, now that their letters are locked. A letter is new where another batch had the
/// return meanwhile. Suspected returns stay in `returned`.
async fn check_proven(
    db: &Transaction<'_>,
    batch: &Prepared,
    letters: &mut Cow<'_, [NewLetter]>,
    returned: &mut HashMap<usize, ForeignReturn>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut proven: Vec<_> = returned.extract_if(|_, back| back.is_proven).collect();
    proven.sort_by_key(|(_, back)| back.letter());
    for (at, back) in proven {
        if !replays::is_still_expected(db, &back, now).await? {
            letters.to_mut()[at] = batch.letters[at].clone();
        }
    }
    Ok(())
}

/// What each letter is: new, known, or one more death of a letter that is here.
async fn recognise(
    db: &Transaction<'_>,
    letters: &[NewLetter],
    here: &HashSet<LetterId>,
    now: Timestamp,
) -> Result<Vec<Inserted>, StoreError> {
    let mut results: Vec<Inserted> = letters
        .iter()
        .map(|letter| match letter.replay_of {
            Some(former) if here.contains(&former) => Inserted::DiedAgain(former),
            _ => Inserted::Stored(LetterId::new(now, rand::random())),
        })
        .collect();
    // The first of a batch with a key stands for the others; in the order of the keys.
    let mut firsts: BTreeMap<&[u8], usize> = BTreeMap::new();
    for (at, letter) in letters.iter().enumerate() {
        if let Some(key) = &letter.dedupe {
            firsts.entry(&key.0).or_insert(at);
        }
    }
    let known = remember(db, &firsts, &results).await?;
    for (at, letter) in letters.iter().enumerate() {
        let Some(key) = letter.dedupe.as_ref().map(|key| &key.0[..]) else { continue };
        if let Some(id) = known.get(key) {
            results[at] = Inserted::Duplicate(*id);
        } else if firsts.get(key) != Some(&at) {
            let first = firsts.get(key).map_or(at, |first| *first);
            results[at] = Inserted::Duplicate(results[first].id());
        }
    }
    Ok(results)
}

/// The letters that others say they are, as far as they are here; they stay locked.
async fn lock_formers(db: &Transaction<'_>, letters: &[NewLetter]) -> Result<HashSet<LetterId>, StoreError> {
    let named: BTreeSet<Uuid> = letters.iter().filter_map(|letter| letter.replay_of).map(|id| id.0).collect();
    if named.is_empty() {
        return Ok(HashSet::new());
    }
    let named: Vec<Uuid> = named.into_iter().collect();
    let sql = "SELECT id FROM letters WHERE id = ANY($1) ORDER BY id FOR UPDATE";
    let rows = db.query(sql, &[&named]).await.map_err(read_error)?;
    Ok(rows.iter().map(|row| LetterId(row.get(0))).collect())
}

/// Writes dedupe keys; returns those that were here already, with their letters.
async fn remember<'k>(
    db: &Transaction<'_>,
    firsts: &BTreeMap<&'k [u8], usize>,
    results: &[Inserted],
) -> Result<HashMap<&'k [u8], LetterId>, StoreError> {
    if firsts.is_empty() {
        return Ok(HashMap::new());
    }
    let keys: Vec<&[u8]> = firsts.keys().copied().collect();
    let ids: Vec<Uuid> = firsts.values().map(|at| results[*at].id().0).collect();
    let sql = "INSERT INTO origins SELECT * FROM UNNEST($1::bytea[], $2::uuid[])
               ON CONFLICT (key) DO NOTHING RETURNING key";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let rows = db.query(&statement, &[&keys, &ids]).await.map_err(read_error)?;
    let written: HashSet<Vec<u8>> = rows.iter().map(|row| row.get(0)).collect();
    let known: Vec<&[u8]> = keys.into_iter().filter(|key| !written.contains(*key)).collect();
    if known.is_empty() {
        return Ok(HashMap::new());
    }
    let sql = "SELECT key, letter FROM origins WHERE key = ANY($1)";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let rows = db.query(&statement, &[&known]).await.map_err(read_error)?;
    let letters: HashMap<Vec<u8>, LetterId> =
        rows.iter().map(|row| (row.get(0), LetterId(row.get(1)))).collect();
    Ok(known.into_iter().filter_map(|key| letters.get(key).map(|id| (key, *id))).collect())
}

/// Writes what is not a duplicate.
async fn write(
    db: &Transaction<'_>,
    new: &NewBatch<'_>,
    results: &[Inserted],
    fresh: &[usize],
    now: Timestamp,
    groups_per_source: usize,
) -> Result<(), StoreError> {
    let NewBatch { letters, batch, returned } = new;
    let mut suspected = suspects::find_copies(db, letters, results).await?;
    suspects::find_returns(db, letters, results, returned, &mut suspected, now).await?;
    let groups = grouping::resolve(db, fresh.iter().map(|at| &letters[*at]), groups_per_source).await?;
    let blocks: BTreeSet<usize> = fresh.iter().map(|at| batch.slots[*at].0).collect();
    let (running, block_ids) = numbers(db, fresh.len(), blocks.len()).await?;
    let block_ids: HashMap<usize, i64> = blocks.into_iter().zip(block_ids).collect();
    let rules = splits::rules(db, groups.values()).await?;
    let mut sorter = Sorter::new(&batch.blocks);
    let mut rows = Vec::with_capacity(fresh.len());
    for (at, running) in fresh.iter().zip(running) {
        let mut row = row_of(letters, batch, *at, results[*at], running, &groups, &block_ids)?;
        row.suspect = suspected.get(at).copied();
        sorter.at = batch.slots[*at];
        splits::sort_new(&rules, &mut sorter, &mut row, now);
        rows.push(row);
    }
    write_blocks(db, batch, &block_ids).await?;
    let (back, mut new): (Vec<Row<'_>>, Vec<Row<'_>>) = rows.into_iter().partition(|row| row.again);
    letters::insert(db, &mut new, now).await?;
    write_pointers(db, batch, results, fresh).await?;
    let suspected: Vec<_> = new.iter().filter_map(|row| Some((row.id, row.suspect?))).collect();
    suspects::write(db, &suspected).await?;
    let mut tally = Tally::default();
    let mut log = Vec::new();
    for row in &new {
        tally.count(row.group.row, row.letter.status, 1);
        tally.see(row.group.row, row.letter);
        let arrived = tally.arrived(&row.letter.source);
        arrived.captured += 1;
        arrived.deaths += 1;
    }
    for (source, count) in captured(&new) {
        log.push(audit::Row::captured(now, source, count));
    }
    for row in new.iter().filter(|row| row.letter.status == Status::Discarded) {
        log.push(audit::Row::of_letter(now, Event::Step(Step::Discard), row.id, row.letter));
    }
    for row in &back {
        again::die_again(db, &mut tally, row, &rules, now).await?;
        log.push(audit::Row::of_letter(now, Event::DiedAgain, row.id, row.letter));
    }
    audit::append(db, &log).await?;
    tally.write(db, now).await
}

/// Remembers the new letters that only point to a record: there is nothing to send of them.
async fn write_pointers(
    db: &Transaction<'_>,
    batch: &Prepared,
    results: &[Inserted],
    fresh: &[usize],
) -> Result<(), StoreError> {
    let pointer = |at: &usize| match results[*at] {
        Inserted::Stored(id) if batch.pointers[*at] => Some(id.0),
        _ => None,
    };
    let pointers: Vec<Uuid> = fresh.iter().filter_map(pointer).collect();
    if !pointers.is_empty() {
        db.execute("INSERT INTO pointers SELECT * FROM UNNEST($1::uuid[])", &[&pointers])
            .await
            .map_err(read_error)?;
    }
    Ok(())
}

fn row_of<'b>(
    letters: &'b [NewLetter],
    batch: &'b Prepared,
    at: usize,
    result: Inserted,
    running: i64,
    groups: &HashMap<GroupId, Grouping>,
    blocks: &HashMap<usize, i64>,
) -> Result<Row<'b>, StoreError> {
    let letter = &letters[at];
    let (block, slot) = batch.slots[at];
    let lost = || StoreError::Refused("a letter without its group or block".into());
    Ok(Row {
        letter,
        id: result.id(),
        again: matches!(result, Inserted::DiedAgain(_)),
        place: Place::new(letter.failed_at, running),
        group: *groups.get(&letter.fingerprint.group).ok_or_else(lost)?,
        block: *blocks.get(&block).ok_or_else(lost)?,
        slot: slot as i32,
        size: batch.sizes[at] as i64,
        tokens: &batch.tokens[at],
        suspect: None,
    })
}

fn captured<'r>(rows: &'r [Row<'_>]) -> BTreeMap<&'r str, u64> {
    let mut captured = BTreeMap::new();
    for row in rows {
        *captured.entry(row.letter.source.as_str()).or_default() += 1;
    }
    captured
}

/// Running numbers for places, and ids for blocks.
async fn numbers(
    db: &Transaction<'_>,
    letters: usize,
    blocks: usize,
) -> Result<(Vec<i64>, Vec<i64>), StoreError> {
    let sql = "SELECT ARRAY(SELECT nextval('running') FROM generate_series(1, $1)),
                      ARRAY(SELECT nextval('block_ids') FROM generate_series(1, $2))";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let row = db.query_one(&statement, &[&(letters as i32), &(blocks as i32)]).await.map_err(read_error)?;
    Ok((row.get(0), row.get(1)))
}

/// Writes the blocks of which at least one letter is new.
async fn write_blocks(
    db: &Transaction<'_>,
    batch: &Prepared,
    ids: &HashMap<usize, i64>,
) -> Result<(), StoreError> {
    let sql = "INSERT INTO blocks SELECT * FROM UNNEST($1::bigint[], $2::bytea[])";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let (mut held, mut data, mut bytes) = (Vec::new(), Vec::new(), 0);
    for (at, packed) in batch.blocks.iter().enumerate() {
        let Some(id) = ids.get(&at) else { continue };
        if bytes > 0 && bytes + packed.data.len() > BLOCK_BYTES {
            db.execute(&statement, &[&held, &data]).await.map_err(read_error)?;
            (held, data, bytes) = (Vec::new(), Vec::new(), 0);
        }
        held.push(*id);
        data.push(&packed.data[..]);
        bytes += packed.data.len();
    }
    db.execute(&statement, &[&held, &data]).await.map_err(read_error)?;
    Ok(())
}

async fn write_checkpoints(db: &Transaction<'_>, checkpoints: &[Checkpoint]) -> Result<(), StoreError> {
    if checkpoints.is_empty() {
        return Ok(());
    }
    // One of a kind, in the order of the keys: a statement may change a row once.
    let mut furthest: BTreeMap<(&str, &str, i32), &Checkpoint> = BTreeMap::new();
    for at in checkpoints {
        let known = furthest.entry((&at.source, &at.incarnation, at.partition)).or_insert(at);
        if at.next >= known.next {
            *known = at;
        }
    }
    let sources: Vec<_> = furthest.keys().map(|(source, _, _)| escape(source)).collect();
    let incarnations: Vec<_> = furthest.keys().map(|(_, incarnation, _)| escape(incarnation)).collect();
    let partitions: Vec<i32> = furthest.keys().map(|(_, _, partition)| *partition).collect();
    let next: Vec<i64> = furthest.values().map(|at| at.next).collect();
    let marks: Vec<_> = furthest.values().map(|at| at.mark.as_deref().map(escape)).collect();
    let sql = "INSERT INTO checkpoints
               SELECT * FROM UNNEST($1::text[], $2::text[], $3::integer[], $4::bigint[], $5::text[])
               ON CONFLICT (source, incarnation, partition) DO UPDATE SET next = excluded.next, mark = excluded.mark
                WHERE excluded.next >= checkpoints.next";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(&statement, &[&sources, &incarnations, &partitions, &next, &marks])
        .await
        .map_err(read_error)?;
    Ok(())
}
