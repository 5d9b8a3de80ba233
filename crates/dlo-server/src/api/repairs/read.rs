//! `GET /api/v1/letters/{id}/repairs`: what stands beside a letter, each as its difference to the original.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dlo_core::id::LetterId;
use dlo_core::message::Message;
use dlo_core::time::Timestamp;
use dlo_store::Repair;
use serde::Serialize;

use super::letters::one;
use crate::api::error::{Answer, Problem};
use crate::office::Office;
use crate::query_text::{Author, Id};
use crate::repair::difference;

#[derive(Serialize)]
struct RepairsOut {
    repairs: Vec<RepairOut>,
}

#[derive(Serialize)]
struct RepairOut {
    number: u32,
    /// Whether a replay sends this one.
    active: bool,
    at: Timestamp,
    author: String,
    reason: Option<String>,
    /// `None`: edited by hand.
    expression: Option<String>,
    payload_size: usize,
    diff: String,
}

/// A difference shows payload: reading it is audited as reading the payload is.
pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    Id(id): Id<LetterId>,
    author: Author,
) -> Answer<Response> {
    let repairs = office.store.repairs(id).await?;
    let looks = (!repairs.is_empty()).then(|| author.looks());
    let before = one(&office, id, looks.as_ref()).await?.message;
    let compared = tokio::task::spawn_blocking(move || compare(&office, before, repairs));
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed");
    Ok(Json(RepairsOut { repairs: compared.await.map_err(failed)? }).into_response())
}

fn compare(office: &Office, mut before: Message, repairs: Vec<Repair>) -> Vec<RepairOut> {
    office.mask.message(&mut before);
    let shown = repairs.into_iter().map(|mut repair| {
        let payload_size = repair.message.payload.0.len();
        office.mask.message(&mut repair.message);
        RepairOut {
            number: repair.number,
            active: repair.active,
            at: repair.at,
            author: repair.author,
            reason: repair.reason,
            expression: repair.expression,
            payload_size,
            diff: difference(&before, &repair.message),
        }
    });
    shown.collect()
}
