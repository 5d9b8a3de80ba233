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
    let mut blocks: HashMap<i64, Block> = HashMap::new();
    let mut sampled = Vec::with_capacity(found.len());
    for found in found {
        let mut payload = bytes::Bytes::new();
        if found.letter.payload_size <= LOOKED_INTO as u64 {
            let held = read::held(&mut blocks, db, found.block);
            payload = match held.and_then(|block| block.payload(found.slot)) {
                // What cannot be read must not hide the others: its payload comes empty, as a large one does.
                Err(StoreError::Unreadable(_)) => payload,
                payload => payload?,
            };
        }
        sampled.push(Sampled { letter: found.letter.id, key: found.letter.key, payload });
    }
    Ok(sampled)
}
