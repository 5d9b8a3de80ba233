//! The newest letters of a group with their payloads, for a look into what they have in common.

use std::collections::HashMap;

use dlo_core::id::GroupId;
use dlo_core::limits;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::sample::LOOKED_INTO;
use rusqlite::Connection;

use super::super::writer::Shared;
use super::super::{read, search};
use crate::StoreError;
use crate::block::Block;
use crate::triage::Sampled;

pub(super) fn sample(
    db: &Connection,
    shared: &Shared,
    id: GroupId,
    most: usize,
) -> Result<Vec<Sampled>, StoreError> {
    let query = Query { terms: vec![Term { negated: false, matcher: Matcher::Group(id) }] };
    let found = search::newest(db, shared, &query, most.min(limits::SAMPLE))?;
    let mut blocks: HashMap<i64, Option<Block>> = HashMap::new();
    let mut sampled = Vec::with_capacity(found.len());
    for found in found {
        let mut payload = bytes::Bytes::new();
        if found.letter.payload_size <= LOOKED_INTO as u64 {
            // Small letters share blocks; a few are kept, since letters that came together are looked at together.
            if !blocks.contains_key(&found.block) {
                if blocks.len() >= 16 {
                    blocks.clear();
                }
                // What cannot be read must not hide the others: its payload comes empty, as a large one does.
                let block = match read::block(db, found.block) {
                    Err(StoreError::Unreadable(_)) => None,
                    block => Some(block?),
                };
                blocks.insert(found.block, block);
            }
            let block = blocks.get(&found.block).and_then(Option::as_ref);
            if let Some(cold) = block.and_then(|block| block.cold(found.slot).ok()) {
                payload = cold.payload.0;
            }
        }
        sampled.push(Sampled { letter: found.letter.id, key: found.letter.key, payload });
    }
    Ok(sampled)
}
