//! `GET /status`: what does not work now, since when, why, and what to do about it.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use dlo_core::time::Timestamp;
use dlo_core::trouble::Trouble;
use serde::Serialize;

use crate::office::Office;

#[derive(Serialize)]
pub(crate) struct StatusOut {
    /// Whether nothing is wrong.
    ok: bool,
    at: Timestamp,
    version: &'static str,
    troubles: Vec<Trouble>,
}

/// Answers also while the store does not.
pub(crate) async fn show(State(office): State<Arc<Office>>) -> Json<StatusOut> {
    let troubles = office.troubles();
    let (ok, at, version) = (troubles.is_empty(), office.now(), env!("CARGO_PKG_VERSION"));
    Json(StatusOut { ok, at, version, troubles })
}
