//! How large a message is on the wire, and what is said when its body alone does not fit.

use crate::message::Message;

/// What brokers add to a message, generously: lengths, checksums, batch frames.
const MESSAGE_OVERHEAD: usize = 128;
/// What brokers add to a header: two lengths and a type.
const HEADER_OVERHEAD: usize = 16;

/// Cutting the story was not enough: the body and its own headers are larger than the broker takes. It belongs in the
/// spill store, with a pointer in its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the message has {size} bytes with nothing left to cut, the broker takes {limit}")]
pub struct BodyTooLarge {
    pub size: usize,
    pub limit: usize,
}

/// Bytes that a broker counts for this message, headers included; an upper estimate.
pub fn size(message: &Message) -> usize {
    let key = message.key.as_ref().map_or(0, |key| key.0.len());
    let headers =
        message.headers.size().saturating_add(message.headers.len().saturating_mul(HEADER_OVERHEAD));
    message.payload.0.len().saturating_add(key).saturating_add(headers).saturating_add(MESSAGE_OVERHEAD)
}
