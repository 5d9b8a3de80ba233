//! Reading what others wrote on a dead letter: one file per convention, all of them asked of every letter.
//!
//! The outermost writer supplies the failure, the innermost the origin. What nobody knows stays as raw headers. Pure:
//! a letter that is only a pointer says so, and whoever can fetch makes it whole.

use serde::Serialize;

use crate::attempt::History;
use crate::message::Message;
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;
use crate::time::Timestamp;

/// Where a dead letter was found: what a detector may need beside the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found<'a> {
    pub broker: BrokerKind,
    /// The dead-letter queue.
    pub queue: &'a str,
}

/// What a dead letter holds of the original message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    #[default]
    Whole,
    /// Only where the record stands: fetch it while it is there.
    Pointer(Origin),
    /// Where a batch of records stands; each of them is a letter of its own.
    Batch(Vec<Origin>),
}

/// A dead letter as its writers tell it. What was not there, or was no sense, is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Reading {
    /// The conventions that were recognised, outermost first (`spring.dlt`, `connect`, `rabbitmq` …).
    pub conventions: Vec<&'static str>,
    /// Where it was before it first died, by the innermost writer.
    pub origin: Option<Origin>,
    pub held: Held,
    /// The original payload and key, where a convention wrapped them (an envelope, a key that is metadata).
    #[serde(skip)]
    pub unwrapped: Option<Message>,
    pub consumer: Option<String>,
    pub consumer_id: Option<String>,
    pub consumer_version: Option<String>,
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    pub error_stack: Option<String>,
    pub error_code: Option<String>,
    pub reason: Option<Reason>,
    pub attempts: Option<u32>,
    pub history: History,
    pub published_at: Option<Timestamp>,
    pub first_failed_at: Option<Timestamp>,
    pub failed_at: Option<Timestamp>,
    pub event_type: Option<String>,
    pub event_version: Option<String>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    pub content_type: Option<String>,
}

/// Asks every convention of a message that was found dead.
pub fn read(message: &Message, found: Found<'_>) -> Reading {
    let _ = (message, found);
    Reading::default()
}
