//! The payload index, behind the durable rows: a few hundred letters at a time, oldest first.
//!
//! Each letter's tokens are written and its mark in `unindexed` is taken off in one transaction. Marks that another
//! process works on are passed over, so several index together. What is not indexed yet is scanned by searches, so a lag
//! costs time and never an answer.

use std::collections::BTreeMap;

use deadpool_postgres::Transaction;

use super::{read, read_error, rows};
use crate::StoreError;
use crate::prepare::deep_tokens;

/// Letters of one turn.
const TURN: i64 = 400;

const TAKE: &str = "
    DELETE FROM unindexed WHERE place = ANY(ARRAY(
        SELECT place FROM unindexed ORDER BY place LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING place, block, slot";

const WRITE: &str = "
    INSERT INTO deep SELECT t.place, array_to_tsvector(string_to_array(t.tokens, ' '))
      FROM UNNEST($1::bigint[], $2::text[]) AS t (place, tokens)
    ON CONFLICT (place) DO UPDATE SET words = excluded.words";

/// Indexes some letters; returns how many, zero when none is left for us.
pub(super) async fn turn(db: &Transaction<'_>) -> Result<usize, StoreError> {
    let statement = db.prepare_cached(TAKE).await.map_err(read_error)?;
    let taken = db.query(&statement, &[&TURN]).await.map_err(read_error)?;
    let mut blocks: BTreeMap<i64, Vec<(i64, usize)>> = BTreeMap::new();
    for row in &taken {
        blocks.entry(row.get(1)).or_default().push((row.get(0), rows::slot(row.get(2))?));
    }
    // One block in memory at a time: the largest is as large as the largest letter.
    for (block, letters) in blocks {
        write(db, block, letters).await?;
    }
    Ok(taken.len())
}

async fn write(db: &Transaction<'_>, block: i64, letters: Vec<(i64, usize)>) -> Result<(), StoreError> {
    // A damaged block must not hold up the others; reading its letters says what is wrong with it.
    let block = match read::block(db, block).await {
        Err(StoreError::Unreadable(_)) => return Ok(()),
        block => block?,
    };
    let work = move || -> (Vec<i64>, Vec<String>) {
        let tokens = |(place, slot)| block.cold(slot).ok().map(|cold| (place, deep_tokens(&cold)));
        letters.into_iter().filter_map(tokens).unzip()
    };
    let (places, tokens) = tokio::task::spawn_blocking(work)
        .await
        .map_err(|e| StoreError::Refused(format!("payloads could not be read into words: {e}")))?;
    let statement = db.prepare_cached(WRITE).await.map_err(read_error)?;
    db.execute(&statement, &[&places, &tokens]).await.map_err(read_error)?;
    Ok(())
}

/// How many letters wait.
pub(super) async fn waiting(db: &Transaction<'_>) -> Result<u64, StoreError> {
    let row = db.query_one("SELECT count(*) FROM unindexed", &[]).await.map_err(read_error)?;
    rows::number(row.get(0), "unindexed")
}
