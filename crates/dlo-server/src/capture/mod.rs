//! Capture: dead-letter queues become letters.
//!
//! ```text
//!  spec ─▶ lanes ─┬▶ queue  receive ─▶ admit ─▶ insert ─▶ settle         (window: nothing twice without coordinates)
//!                 └▶ log    read ─▶ admit ─▶ insert with place ─▶ tell   (one reader per partition, joined by the clerk)
//!  watch ─▶ board ◀─ every lane        whole: pointers are fetched       pace: limits
//! ```
//!
//! The order is the promise: only when the letters are durable is the broker told. Nothing is refused here, because
//! nobody else would keep it. When store or broker are away, capture waits; the letters are safe in the queue.

mod admit;
mod board;
mod carried;
mod desk;
mod intake;
mod lanes;
mod log;
mod pace;
mod queue;
mod spec;
mod watch;
mod whole;
mod window;

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

pub(crate) use board::CaptureBoard;
pub use board::{CaptureState, CaptureStatus, LastError};
#[doc(hidden)]
pub use intake::Intake;
pub use spec::{CaptureLimits, CaptureSpec, Mode, NoMirror};

use crate::office::Office;
use desk::Desk;

/// Captures one source until `stop`. A mode that the broker cannot serve ends it with the reason on the board.
pub(crate) async fn run(office: Arc<Office>, spec: CaptureSpec, stop: CancellationToken) {
    let way = match spec.way() {
        Ok(way) => way,
        Err(refusal) => {
            tracing::error!(source = spec.source, "{refusal}");
            office.captures.ends(&spec.source, Some(refusal.to_string()), office.now());
            return;
        }
    };
    let spec = Arc::new(spec);
    let desk = Arc::new(Desk::new(Arc::clone(&office), Arc::clone(&spec)));
    let watching = watch::watch(Arc::clone(&office), Arc::clone(&spec), way, stop.clone());
    tokio::join!(watching, lanes::run(desk, way, stop));
    office.captures.ends(&spec.source, None, office.now());
}
