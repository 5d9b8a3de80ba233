//! Repair before replay (F9): an expression over a message, in a process that can be killed.
//!
//! ```text
//!  letters ─▶ Repairer ──frames──▶ dlo repair-worker (no environment, no files, bounded time and memory)
//!                │  ◀──answers──── jq ─▶ the same, changed, or why not
//!                └▶ schemas ─▶ preview as a diff · a stored Repair · a message on its way
//! ```
//!
//! The office itself never runs or even parses an expression. What is left here is bytes in and bytes out.

mod copies;
mod desk;
mod diff;
mod hide;
mod json;
mod pool;
mod program;
mod same;
mod schema;
mod show;
mod wire;
mod worker;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use dlo_core::message::{Message, Payload};

pub(crate) use copies::{Masking, Outlook};
pub use desk::{Mended, RepairConfig, RepairDesk};
pub use pool::Repairer;
pub use schema::{BadSchema, Schema, Schemas};
pub(crate) use show::difference;
pub use worker::run as run_worker;

/// Bytes of an expression.
pub(crate) const EXPRESSION: usize = 16 * 1024;

/// How the worker says by its exit code that a letter took too long.
const OUT_OF_TIME: i32 = 3;

/// Processor time of one letter.
const TIME: Duration = Duration::from_secs(1);
/// Bytes of address space of one worker.
const MEMORY: u64 = 512 * 1024 * 1024;

/// What all workers together may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Time that passes for one batch. What is not answered by then is refused.
    pub batch_time: Duration,
    /// Workers at once.
    pub workers: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { batch_time: Duration::from_secs(30), workers: 2 }
    }
}

/// How a worker is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerCommand {
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
}

impl WorkerCommand {
    /// This very program, also when another one was put in its place meanwhile.
    pub fn this_program(subcommand: &str) -> std::io::Result<Self> {
        let running = PathBuf::from("/proc/self/exe");
        let program = if running.exists() { running } else { std::env::current_exe()? };
        Ok(Self { program, arguments: vec![subcommand.into()] })
    }
}

/// An expression that is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} (at byte {at} of the expression)")]
pub struct BadExpression {
    /// Byte of the expression.
    pub at: usize,
    pub what: String,
}

/// Why nothing at all was repaired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RepairError {
    #[error(transparent)]
    Expression(#[from] BadExpression),
    #[error("the repair worker does not start: {0}")]
    Worker(#[source] std::io::Error),
}

/// A message to repair, and what is known of its letter: `$letter` in the expression.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub message: &'a Message,
    pub facts: Facts<'a>,
}

#[derive(Debug, Clone, Copy, Default)]
pub struct Facts<'a> {
    pub id: &'a str,
    pub source: &'a str,
    pub event_type: Option<&'a str>,
    pub error_class: Option<&'a str>,
    pub consumer: Option<&'a str>,
}

/// A message after its repair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repaired {
    /// Nothing changed: the message stays as it is, byte for byte.
    Same,
    Changed(Message),
}

impl Repaired {
    /// The message as it goes on.
    pub fn or(self, original: &Message) -> Message {
        match self {
            Self::Same => original.clone(),
            Self::Changed(message) => message,
        }
    }
}

impl wire::Change {
    /// The message with this change; refused where it would be more than a message may be.
    fn apply(self, original: &Message) -> Result<Repaired, String> {
        let mut message = original.clone();
        if let Some(payload) = self.payload {
            message.payload = Payload::from(payload);
        }
        match self.key {
            wire::KeyChange::Kept => {}
            wire::KeyChange::Removed => message.key = None,
            wire::KeyChange::Set(key) => message.key = Some(Payload::from(key)),
        }
        for (name, value) in self.headers {
            message.headers.remove_where(|other| other.eq_ignore_ascii_case(&name));
            if let Some(value) = value {
                message.headers.push(name, Some(value.into()));
            }
        }
        use dlo_core::limits::{HEADERS, HEADERS_SIZE};
        if message.headers.len() > HEADERS || message.headers.size() > HEADERS_SIZE {
            return Err(format!("a message has at most {HEADERS} headers of {HEADERS_SIZE} bytes together"));
        }
        Ok(if message == *original { Repaired::Same } else { Repaired::Changed(message) })
    }
}
