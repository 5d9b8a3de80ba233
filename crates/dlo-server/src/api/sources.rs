//! The queues under the office's care, as their capture stands right now.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Serialize;

use crate::capture::CaptureStatus;
use crate::office::Office;

#[derive(Serialize)]
pub(crate) struct SourcesOut {
    sources: Vec<CaptureStatus>,
}

pub(crate) async fn list(State(office): State<Arc<Office>>) -> Json<SourcesOut> {
    Json(SourcesOut { sources: office.capture_status() })
}
