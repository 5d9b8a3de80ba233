//! Suspected letters in the shared store: what is looked up for letters that arrive, and what is kept of the answer.
//!
//! `dlo-core/src/suspect.rs` decides. A batch asks once for all its death ids, in the order of their keys, so that two
//! servers with copies of one message wait for each other. Letters with coordinates have no row here and ask for none.

use std::collections::{BTreeMap, HashMap};

use deadpool_postgres::Transaction;
use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, SUSPECTS_SHOWN};
use dlo_core::suspect::{FirstDeath, Suspect, Suspicion};
use dlo_core::time::Timestamp;
use tokio_postgres::Row;
use uuid::Uuid;

use super::replays::{self, ForeignReturn};
use super::{read_error, rows};
use crate::{Inserted, StoreError};

/// Looks for earlier copies of the new letters of a batch, and remembers their death ids. By the index of the letter.
pub(super) async fn find_copies(
    db: &Transaction<'_>,
    letters: &[NewLetter],
    results: &[Inserted],
) -> Result<HashMap<usize, Suspect>, StoreError> {
    let marked: Vec<(usize, Uuid, LetterId)> = letters
        .iter()
        .zip(results)
        .enumerate()
        .filter_map(|(at, (letter, result))| match (letter.death, result) {
            (Some(mark), Inserted::Stored(id)) => Some((at, Uuid::from_bytes(mark.key(&letter.source)), *id)),
            _ => None,
        })
        .collect();
    if marked.is_empty() {
        return Ok(HashMap::new());
    }
    let mut firsts = remember(db, letters, &marked).await?;
    let mut suspects = HashMap::new();
    let mut paired = Vec::new();
    for (at, key, id) in marked {
        let (Some(first), Some(mark)) = (firsts.get_mut(&key), letters[at].death) else { continue };
        if first.letter == id {
            continue;
        }
        let next = first.next(mark);
        if next.awaits_original != first.awaits_original {
            first.awaits_original = next.awaits_original;
            paired.push(key);
        }
        if let Some(letter) = next.of {
            suspects.insert(at, Suspect { kind: Suspicion::Duplicate, letter });
        }
    }
    if !paired.is_empty() {
        let sql = "UPDATE death_ids SET awaits_original = false WHERE key = ANY($1)";
        db.execute(sql, &[&paired]).await.map_err(read_error)?;
    }
    Ok(suspects)
}

/// Writes the death ids that are new; the first letter of each, with the rows of the others locked.
async fn remember(
    db: &Transaction<'_>,
    letters: &[NewLetter],
    marked: &[(usize, Uuid, LetterId)],
) -> Result<HashMap<Uuid, FirstDeath>, StoreError> {
    let mut firsts: BTreeMap<Uuid, FirstDeath> = BTreeMap::new();
    for (at, key, id) in marked {
        if let Some(mark) = letters[*at].death {
            firsts.entry(*key).or_insert(FirstDeath::new(*id, mark));
        }
    }
    let keys: Vec<Uuid> = firsts.keys().copied().collect();
    let ids: Vec<Uuid> = firsts.values().map(|first| first.letter.0).collect();
    let awaiting: Vec<bool> = firsts.values().map(|first| first.awaits_original).collect();
    let sql = "INSERT INTO death_ids SELECT * FROM UNNEST($1::uuid[], $2::uuid[], $3::boolean[])
               ON CONFLICT (key) DO NOTHING";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    db.execute(&statement, &[&keys, &ids, &awaiting]).await.map_err(read_error)?;
    let sql =
        "SELECT key, letter, awaits_original FROM death_ids WHERE key = ANY($1) ORDER BY key FOR UPDATE";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let found = db.query(&statement, &[&keys]).await.map_err(read_error)?;
    let first =
        |row: &Row| (row.get(0), FirstDeath { letter: LetterId(row.get(1)), awaits_original: row.get(2) });
    Ok(found.iter().map(first).collect())
}

/// Counts messages of replays as suspected returns, unless their outcome is known.
pub(super) async fn find_returns(
    db: &Transaction<'_>,
    letters: &[NewLetter],
    results: &[Inserted],
    returned: &HashMap<usize, ForeignReturn>,
    suspects: &mut HashMap<usize, Suspect>,
    now: Timestamp,
) -> Result<(), StoreError> {
    let mut in_order: Vec<_> = returned.iter().collect();
    in_order.sort_by_key(|(at, _)| **at);
    for (at, back) in in_order {
        let is_new = matches!(results[*at], Inserted::Stored(_));
        if is_new && replays::suspect_return(db, back, &letters[*at], now).await? {
            suspects.insert(*at, Suspect { kind: Suspicion::Return, letter: back.letter() });
        }
    }
    Ok(())
}

/// Keeps what new letters are suspected of.
pub(super) async fn write(db: &Transaction<'_>, suspects: &[(LetterId, Suspect)]) -> Result<(), StoreError> {
    if suspects.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = suspects.iter().map(|(id, _)| id.0).collect();
    let related: Vec<Uuid> = suspects.iter().map(|(_, suspect)| suspect.letter.0).collect();
    let kinds: Vec<i16> = suspects.iter().map(|(_, suspect)| i16::from(suspect.kind.number())).collect();
    let sql = "INSERT INTO suspects SELECT * FROM UNNEST($1::uuid[], $2::uuid[], $3::smallint[])";
    db.execute(sql, &[&ids, &related, &kinds]).await.map_err(read_error)?;
    Ok(())
}

/// The letters that are suspected to repeat this one, oldest first.
pub(super) async fn of_letter(db: &Transaction<'_>, id: LetterId) -> Result<Vec<Suspect>, StoreError> {
    let sql = "SELECT kind, letter FROM suspects WHERE related = $1 ORDER BY letter LIMIT $2";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let found = db.query(&statement, &[&id.0, &(SUSPECTS_SHOWN as i64)]).await.map_err(read_error)?;
    found.iter().map(|row| Ok(Suspect { kind: kind(row.get(0))?, letter: LetterId(row.get(1)) })).collect()
}

/// Reads two columns of a letter's row: kind and related letter, both absent from most.
pub(super) fn suspect(row: &Row, first: usize) -> Result<Option<Suspect>, StoreError> {
    let Some(number) = row.get::<_, Option<i16>>(first) else { return Ok(None) };
    Ok(Some(Suspect { kind: kind(number)?, letter: LetterId(row.get(first + 1)) }))
}

pub(super) fn kind(number: i16) -> Result<Suspicion, StoreError> {
    rows::code(number, Suspicion::from_number, "suspects.kind")
}
