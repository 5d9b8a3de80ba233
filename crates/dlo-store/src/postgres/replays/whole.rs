//! What is sent, read whole: rows, repairs and blocks of all items at once, each block unpacked once.

use std::collections::{HashMap, HashSet};

use deadpool_postgres::Transaction;
use dlo_core::id::LetterId;
use dlo_core::message::{Message, Payload};
use uuid::Uuid;

use super::super::read_error;
use super::super::rows::{self, Found};
use super::repairs;
use crate::StoreError;
use crate::block::Block;
use crate::replays::ToSend;

#[derive(Debug)]
pub(super) enum Reading {
    Whole(Box<ToSend>),
    /// Damaged: it can never be sent, and must not hold up the others.
    Unreadable(String),
}

/// By number; letters that are not here are left out.
pub(super) async fn read(
    db: &Transaction<'_>,
    wanted: &[(u64, LetterId)],
) -> Result<HashMap<u64, Reading>, StoreError> {
    let ids: Vec<Uuid> = wanted.iter().map(|(_, letter)| letter.0).collect();
    let mut letters = letters(db, &ids).await?;
    let mut repaired = repairs::active(db, &ids).await?;
    let captured = letters.values().filter(|found| !repaired.contains_key(&found.letter.id));
    let blocks = blocks(db, captured.map(|found| found.block).collect()).await?;
    let mut read = HashMap::with_capacity(wanted.len());
    for (number, letter) in wanted {
        let Some(found) = letters.remove(letter) else { continue };
        let repair = repaired.remove(letter);
        let is_repaired = repair.is_some();
        let message = repair.unwrap_or_else(|| captured_message(&found, &blocks));
        let reading = match message {
            Ok(message) => Reading::Whole(Box::new(to_send(*number, found, message, is_repaired))),
            Err(StoreError::Unreadable(why)) => Reading::Unreadable(why),
            Err(error) => return Err(error),
        };
        read.insert(*number, reading);
    }
    Ok(read)
}

fn to_send(number: u64, found: Found, message: Message, repaired: bool) -> ToSend {
    let letter = found.letter;
    ToSend {
        number,
        letter: letter.id,
        source: letter.source,
        origin: letter.origin,
        consumer: letter.consumer,
        event_type: letter.event_type,
        error_class: letter.error_class,
        message,
        repaired,
        replays: letter.replays,
    }
}

async fn letters(db: &Transaction<'_>, ids: &[Uuid]) -> Result<HashMap<LetterId, Found>, StoreError> {
    let sql = format!(
        "SELECT {} FROM letters l JOIN groups g ON g.id = l.group_id WHERE l.id = ANY($1)",
        rows::LETTER
    );
    let statement = db.prepare_cached(&sql).await.map_err(read_error)?;
    let found = db.query(&statement, &[&ids]).await.map_err(read_error)?;
    found.iter().map(|row| rows::letter(row).map(|found| (found.letter.id, found))).collect()
}

/// Those that are there; each is whole or says why not.
async fn blocks(
    db: &Transaction<'_>,
    ids: HashSet<i64>,
) -> Result<HashMap<i64, Result<Block, StoreError>>, StoreError> {
    let ids: Vec<i64> = ids.into_iter().collect();
    let statement =
        db.prepare_cached("SELECT id, data FROM blocks WHERE id = ANY($1)").await.map_err(read_error)?;
    let found = db.query(&statement, &[&ids]).await.map_err(read_error)?;
    Ok(found.iter().map(|row| (row.get(0), Block::open(row.get(1)))).collect())
}

/// The message byte for byte as it came.
fn captured_message(
    found: &Found,
    blocks: &HashMap<i64, Result<Block, StoreError>>,
) -> Result<Message, StoreError> {
    let missing = || StoreError::Unreadable("a payload block is missing; restore it from a backup".into());
    let block = blocks.get(&found.block).ok_or_else(missing)?.as_ref().map_err(Clone::clone)?;
    let (headers, payload) = block.message(found.slot)?;
    let key = found.letter.key.clone().map(Payload::from);
    Ok(Message { key, headers, payload })
}
