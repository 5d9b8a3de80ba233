//! Receipts: the office is told which replayed messages were handled, so that a replay ends in facts and not in hope.
//!
//! Whoever takes them must return at once and may lose some: a receipt is worth less than the message. One that is lost
//! leaves a replay with an outcome that is known from elsewhere, or not at all. A message that is delivered again
//! after a crash makes its receipt again; the office counts it once.

use async_trait::async_trait;
use dlo_core::envelope::ReplayMark;
use dlo_core::id::LetterId;
use dlo_core::time::Timestamp;
use dlo_core::trouble::TroubleKind;

/// A replayed message was handled.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Receipt {
    /// The id of the send.
    pub replay_id: String,
    /// The letter that was sent on, where the message says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub letter: Option<LetterId>,
    /// The consumer group that handled it.
    pub consumer: String,
    pub handled_at: Timestamp,
}

impl Receipt {
    pub(crate) fn new(mark: &ReplayMark, consumer: &str, handled_at: Timestamp) -> Self {
        let (replay_id, consumer) = (mark.replay_id.clone(), consumer.to_owned());
        Self { replay_id, letter: mark.letter, consumer, handled_at }
    }
}

/// Whether a consumer lets messages through, so that nobody sends it more than it can take.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Standing {
    /// The queue that it reads.
    pub queue: String,
    /// Its group.
    pub consumer: String,
    /// This run of it, among those that share the group.
    pub instance: String,
    /// Why the next message would wait, for people; unset: it would go, be it as a probe.
    pub halted: Option<String>,
    /// Why messages are held back, also while one of them is a probe.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paused: Option<Pause>,
}

/// A consumer holds messages back.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Pause {
    /// One of the kinds of a consumer.
    pub kind: TroubleKind,
    /// The reason, for people.
    pub why: String,
    /// Messages that it has received and not settled.
    pub held: usize,
}

/// Where receipts go, and the consumer's word on how it stands.
#[async_trait]
pub trait Receipts: Send + Sync {
    /// Takes a receipt, in the middle of things: return at once, and never fail.
    fn take(&self, receipt: Receipt);

    /// Hears how the consumer stands, in the middle of things: return at once, and never fail. Told when it changes, and
    /// again every few seconds while messages wait; whoever does not hear it again forgets it.
    fn hear(&self, standing: Standing) {
        let _ = standing;
    }

    /// Returns when everything that was taken is on its way or given up. The consumer waits for it when it stops, a few
    /// seconds at most.
    async fn flush(&self) {}
}
