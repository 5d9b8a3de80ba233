//! Hashes of sent messages: written one row for each batch of intents, and indexed when a letter must be compared with them.
//!
//! A hash lies anywhere in an index. To index each at once writes two pages of the log for a letter, which took a fifth of the
//! rate of a replay. Most replays are over before a letter without our headers arrives at their source; their marks are
//! never indexed.
//!
//! | question | answer |
//! |---|---|
//! | What if the process dies between intent and index? | The batch is part of the transaction of the intents. |
//! | What if it dies while it indexes? | One transaction moves the marks from the batch to the index. |
//! | How many marks may wait? | Those of [`MOST_BATCHES`]; a replay that has more indexes its oldest ones. |

use dlo_core::replay::returns::SentMarks;
use rusqlite::{Connection, params};

use super::super::read_error;
use super::rows::ReplayRow;
use crate::StoreError;

/// Batches of a replay that wait for the index, at most: indexing them holds up the writer for a third of a second.
const MOST_BATCHES: i64 = 256;
/// Batches that are indexed together when there are more.
const OLDEST: i64 = 16;
/// Marks and batches of a replay that is over, deleted in one transaction.
const FORGOTTEN: i64 = 2_000;
/// Bytes of a mark and its number.
const PAIR: usize = 16;

/// Keeps the marks of items that are intended.
pub(super) fn keep(
    db: &Connection,
    replay: ReplayRow,
    items: impl Iterator<Item = (u64, SentMarks)>,
) -> Result<(), StoreError> {
    let mut batch = Vec::new();
    for (number, marks) in items {
        for mark in marks.iter() {
            batch.extend_from_slice(&mark.to_le_bytes());
            batch.extend_from_slice(&number.to_le_bytes());
        }
    }
    if batch.is_empty() {
        return Ok(());
    }
    db.prepare_cached("INSERT INTO mark_batches (replay, marks) VALUES (?1, ?2)")
        .and_then(|mut insert| insert.execute(params![replay, batch]))
        .map_err(read_error)?;
    let waiting: i64 = db
        .prepare_cached("SELECT count(*) FROM mark_batches WHERE replay = ?1")
        .and_then(|mut count| count.query_row([replay], |row| row.get(0)))
        .map_err(read_error)?;
    if waiting > MOST_BATCHES { index_oldest(db, replay, OLDEST) } else { Ok(()) }
}

/// Brings all marks of a replay into the index.
pub(super) fn index(db: &Connection, replay: ReplayRow) -> Result<(), StoreError> {
    index_oldest(db, replay, MOST_BATCHES)
}

/// In the order of the index, so that a page is written once.
fn index_oldest(db: &Connection, replay: ReplayRow, most: i64) -> Result<(), StoreError> {
    let (mut pairs, mut last) = (Vec::new(), None);
    {
        let sql = "SELECT row, marks FROM mark_batches WHERE replay = ?1 ORDER BY row LIMIT ?2";
        let mut find = db.prepare_cached(sql).map_err(read_error)?;
        let mut found = find.query(params![replay, most]).map_err(read_error)?;
        while let Some(row) = found.next().map_err(read_error)? {
            last = Some(row.get::<_, i64>(0).map_err(read_error)?);
            let batch = row.get_ref(1).and_then(|marks| Ok(marks.as_blob()?)).map_err(read_error)?;
            pairs.extend(batch.chunks_exact(PAIR).map(pair));
        }
    }
    let Some(last) = last else { return Ok(()) };
    pairs.sort_unstable();
    let mut insert = db
        .prepare_cached("INSERT INTO sent_marks VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING")
        .map_err(read_error)?;
    for (mark, number) in pairs {
        insert.execute(params![replay, mark, number]).map_err(read_error)?;
    }
    db.prepare_cached("DELETE FROM mark_batches WHERE replay = ?1 AND row <= ?2")
        .and_then(|mut delete| delete.execute(params![replay, last]))
        .map(drop)
        .map_err(read_error)
}

