//! The audit log, and the proof that nothing leaked.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dlo_store::{AuditEntry, Cursor, Verification};
use serde::{Deserialize, Serialize};

use super::error::Answer;
use crate::office::Office;
use crate::query_text::{Params, page};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditParams {
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct AuditOut {
    entries: Vec<AuditEntry>,
    next_cursor: Option<Cursor>,
}

pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    Params(params): Params<AuditParams>,
) -> Answer<Response> {
    let found = office.store.audit(&page(params.limit, params.cursor)?).await?;
    Ok(Json(AuditOut { entries: found.entries, next_cursor: found.next }).into_response())
}

#[derive(Serialize)]
struct VerificationOut {
    /// Captured equals the sum over all statuses, for every source.
    holds: bool,
    #[serde(flatten)]
    verification: Verification,
}

/// Counts every letter anew. Reads everything, and takes its time.
pub(crate) async fn verify(State(office): State<Arc<Office>>) -> Answer<Response> {
    let _place = office.long_reading()?;
    let verification = office.store.verify().await?;
    Ok(Json(VerificationOut { holds: verification.problems.is_empty(), verification }).into_response())
}
