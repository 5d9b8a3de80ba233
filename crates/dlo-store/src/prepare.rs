//! What both stores make of a letter before a transaction begins: words to index, blocks to write, sizes to count.
//!
//! This is the dear part of an insert (compression, words), and it needs no database: it runs on the caller's side,
//! in parallel, so that the one writer only writes.

use std::sync::Arc;

use dlo_core::letter::NewLetter;
use dlo_core::replay::planner::is_pointer;
use dlo_core::suspect::Suspicion;
use dlo_core::verdict::VerdictKind;
use dlo_core::words;

use crate::block::{Cold, Packed, pack};
use crate::{Batch, Checkpoint, Lease, StoreError};

/// A batch ready for its transaction.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) letters: Arc<Vec<NewLetter>>,
    /// For each letter, the tokens found at once: exact values.
    pub(crate) tokens: Vec<String>,
    pub(crate) blocks: Vec<Packed>,
    /// For each letter, (block, slot), both by index.
    pub(crate) slots: Vec<(usize, usize)>,
    /// For each letter, bytes of its payload: the payload itself is in the blocks now.
    pub(crate) sizes: Vec<u64>,
    /// For each letter, whether it only points to a record that could not be fetched.
    pub(crate) pointers: Vec<bool>,
    pub(crate) checkpoints: Vec<Checkpoint>,
    pub(crate) leases: Vec<Lease>,
}

impl Prepared {
    pub(crate) fn new(batch: Batch) -> Result<Self, StoreError> {
        let Batch { mut letters, checkpoints, mut leases } = batch;
        if let Some(long) = checkpoints.iter().find(|at| at.mark_len() > Checkpoint::MARK) {
            let (length, most) = (long.mark_len(), Checkpoint::MARK);
            return Err(StoreError::Unsupported(format!(
                "a mark of {length} bytes; at most {most} are taken"
            )));
        }
        // Locked in one order by everybody.
        leases.sort_by(|one, other| one.name.cmp(&other.name));
        let blocks = pack(&letters)?;
        let mut slots = vec![(0, 0); letters.len()];
        for (block, packed) in blocks.iter().enumerate() {
            for (slot, letter) in packed.letters.iter().enumerate() {
                slots[*letter] = (block, slot);
            }
        }
        let tokens = letters.iter().map(quick_tokens).collect();
        let pointers = letters.iter().map(|letter| is_pointer(&letter.message.headers)).collect();
        let sizes = letters.iter().map(|letter| letter.message.payload.0.len() as u64).collect();
        // What waits for the writer holds a letter once, compressed, unless somebody else has it as well.
        for letter in Arc::get_mut(&mut letters).into_iter().flatten() {
            letter.message.payload = Default::default();
            letter.message.headers = Default::default();
            letter.error_stack = None;
        }
        Ok(Self { letters, tokens, blocks, slots, sizes, pointers, checkpoints, leases })
    }

    /// Bytes that wait in memory until it is written; an estimate that errs high.
    pub(crate) fn weight(&self) -> usize {
        let blocks: usize = self.blocks.iter().map(|b| b.data.len()).sum();
        let tokens: usize = self.tokens.iter().map(String::len).sum();
        let marks: usize = self.checkpoints.iter().map(Checkpoint::mark_len).sum();
        blocks + tokens + marks + self.letters.len() * 1_024
    }
}

/// The tokens of what stands in the row: the exact values people look letters up by.
pub(crate) fn quick_tokens(letter: &NewLetter) -> String {
    let tokens: Vec<String> = exact_values(letter).map(|(field, value)| words::exact(field, value)).collect();
    tokens.join(" ")
}

/// Only what one looks letters up by, and what is rare enough to be worth a stream of its own: nearly every letter
/// was dead-lettered, so that verdict has no token.
fn exact_values(letter: &NewLetter) -> impl Iterator<Item = (&'static str, &[u8])> {
    fn text(value: &Option<String>) -> Option<&[u8]> {
        value.as_ref().map(String::as_bytes)
    }
    let verdict = Some(letter.verdict).filter(|verdict| has_token(*verdict));
    [
        ("key", letter.message.key.as_ref().map(|key| &key.0[..])),
        ("correlation", text(&letter.correlation_id)),
        ("message", text(&letter.origin.message_id)),
        ("trace", text(&letter.trace_id)),
        ("version", text(&letter.event_version)),
        ("code", text(&letter.error_code)),
        ("rule", text(&letter.rule)),
        ("consumer_id", text(&letter.consumer_id)),
        ("reason", Some(letter.reason.as_str().as_bytes())),
        ("verdict", verdict.map(|verdict| verdict.as_str().as_bytes())),
    ]
    .into_iter()
    .filter_map(|(field, value)| value.map(|value| (field, value)))
}

/// The tokens of a suspected letter, by which `is:` finds it.
pub(crate) fn with_suspicion(tokens: &str, kind: Suspicion) -> String {
    let token = suspicion_token(kind);
    if tokens.is_empty() { token } else { format!("{tokens} {token}") }
}

pub(crate) fn suspicion_token(kind: Suspicion) -> String {
    words::exact("is", kind.as_str().as_bytes())
}

/// Whether letters with this verdict carry a token for it.
pub(crate) fn has_token(verdict: VerdictKind) -> bool {
    verdict != VerdictKind::DeadLetter
}

/// Calls `visit` with the hash of every exact value that stands in a block: headers, and fields of a JSON payload.
pub(crate) fn exact_hashes(cold: &Cold, visit: &mut impl FnMut(u64)) {
    for header in cold.headers.iter() {
        if let Some(value) = &header.value {
            visit(words::exact_hash(&header_field(&header.name), value));
        }
    }
    words::payload_hashes(&cold.payload.0, visit);
}

/// The field name under which a header is indexed; names are compared without regard to case.
pub(crate) fn header_field(name: &str) -> String {
    format!("h\u{1}{}", name.to_ascii_lowercase())
}
