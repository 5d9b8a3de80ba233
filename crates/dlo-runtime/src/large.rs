//! Dead letters whose body does not fit their dead-letter queue.
//!
//! Such a letter is kept whole somewhere else: in the office, or on disk. If it is on disk, a pointer goes to the
//! dead-letter queue: a message without a body, with every header of the death, which says where the body is. The original is
//! settled only when the office has the letter, or when the pointer is confirmed. Without a [`LargeLetters`] the letter
//! stays in memory and is tried again, as for a queue that cannot be written.

use async_trait::async_trait;
use dlo_core::envelope::{BodyTooLarge, Envelope, encode, point_elsewhere};
use dlo_core::message::{Headers, Message, Payload};

/// One letter, whole.
#[derive(Debug, Clone, Copy)]
pub struct LargeLetter<'a> {
    /// As it was received.
    pub message: &'a Message,
    pub envelope: &'a Envelope,
    /// The same each time that this letter is handed over, and no other letter's: a second copy is the first one.
    pub name: &'a str,
}

/// Where a large letter is now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    InOffice,
    /// In a file of this name.
    OnDisk(String),
}

/// Keeps letters that are too large for their dead-letter queue.
#[async_trait]
pub trait LargeLetters: Send + Sync {
    /// Returns when the letter is durable. An error says why it cannot be kept now: it is tried again later, and its
    /// original stays unsettled meanwhile.
    async fn keep(&self, letter: LargeLetter<'_>) -> Result<Kept, String>;
}

/// The message that stands for a letter on disk. The producer's headers are left out if they alone are too large.
pub(crate) fn pointer(
    message: &Message,
    envelope: &Envelope,
    file: &str,
    limit: usize,
) -> Result<Message, BodyTooLarge> {
    let mut pointer =
        Message { key: message.key.clone(), headers: message.headers.clone(), payload: Payload::default() };
    point_elsewhere(&mut pointer.headers, file, message.payload.0.len());
    encode(&pointer, envelope, limit).or_else(|_too_large| {
        pointer.headers = Headers::new();
        point_elsewhere(&mut pointer.headers, file, message.payload.0.len());
        encode(&pointer, envelope, limit)
    })
}
