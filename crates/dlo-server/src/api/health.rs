//! For probes: whether the process lives, and whether it can do its work. An office that takes no letters is not ready.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::error::{Answer, Problem};
use crate::health;
use crate::office::Office;

/// How long the store may take to answer a probe.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn alive() -> Response {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")})).into_response()
}

pub(crate) async fn ready(State(office): State<Arc<Office>>) -> Answer<Response> {
    match health::look(&office, PATIENCE).await {
        Ok(()) => Ok(Json(json!({"status": "ready"})).into_response()),
        Err(unready) => {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", unready.why).retry_after(5))
        }
    }
}
