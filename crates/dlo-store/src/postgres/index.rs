//! The index of texts and fields, behind the durable rows: a few hundred letters at a time, oldest first.
//!
//! Each letter's tokens are written and its mark in `unindexed` is taken off in one transaction. Marks that another
//! process works on are passed over, so several index together. What is not indexed yet is scanned by searches, so a lag
//! costs time and never an answer.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use deadpool_postgres::Transaction;
use dlo_core::words;

use super::{Pool, read, read_error, rows};
use crate::StoreError;
use crate::block::Cold;
use crate::prepare::exact_hashes;

/// Letters of one turn.
const TURN: i64 = 400;
/// How long [`finish`] waits for others, and how often it looks.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

const TAKE: &str = "
    DELETE FROM unindexed WHERE place = ANY(ARRAY(
        SELECT place FROM unindexed ORDER BY place LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING place, block, slot";

/// Read after the marks were taken: a letter that dies again waits for them, and marks itself anew.
const TEXTS: &str = "SELECT place, error_message FROM letters WHERE place = ANY($1)";

const WRITE: &str = "
    INSERT INTO grams SELECT t.place, array_to_tsvector(string_to_array(t.tokens, ' '))
      FROM UNNEST($1::bigint[], $2::text[]) AS t (place, tokens)
    ON CONFLICT (place) DO UPDATE SET words = excluded.words";

/// Indexes until no mark is left that nobody else works on.
pub(super) async fn all(pool: &Pool) -> Result<(), StoreError> {
    loop {
        let mut client = pool.client().await?;
        let db = client.transaction().await.map_err(read_error)?;
        let indexed = turn(&db).await?;
        db.commit().await.map_err(read_error)?;
        if indexed == 0 {
            return Ok(());
        }
    }
}

/// Indexes whatever waits, and waits a little for what others work on; returns how many letters are left.
pub(super) async fn finish(pool: &Pool) -> Result<u64, StoreError> {
    let mut patience = PATIENCE;
    loop {
        all(pool).await?;
        let mut client = pool.client().await?;
        let left = waiting(&client.transaction().await.map_err(read_error)?).await?;
        patience = patience.saturating_sub(PAUSE);
        if left == 0 || patience.is_zero() {
            return Ok(left);
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Indexes some letters; returns how many, zero when none is left for us.
async fn turn(db: &Transaction<'_>) -> Result<usize, StoreError> {
    let statement = db.prepare_cached(TAKE).await.map_err(read_error)?;
    let taken = db.query(&statement, &[&TURN]).await.map_err(read_error)?;
    let places: Vec<i64> = taken.iter().map(|row| row.get(0)).collect();
    let statement = db.prepare_cached(TEXTS).await.map_err(read_error)?;
    let mut texts: HashMap<i64, String> = HashMap::new();
    for row in db.query(&statement, &[&places]).await.map_err(read_error)? {
        texts.insert(row.get(0), rows::text(&row, 1));
    }
    let mut blocks: BTreeMap<i64, Vec<Marked>> = BTreeMap::new();
    for row in &taken {
        let place = row.get(0);
        let marked =
            Marked { place, slot: rows::slot(row.get(2))?, text: texts.remove(&place).unwrap_or_default() };
        blocks.entry(row.get(1)).or_default().push(marked);
    }
    // One block in memory at a time: the largest is as large as the largest letter.
    for (block, letters) in blocks {
        write(db, block, letters).await?;
    }
    Ok(taken.len())
}

/// A letter that waits, with the error text of its latest death.
struct Marked {
    place: i64,
    slot: usize,
    text: String,
}

async fn write(db: &Transaction<'_>, block: i64, letters: Vec<Marked>) -> Result<(), StoreError> {
    // A damaged block must not hold up the others; reading its letters says what is wrong with it.
    let block = match read::block(db, block).await {
        Err(StoreError::Unreadable(_)) => None,
        block => Some(block?),
    };
    let work = move || -> (Vec<i64>, Vec<String>) {
        let cold = |slot| block.as_ref().and_then(|block| block.cold(slot).ok()).unwrap_or_default();
        let tokens = |letter: Marked| (letter.place, deep_tokens(&letter.text, &cold(letter.slot)).join(" "));
        letters.into_iter().map(tokens).unzip()
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

/// The tokens of a letter's texts and fields, each once. Indexed behind the write.
fn deep_tokens(error_message: &str, cold: &Cold) -> Vec<String> {
    let mut tokens = BTreeSet::new();
    exact_hashes(cold, &mut |hash| {
        tokens.insert(format!("x{hash:016x}"));
    });
    for text in [words::fold(error_message), words::fold(&words::scanned(&cold.payload.0))] {
        let long = |gram: &&str| gram.chars().nth(words::SHORTEST - 1).is_some();
        tokens.extend(words::grams(&text).filter(long).map(String::from));
    }
    tokens.into_iter().collect()
}
