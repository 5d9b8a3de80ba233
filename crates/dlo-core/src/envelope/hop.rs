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
    /// The message was delivered more than once before this hop: see [`super::Envelope::redelivered`].
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redelivered: bool,
    /// When that is due, where the broker may bring it earlier.
    pub due: Option<Timestamp>,
    pub first_failed_at: Option<Timestamp>,
    pub history: History,
    /// Of the first delivery, kept over all hops.
    pub origin: OriginHeaders,
}

/// The message as it goes to the retry queue, at most `max_message` bytes by [`size`]: the history is cut to fit.
pub fn encode_hop(message: &Message, hop: &RetryHop, max_message: usize) -> Result<Message, BodyTooLarge> {
    let mut written = message.clone();
    written.headers.remove_where(|header| names::is_one_of(header, names::OF_A_FAILURE));
    let carried = hop_headers(&written, hop, max_message)?;
    written.headers.0.extend(carried.0);
    Ok(written)
}

/// What the message carries on that way, for a broker that puts it there itself: beside the message at most
/// `max_message` bytes.
pub fn hop_headers(message: &Message, hop: &RetryHop, max_message: usize) -> Result<Headers, BodyTooLarge> {
    let body = size(message);
    let mut history = hop.history.clone();
    loop {
        let mut written = Message::default();
        let headers = &mut written.headers;
        put(headers, names::ATTEMPT, Some(hop.attempt.number()));
        put(headers, names::REDELIVERED, hop.redelivered.then_some(true));
        put(headers, names::DUE, hop.due);
        put(headers, names::FIRST_FAILED_AT, hop.first_failed_at);
        put_history(headers, &history);
        put_origin(headers, &hop.origin);
        let size = body + size(&written);
        if size <= max_message {
            return Ok(written.headers);
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
        redelivered: parsed(headers, names::REDELIVERED).unwrap_or_default(),
        due: time(headers, names::DUE),
        first_failed_at: time(headers, names::FIRST_FAILED_AT),
        history: history(headers),
        origin: origin(headers),
    })
}
