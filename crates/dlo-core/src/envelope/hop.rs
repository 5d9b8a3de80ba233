//! A retry that travels through the broker: it carries its attempts and where it came from, and nothing of a death.

use serde::Serialize;

use super::fit::{BodyTooLarge, size};
use super::read::{history, origin, parsed, put, put_history, put_origin, time};
use super::{OriginHeaders, names};
use crate::attempt::{Attempt, History};
use crate::message::{Headers, Message};
use crate::time::Timestamp;

/// What a message remembers on its way to the next attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RetryHop {
    /// The attempt that the next delivery is.
    pub attempt: Attempt,
    pub first_failed_at: Option<Timestamp>,
    pub history: History,
    /// Of the first delivery, kept over all hops.
    pub origin: OriginHeaders,
}

/// The message as it goes to the retry queue, at most `max_message` bytes by [`size`]: the history is cut to fit.
pub fn encode_hop(message: &Message, hop: &RetryHop, max_message: usize) -> Result<Message, BodyTooLarge> {
    let mut base = message.clone();
    base.headers.remove_where(|header| names::is_one_of(header, names::OF_A_FAILURE));
    let mut history = hop.history.clone();
    loop {
        let mut written = base.clone();
        put(&mut written.headers, names::ATTEMPT, Some(hop.attempt.number()));
        put(&mut written.headers, names::FIRST_FAILED_AT, hop.first_failed_at);
        put_history(&mut written.headers, &history);
        put_origin(&mut written.headers, &hop.origin);
        let size = size(&written);
        if size <= max_message {
            return Ok(written);
        }
        if !history.shrink() {
            return Err(BodyTooLarge { size, limit: max_message });
        }
    }
}

/// What the message remembers, if it comes from a retry hop. Never fails.
pub fn decode_hop(headers: &Headers) -> Option<RetryHop> {
    Some(RetryHop {
        attempt: Attempt::new(parsed(headers, names::ATTEMPT)?)?,
        first_failed_at: time(headers, names::FIRST_FAILED_AT),
        history: history(headers),
        origin: origin(headers),
    })
}
