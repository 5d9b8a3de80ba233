//! One chunk of items, from bytes to durable letters.
//!
//! Items that are wrong are set aside with their refusal; the rest goes to the store in one batch. When the store is
//! behind, the chunk waits with growing pauses, which slows the client down, and is read anew from its bytes: that
//! costs less than keeping a second copy of every letter for the rare case.

use std::sync::Arc;
use std::time::Duration;

use dlo_core::letter::NewLetter;
use dlo_core::origin::DedupeKey;
use dlo_core::time::Timestamp;
use dlo_store::{Batch, Inserted, StoreError};
use tokio::time::Instant;

use super::item;
use super::lines::Chunk;
use super::outcome::{Outcome, not_taken};
use crate::admit::{Dedupe, Manner, Refusal};
use crate::office::Office;

/// The first pause for a store that is behind; each further one is twice as long, up to the last.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LAST_PAUSE: Duration = Duration::from_secs(1);
/// A chunk waits this long for a store that does not answer: it may restart.
const AWAY: Duration = Duration::from_secs(5);

/// How one request wants its items treated.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    pub(crate) idempotency_key: Option<Arc<str>>,
    /// How long to wait for a store that is behind.
    pub(crate) patience: Duration,
}

/// Stores the items of a chunk; one outcome each, in order.
pub(crate) async fn store(office: Arc<Office>, chunk: Chunk, terms: Terms) -> Vec<Outcome> {
    let begun = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        let now = office.now();
        let (letters, places) = read(&office, &chunk, &terms, now);
        let are_known_again = letters.iter().all(|letter| letter.dedupe.is_some());
        let may_wait = |error: &StoreError| match error {
            StoreError::Overloaded => begun.elapsed() + pause <= terms.patience,
            // Stored twice is worse than asked twice: whether they are stored is for the client to find out.
            StoreError::Unconfirmed(_) if !are_known_again => false,
            // A disk stays full for longer than a client waits.
            StoreError::DiskFull(_) => false,
            error => error.is_transient() && begun.elapsed() + pause <= terms.patience.min(AWAY),
        };
        match insert(&office, Batch { letters: letters.into(), ..Batch::default() }, now).await {
            Err(error) if may_wait(&error) => {
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(LAST_PAUSE);
            }
            result => {
                let outcomes = merge(places, &result);
                office.metrics.ingested(&outcomes, begun.elapsed());
                return outcomes;
            }
        }
    }
}

/// Stores letters that are admitted; the admission log hears of those that are new.
pub(crate) async fn insert(
    office: &Office,
    batch: Batch,
    now: Timestamp,
) -> Result<Vec<Inserted>, StoreError> {
    if batch.letters.is_empty() && batch.checkpoints.is_empty() {
        return Ok(Vec::new());
    }
    let lines = office.log.prepare(&batch.letters, office.mask.rules().as_deref());
    let inserted = office.store.insert(batch, now).await;
    office.full_disk.note(inserted.as_ref().err());
    let inserted = inserted?;
    office.log.write(&lines, &inserted, now);
    Ok(inserted)
}

/// The letters of a chunk, and for each item why it is none of them.
fn read(
    office: &Office,
    chunk: &Chunk,
    terms: &Terms,
    now: Timestamp,
) -> (Vec<NewLetter>, Vec<Option<Refusal>>) {
    let mut letters = Vec::with_capacity(chunk.items.len());
    let mut places = Vec::with_capacity(chunk.items.len());
    for (place, at) in (chunk.first..).zip(&chunk.items) {
        let read = at.clone().ok_or_else(|| too_long(office.config.limits.item)).and_then(|at| {
            let draft = item::parse(&chunk.slab, at)?;
            let key = terms.idempotency_key.as_deref();
            let otherwise = key.map(|key| DedupeKey::idempotent(&draft.source, key, place));
            office.admission.admit(draft, Manner::Refuse, Dedupe::ByOrigin { otherwise }, now)
        });
        match read {
            Ok(letter) => {
                letters.push(letter);
                places.push(None);
            }
            Err(refusal) => places.push(Some(refusal)),
        }
    }
    (letters, places)
}

fn too_long(limit: usize) -> Refusal {
    Refusal::new("item_too_large", format!("the item has more than {limit} bytes"))
}

fn merge(places: Vec<Option<Refusal>>, result: &Result<Vec<Inserted>, StoreError>) -> Vec<Outcome> {
    let mut inserted = result.iter().flatten();
    let refused = result.as_ref().err().map(not_taken);
    let mut next = || match (&refused, inserted.next()) {
        (None, Some(taken)) => Outcome::from(*taken),
        (Some(refusal), _) => refusal.clone().into(),
        // The store promises one result a letter.
        (None, None) => {
            Refusal::new("store_failed", "the database did not say what became of the item").into()
        }
    };
    places.into_iter().map(|refusal| refusal.map_or_else(&mut next, Outcome::from)).collect()
}
