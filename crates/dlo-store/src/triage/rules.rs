//! Conditions at work: which group a letter goes to. The same words for a letter that arrives and for one that is moved, so
//! that both come to the same group, and the same as a search for the condition finds.

use dlo_core::group::Condition;
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::{Letter, NewLetter};
use dlo_core::query::Query;
use dlo_core::time::Timestamp;

use crate::block::{Block, Cold, Packed};
use crate::filter::Filter;

/// One condition of a group, and the row of the group to which it leads. They are kept in the order of their making.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Rule {
    pub(crate) number: i64,
    pub(crate) target: i64,
    query: Query,
}

impl Rule {
    pub(crate) fn new(number: i64, target: i64, condition: &Condition) -> Self {
        Self { number, target, query: condition.query().clone() }
    }

    /// A stored condition. One that cannot be read any more sorts nothing: capture does not stop for it.
    pub(crate) fn read(number: i64, target: i64, condition: &str) -> Option<Self> {
        match Condition::parse(condition) {
            Ok(condition) => Some(Self::new(number, target, &condition)),
            Err(error) => {
                tracing::warn!(split = number, %error, "a condition that was stored is not understood; it sorts nothing");
                None
            }
        }
    }
}

/// Whether what stands in the block of the letter may decide.
pub(crate) fn needs_block(rules: &[Rule], letter: &Letter) -> bool {
    rules.iter().any(|rule| {
        let filter = Filter::new(&rule.query);
        filter.row_matches(letter) && filter.needs_block(letter)
    })
}

/// The row of the group to which the first condition that holds leads. Without its block a letter has nothing of what is
/// asked of blocks, negated or not: nobody decides by what could not be looked at.
pub(crate) fn target(rules: &[Rule], letter: &Letter, cold: Option<&Cold>) -> Option<i64> {
    let holds = |rule: &&Rule| {
        let filter = Filter::new(&rule.query);
        filter.row_matches(letter)
            && (!filter.needs_block(letter) || cold.is_some_and(|cold| filter.block_matches(letter, cold)))
    };
    rules.iter().find(holds).map(|rule| rule.target)
}

/// Sorts the letters of one batch. Their payloads stand packed in its blocks; one is opened only where a condition asks for
/// what is in it, and kept for the neighbours.
#[derive(Debug)]
pub(crate) struct Sorter<'b> {
    blocks: &'b [Packed],
    /// The block and the slot of the letter in hand.
    pub(crate) at: (usize, usize),
    opened: Option<(usize, Block)>,
}

impl<'b> Sorter<'b> {
    pub(crate) fn new(blocks: &'b [Packed]) -> Self {
        Self { blocks, at: (0, 0), opened: None }
    }

    /// Where the letter in hand goes; `None`: no condition holds.
    pub(crate) fn target(&mut self, rules: &[Rule], letter: &Letter) -> Option<i64> {
        let cold = if needs_block(rules, letter) { self.cold() } else { None };
        target(rules, letter, cold.as_ref())
    }

    /// The packed part of the current letter.
    pub(crate) fn cold(&mut self) -> Option<Cold> {
        let (number, slot) = self.at;
        if self.opened.as_ref().is_none_or(|(opened, _)| *opened != number) {
            let block = self.blocks.get(number).and_then(|packed| Block::open(&packed.data).ok())?;
            self.opened = Some((number, block));
        }
        self.opened.as_ref().and_then(|(_, block)| block.cold(slot).ok())
    }
}

/// A new letter as its row will show it, as far as conditions may ask.
pub(crate) fn as_stored(letter: &NewLetter, id: LetterId, size: u64, now: Timestamp) -> Letter {
    Letter {
        id,
        status: letter.status,
        group_id: letter.fingerprint.group,
        owner: None,
        source: letter.source.clone(),
        origin: letter.origin.clone(),
        key: letter.message.key.as_ref().map(|key| key.0.to_vec()),
        content_type: letter.content_type.clone(),
        event_type: letter.event_type.clone(),
        event_version: letter.event_version.clone(),
        correlation_id: letter.correlation_id.clone(),
        trace_id: letter.trace_id.clone(),
        consumer: letter.consumer.clone(),
        consumer_id: letter.consumer_id.clone(),
        consumer_version: letter.consumer_version.clone(),
        attempts: letter.attempts,
        error_class: letter.error_class.clone(),
        error_message: letter.error_message.clone(),
        error_code: letter.error_code.clone(),
        reason: letter.reason,
        verdict: letter.verdict,
        rule: letter.rule.clone(),
        published_at: letter.published_at,
        received_at: letter.received_at,
        first_failed_at: letter.first_failed_at,
        failed_at: letter.failed_at,
        captured_at: now,
        payload_size: size,
        replays: 0,
        deaths: 1,
        // No condition asks for it.
        suspect: None,
    }
}

/// A new id for a group that no fingerprint made.
pub(crate) fn new_id() -> GroupId {
    GroupId(uuid::Builder::from_random_bytes(rand::random()).into_uuid())
}
