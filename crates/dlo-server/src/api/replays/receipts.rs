//! `POST /receipts`: the runtime's word that replayed messages were handled (F8).

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use dlo_core::id::LetterId;
use dlo_core::replay::parse_send_id;
use dlo_core::time::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::Author;

/// Receipts of one request.
const MOST: usize = 500;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Receipts {
    receipts: Vec<Receipt>,
}

/// One message that was handled. What is beside the id is for people who read the wire.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Receipt {
    /// As the message carried it.
    replay_id: String,
    #[serde(rename = "letter")]
    _letter: Option<LetterId>,
    #[serde(rename = "consumer")]
    _consumer: Option<String>,
    #[serde(rename = "handled_at")]
    _handled_at: Option<Timestamp>,
}

#[derive(Debug, Serialize)]
struct Received {
    /// Belonged to an item that was waiting for it.
    confirmed: u64,
    /// Of a replay that is not here: another office's, or older than this one.
    unknown: u64,
}

pub(crate) async fn receive(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    let Receipts { receipts } = body::json(request, &office).await?;
    if receipts.len() > MOST {
        let detail = format!("at most {MOST} receipts a request, found {}", receipts.len());
        return Err(Problem::unprocessable("too_many", detail).field("receipts"));
    }
    let known: Vec<_> = receipts.iter().filter_map(|receipt| parse_send_id(&receipt.replay_id)).collect();
    let taken = office.store.receipts(&known, &author.looks(), office.now()).await?;
    let confirmed = taken.iter().filter(|taken| **taken).count();
    if confirmed > 0 {
        office.replays.ring();
    }
    let unknown = (receipts.len() - confirmed) as u64;
    Ok(Json(Received { confirmed: confirmed as u64, unknown }).into_response())
}
