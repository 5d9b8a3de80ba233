//! For probes: whether the process lives, and whether it can do its work.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::json;

use super::error::{Answer, Problem};
use crate::office::Office;

/// How long the store may take to answer a probe.
const PATIENCE: Duration = Duration::from_secs(5);

pub(crate) async fn alive() -> Response {
    Json(json!({"status": "ok", "version": env!("CARGO_PKG_VERSION")})).into_response()
}

pub(crate) async fn ready(State(office): State<Arc<Office>>) -> Answer<Response> {
    let not_ready =
        |detail: String| Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail).retry_after(5);
    match tokio::time::timeout(PATIENCE, office.store.ping()).await {
        Ok(Ok(())) => Ok(Json(json!({"status": "ready"})).into_response()),
        Ok(Err(error)) => Err(not_ready(error.to_string())),
        Err(_) => Err(not_ready(format!("the store did not answer within {} seconds", PATIENCE.as_secs()))),
    }
}
