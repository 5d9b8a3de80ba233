//! What is captured: one dead-letter queue of one broker, in which way, within which limits.

use std::num::NonZeroU32;
use std::sync::Arc;

use dlo_core::broker::Broker;
use dlo_core::conventions::Mapper;
use serde::Serialize;

/// One dead-letter queue that becomes letters of `source`. Nothing is opened before the office runs.
#[derive(Debug, Clone)]
pub struct CaptureSpec {
    pub source: String,
    pub broker: Arc<dyn Broker>,
    /// The queue whose messages die.
    pub queue: String,
    /// Where they are found dead.
    pub dlq: String,
    pub mode: Mode,
    /// How home-made headers and envelopes are read, beside the conventions that are known.
    pub mapper: Mapper,
    pub limits: CaptureLimits,
}

/// What becomes of a dead letter in the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It is taken out when it is stored; where the broker keeps a log, the office's position moves past it.
    #[default]
    Drain,
    /// It stays as it is, for others who read there. Only where looking is free.
    Mirror,
}

/// How much of the office one source may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CaptureLimits {
    /// Letters a second; `None`: as fast as they can be stored.
    pub rate: Option<NonZeroU32>,
    /// Bytes of messages that are in the office and not stored yet. Past that nothing more is read: the broker keeps
    /// the rest. One message is always taken, however large.
    pub waiting: usize,
}

impl Default for CaptureLimits {
    fn default() -> Self {
        Self { rate: None, waiting: 16 * 1024 * 1024 }
    }
}

/// How letters are got out of a broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    /// By position, one reader per partition; the place is kept in the store.
    Log,
    /// By delivery, settled when it is stored.
    Queue,
}

/// Why a queue cannot be captured in the mode that was asked for.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{dlq}` cannot be mirrored: reading from {kind} counts deliveries or hides messages from others; \
     use mode = \"drain\", or mirror a copy that the broker makes for the office"
)]
pub struct NoMirror {
    dlq: String,
    kind: &'static str,
}

impl CaptureSpec {
    /// Drains `dlq` within the default limits.
    pub fn new(
        source: impl Into<String>,
        broker: Arc<dyn Broker>,
        queue: impl Into<String>,
        dlq: impl Into<String>,
    ) -> Self {
        Self {
            source: source.into(),
            broker,
            queue: queue.into(),
            dlq: dlq.into(),
            mode: Mode::default(),
            mapper: Mapper::default(),
            limits: CaptureLimits::default(),
        }
    }

    /// Whether the broker can be read in this mode. Asks no server.
    pub fn check(&self) -> Result<(), NoMirror> {
        self.way().map(drop)
    }

    pub(crate) fn way(&self) -> Result<Way, NoMirror> {
        let able = self.broker.capabilities();
        match self.mode {
            Mode::Drain if able.drain_removes => Ok(Way::Queue),
            Mode::Drain | Mode::Mirror if able.looking_is_free => Ok(Way::Log),
            // Neither removed nor looked at: its own group is what keeps the place.
            Mode::Drain => Ok(Way::Queue),
            Mode::Mirror => Err(NoMirror { dlq: self.dlq.clone(), kind: able.kind.as_str() }),
        }
    }
}
