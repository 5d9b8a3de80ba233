//! What happened in a run, fact by fact, in order. The log is what a model judges, and what a person reads.

use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::broker::Settlement;
use dlo_core::id::DeathId;
use dlo_core::message::Message;
use dlo_core::reason::Reason;
use dlo_core::verdict::VerdictKind;
use tokio::time::Instant;

/// Which message: its payload is this number in digits, on every copy of it.
pub type Number = u32;

/// The number of a message, if its payload is still one.
pub fn number(message: &Message) -> Option<Number> {
    std::str::from_utf8(&message.payload.0).ok()?.parse().ok()
}

/// One thing that happened. `by`, `to` and `of` are processes, by the id of their life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fact {
    /// A producer sent it.
    Sent(Number),
    Delivered {
        to: u32,
        message: Number,
        tag: u64,
        count: Option<u32>,
    },
    /// The broker took it back from whoever had it.
    CameBack {
        message: Number,
        tag: u64,
        why: Back,
    },
    /// The runtime says what is to become of a delivery. The broker may not have heard it yet.
    Told {
        by: u32,
        message: Number,
        tag: u64,
        how: Settlement,
    },
    /// The broker did it.
    Settled {
        message: Number,
        tag: u64,
        how: Settlement,
    },
    /// A copy is there, whether the sender hears of it or not.
    Wrote {
        by: u32,
        message: Number,
        copy: Copy,
    },
    /// The sender heard what became of its copy.
    Heard {
        by: u32,
        message: Number,
        of_letter: bool,
        confirmed: bool,
    },
    Began {
        by: u32,
        message: Number,
        attempt: u32,
    },
    Ended {
        by: u32,
        message: Number,
        how: End,
    },
    Started {
        life: u32,
        place: usize,
    },
    Stopping(u32),
    Stopped(u32),
    Crashed(u32),
    /// Something that the model has no question about and a reader may.
    Note(String),
}

/// Why a message came back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Back {
    LeaseOver,
    HolderGone,
    HandedBack,
    PartitionMoved,
    ConnectionLost,
}

/// A message that the runtime published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Copy {
    Letter(Box<Letter>),
    /// Back to the queue, to come again. `aimed`: at one group, where there are several.
    Retry {
        aimed: bool,
    },
}

/// A letter as it stands in the dead-letter queue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Letter {
    pub death: Option<DeathId>,
    /// A second copy of it is recognised: by its name at the broker, or by its mark.
    pub is_recognised: bool,
    pub reason: Option<Reason>,
    pub verdict: VerdictKind,
    pub attempts: Option<u32>,
    /// Attempts that its history tells of.
    pub history: usize,
    pub key: Option<String>,
}

/// How a handler's work on a message ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    Handled,
    /// It failed and said so: a charge.
    Failed,
    /// It failed with an error that nobody knows, as everything does at the moment.
    Broken,
    /// It failed because its process shuts down: no charge.
    FailedByShutdown,
    TimedOut,
    Panicked,
    /// Dropped before its time was over.
    Dropped,
}

/// A fact and when it happened, since the run began.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    pub at: Duration,
    pub fact: Fact,
}

/// Every fact of a run. Made inside of the runtime whose time it follows.
#[derive(Debug)]
pub struct Log {
    began: Instant,
    facts: Mutex<Vec<Noted>>,
}

impl Default for Log {
    fn default() -> Self {
        Self { began: Instant::now(), facts: Mutex::default() }
    }
}

impl Log {
    pub fn note(&self, fact: Fact) {
        let at = self.began.elapsed();
        self.facts().push(Noted { at, fact });
    }

    pub fn take(&self) -> Vec<Noted> {
        std::mem::take(&mut self.facts())
    }

    fn facts(&self) -> MutexGuard<'_, Vec<Noted>> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Fact {
    /// The message it is about, if it is about one.
    pub fn message(&self) -> Option<Number> {
        match self {
            Self::Sent(message)
            | Self::Delivered { message, .. }
            | Self::CameBack { message, .. }
            | Self::Told { message, .. }
            | Self::Settled { message, .. }
            | Self::Wrote { message, .. }
            | Self::Heard { message, .. }
            | Self::Began { message, .. }
            | Self::Ended { message, .. } => Some(*message),
            Self::Started { .. }
            | Self::Stopping(_)
            | Self::Stopped(_)
            | Self::Crashed(_)
            | Self::Note(_) => None,
        }
    }
}

impl fmt::Display for Noted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>10.3}s  {}", self.at.as_secs_f64(), self.fact)
    }
}

impl fmt::Display for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sent(message) => write!(f, "#{message} sent"),
            Self::Delivered { to, message, tag, count } => {
                write!(f, "#{message} delivered to p{to} (tag {tag}, count {count:?})")
            }
            Self::CameBack { message, tag, why } => write!(f, "#{message} came back (tag {tag}): {why:?}"),
            Self::Told { by, message, tag, how } => {
                write!(f, "#{message} told by p{by} (tag {tag}): {how:?}")
            }
            Self::Settled { message, tag, how } => write!(f, "#{message} settled (tag {tag}): {how:?}"),
            Self::Wrote { by, message, copy } => write!(f, "#{message} written by p{by}: {copy:?}"),
            Self::Heard { by, message, of_letter, confirmed } => {
                let what = if *of_letter { "letter" } else { "retry" };
                let heard = if *confirmed { "confirmed" } else { "in doubt" };
                write!(f, "#{message} p{by} hears that its {what} is {heard}")
            }
            Self::Began { by, message, attempt } => {
                write!(f, "#{message} in the handler of p{by}, attempt {attempt}")
            }
            Self::Ended { by, message, how } => write!(f, "#{message} out of the handler of p{by}: {how:?}"),
            Self::Started { life, place } => write!(f, "p{life} started at place {place}"),
            Self::Stopping(life) => write!(f, "p{life} is told to stop"),
            Self::Stopped(life) => write!(f, "p{life} stopped"),
            Self::Crashed(life) => write!(f, "p{life} crashed"),
            Self::Note(text) => f.write_str(text),
        }
    }
}
