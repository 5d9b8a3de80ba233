//! The control plane: letters come in over HTTP and from dead-letter queues, and people and programs read them.
//!
//! ```text
//!  HTTP ─▶ guard ─▶ api ─┬▶ ingest ─┐
//!                        │          ├▶ admit ─▶ store ─▶ admission log
//!  a DLQ ─▶ capture ─────┼──────────┘
//!                        └▶ reads, decisions, export, backup        ui ─▶ the same store
//! ```
//!
//! This crate knows the store by its trait and brokers by the port of `dlo-core`; who wires them is the CLI.

mod admission_log;
mod admit;
mod api;
mod automation;
mod body;
mod capture;
mod config;
mod consumers;
mod decode;
mod full_disk;
mod guard;
mod health;
mod ingest;
mod listen;
mod mask;
mod memory;
mod metrics;
mod office;
mod patient;
mod process;
mod query_text;
mod repair;
mod replay;
mod scratch;
mod server;
mod triage;
mod trouble;
mod ui;

pub use admission_log::AdmissionLog;
pub use api::routes;
#[doc(hidden)]
pub use capture::Intake;
pub use capture::{CaptureLimits, CaptureSpec, CaptureState, CaptureStatus, LastError, Mode, NoMirror};
pub use config::{HttpLimits, ReplayRules, ServerConfig, SourceReplay, Token, WrittenRules};
pub use decode::{BadFormat, Format, Formats};
pub use repair::{
    BadExpression, BadSchema, Facts, Limits as RepairLimits, Mended, RepairConfig, RepairDesk, RepairError,
    Repaired, Repairer, Schema, Schemas, Subject, WorkerCommand, run_worker,
};
pub use replay::{ReplayDesk, ReplayTarget, Speaker, Standing};
pub use server::{Rules, ServeError, Server, Switch};

/// The description of the API, as served at `/api/v1/openapi.json`.
pub const OPENAPI: &str = include_str!("api/openapi.json");
