//! The mark of a replayed message (F6): which letter it was, which send, the how-manieth.

use serde::Serialize;

use super::names;
use super::read::{name, parsed, put};
use crate::id::LetterId;
use crate::limits;
use crate::message::Headers;

/// Carried by a message that the office sent on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ReplayMark {
    /// `None` where somebody else's replay used the same header with another value.
    pub letter: Option<LetterId>,
    /// The same over retries of one send, so that an idempotent consumer sees it once.
    pub replay_id: String,
    /// How often the letter was replayed, this time included.
    pub count: u32,
    /// Only this consumer group is meant.
    pub target_group: Option<String>,
}

/// Replaces the mark of an earlier replay by this one.
pub fn mark_replayed(headers: &mut Headers, mark: &ReplayMark) {
    headers.remove_where(|header| names::is_one_of(header, names::OF_A_REPLAY));
    put(headers, names::REPLAYED_FROM, mark.letter);
    put(headers, names::REPLAY_ID, Some(&mark.replay_id));
    put(headers, names::REPLAY_COUNT, Some(mark.count));
    put(headers, names::TARGET_GROUP, mark.target_group.as_ref());
}

/// The one consumer group that a message is meant for: a replay, or a retry that all groups of a queue can see.
pub fn target_group(headers: &Headers) -> Option<String> {
    name(headers, names::TARGET_GROUP, limits::NAME)
}

/// Says for which consumer group a message is meant.
pub fn aim_at(headers: &mut Headers, group: &str) {
    headers.remove_where(|header| header.eq_ignore_ascii_case(names::TARGET_GROUP));
    put(headers, names::TARGET_GROUP, Some(group));
}

/// The mark, if the message was replayed by the office. Never fails.
pub fn replay_mark(headers: &Headers) -> Option<ReplayMark> {
    Some(ReplayMark {
        letter: parsed(headers, names::REPLAYED_FROM),
        replay_id: name(headers, names::REPLAY_ID, limits::ID)?,
        count: parsed(headers, names::REPLAY_COUNT).unwrap_or(1),
        target_group: target_group(headers),
    })
}
