//! The headers we write on a dead letter, version 1, and how they are read back.
//!
//! The payload stays the original payload, unwrapped, and original headers stay as they were; ours stand behind them.
//! Encoding fits the broker's message limit: stack, then error message, then history are cut, in that order, and
//! `dlo-truncated` says so. Decoding never fails: what is not understood is left alone as a raw header, and
//! the last header of a name speaks, because it is the outermost writer's.

mod amqp;
mod death;
mod fit;
mod hop;
mod names;
mod pointer;
mod read;
mod replay;
mod strip;

use serde::Serialize;

use crate::attempt::History;
use crate::id::DeathId;
use crate::origin::{BrokerKind, Origin};
use crate::reason::Reason;
use crate::time::Timestamp;
use crate::verdict::VerdictKind;

pub use amqp::{Published, is_parked};
pub use death::{death_mark, decode, encode, mark_death, mark_redelivered, remove_death};
pub use fit::{BodyTooLarge, size};
pub use hop::{RetryHop, decode_hop, encode_hop, hop_headers};
pub use names::VERSION;
pub use pointer::{body_elsewhere, point_elsewhere};
pub use replay::{ReplayMark, aim_at, mark_replayed, replay_mark, target_group};
pub use strip::{is_reserved, strip_for_replay, strip_message};

/// One death as headers tell it. What was not there, or was no sense, is `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Envelope {
    pub death_id: Option<DeathId>,
    /// The broker delivered the message again after a consumer went down, so an earlier copy may already be in the
    /// dead-letter queue. Not set where the broker itself names the message: there a second copy is recognised.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub redelivered: bool,
    pub reason: Option<Reason>,
    /// Written only when it is not `dead_letter`: a discard leaves a record as well (A6), and the record says so.
    pub verdict: Option<VerdictKind>,
    /// The rule that decided.
    pub rule: Option<String>,
    pub error_class: Option<String>,
    pub error_message: Option<String>,
    pub error_stack: Option<String>,
    pub error_code: Option<String>,
    pub attempts: Option<u32>,
    pub history: History,
    pub first_failed_at: Option<Timestamp>,
    pub last_failed_at: Option<Timestamp>,
    pub dead_at: Option<Timestamp>,
    pub origin: OriginHeaders,
    pub consumer_group: Option<String>,
    pub consumer_id: Option<String>,
    pub consumer_version: Option<String>,
    /// What was cut to make it fit.
    pub truncated: Vec<Part>,
}

/// Where the message came from, as far as headers say.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct OriginHeaders {
    pub broker: Option<BrokerKind>,
    pub queue: Option<String>,
    /// Which life of that queue. Without it, a queue created anew would repeat the coordinates of the old one, and its
    /// deaths would be taken for known ones.
    pub incarnation: Option<String>,
    pub partition: Option<i32>,
    pub offset: Option<i64>,
    pub message_id: Option<String>,
    /// When it was published, by the producer's or broker's clock.
    pub timestamp: Option<Timestamp>,
}

impl OriginHeaders {
    pub fn new(origin: &Origin, published_at: Option<Timestamp>) -> Self {
        Self {
            broker: Some(origin.broker),
            queue: Some(origin.queue.clone()),
            incarnation: origin.incarnation.clone(),
            partition: origin.partition,
            offset: origin.offset,
            message_id: origin.message_id.clone(),
            timestamp: published_at,
        }
    }

    /// The origin, if broker and queue are known.
    pub fn origin(&self) -> Option<Origin> {
        Some(Origin {
            broker: self.broker?,
            queue: self.queue.clone()?,
            incarnation: self.incarnation.clone(),
            partition: self.partition,
            offset: self.offset,
            message_id: self.message_id.clone(),
        })
    }
}

crate::codes::coded! {
    /// A part of a dead letter that may be cut, in the order in which parts are.
    pub enum Part as "part" {
        Stack = 1 => "stack",
        Message = 2 => "message",
        History = 3 => "history",
    }
}

#[cfg(test)]
mod tests;