/// Mark and number.
fn pair(bytes: &[u8]) -> (i64, i64) {
    let half = |half: &[u8]| half.iter().rev().fold(0_i64, |all, byte| (all << 8) | i64::from(*byte));
    let (mark, number) = bytes.split_at(PAIR / 2);
    (half(mark), half(number))
}

/// The first replay behind `last` that has marks.
pub(super) fn next_replay(db: &Connection, last: ReplayRow) -> Result<Option<ReplayRow>, StoreError> {
    let sql = "SELECT min(replay) FROM (SELECT min(replay) AS replay FROM sent_marks WHERE replay > ?1
                 UNION ALL SELECT min(replay) FROM mark_batches WHERE replay > ?1)";
    db.prepare_cached(sql).and_then(|mut next| next.query_row([last], |row| row.get(0))).map_err(read_error)
}

/// Deletes marks of a replay that is long over, some at a time.
pub(super) fn forget(db: &Connection, replay: ReplayRow) -> Result<(), StoreError> {
    let marks = "DELETE FROM sent_marks WHERE replay = ?1 AND (mark, number) IN
                   (SELECT mark, number FROM sent_marks WHERE replay = ?1 LIMIT ?2)";
    let batches = "DELETE FROM mark_batches WHERE row IN
                     (SELECT row FROM mark_batches WHERE replay = ?1 ORDER BY row LIMIT ?2)";
    for sql in [marks, batches] {
        db.prepare_cached(sql)
            .and_then(|mut delete| delete.execute(params![replay, FORGOTTEN]))
            .map_err(read_error)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPLAY: ReplayRow = 7;

    fn database() -> Connection {
        let db = Connection::open_in_memory().unwrap();
        db.execute_batch(concat!(
            "CREATE TABLE sent_marks (replay INTEGER NOT NULL, mark INTEGER NOT NULL, number INTEGER NOT NULL,
               PRIMARY KEY (replay, mark, number)) WITHOUT ROWID;",
            include_str!("../../../migrations/sqlite/0009_mark_batches.sql")
        ))
        .unwrap();
        db
    }

    fn marks(id: i64, body: i64) -> SentMarks {
        SentMarks { id: Some(id), body: Some(body) }
    }

    fn count(db: &Connection, table: &str) -> i64 {
        db.query_row(&format!("SELECT count(*) FROM {table}"), [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn marks_reach_the_index_as_they_were_kept() {
        let db = database();
        keep(
            &db,
            REPLAY,
            [(3, marks(-1, i64::MIN)), (u64::from(u32::MAX) + 9, marks(i64::MAX, 300))].into_iter(),
        )
        .unwrap();
        keep(&db, REPLAY, [(3, marks(-1, i64::MIN))].into_iter()).unwrap();
        keep(&db, REPLAY + 1, [(1, marks(5, 6))].into_iter()).unwrap();
        assert_eq!((count(&db, "sent_marks"), count(&db, "mark_batches")), (0, 3));
        index(&db, REPLAY).unwrap();
        let mut find = db.prepare("SELECT mark, number FROM sent_marks WHERE replay = 7").unwrap();
        let found: Vec<(i64, i64)> =
            find.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect();
        let far = i64::from(u32::MAX) + 9;
        assert_eq!(found, [(i64::MIN, 3), (-1, 3), (300, far), (i64::MAX, far)]);
        assert_eq!((next_replay(&db, 0).unwrap(), next_replay(&db, REPLAY).unwrap()), (Some(7), Some(8)));
        assert_eq!(next_replay(&db, REPLAY + 1).unwrap(), None);
    }

    #[test]
    fn a_long_replay_indexes_its_oldest_marks_and_one_that_is_over_loses_all() {
        let db = database();
        for number in 0..=MOST_BATCHES {
            keep(&db, REPLAY, [(number as u64, marks(number, -number))].into_iter()).unwrap();
        }
        assert_eq!(count(&db, "mark_batches"), MOST_BATCHES + 1 - OLDEST);
        assert_eq!(count(&db, "sent_marks"), 2 * OLDEST - 1, "number 0 has one mark twice");
        forget(&db, REPLAY).unwrap();
        assert_eq!((count(&db, "sent_marks"), count(&db, "mark_batches")), (0, 0));
    }
}
