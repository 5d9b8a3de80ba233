//! Reading letters: lists, one, its payload, its timeline.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use dlo_core::replay::parse_send_id;
use dlo_store::{Event, StoreError, StoredPayload, TimelineEntry};
use serde::{Deserialize, Serialize};

use super::decide::COUNTED;
use super::dto::{DetailOut, LetterOut};
use super::error::Answer;
use crate::automation::leaving;
use crate::office::Office;
use crate::query_text::{Author, Id, Params, page, query};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    #[serde(default)]
    pub(crate) q: String,
    pub(crate) limit: Option<usize>,
    pub(crate) cursor: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CountParams {
    #[serde(default)]
    q: String,
}

#[derive(Serialize)]
struct LettersOut<'a> {
    letters: Vec<LetterOut<'a>>,
    next_cursor: Option<&'a dlo_store::Cursor>,
    /// Why terms of the query find nothing: what they ask for is masked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    masked: Vec<String>,
}

pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    Params(params): Params<ListParams>,
) -> Answer<Response> {
    let query = query(&params.q, &office)?;
    let found = office.shown().letters(&query, &page(params.limit, params.cursor)?).await?;
    let letters = found.letters.iter().map(LetterOut::new).collect();
    Ok(Json(LettersOut { letters, next_cursor: found.next.as_ref(), masked: query.masked_terms() })
        .into_response())
}

#[derive(Serialize)]
struct CountOut {
    count: u64,
    /// There are at least so many; counting stopped there.
    more: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    masked: Vec<String>,
}

/// How many letters match right now, exactly, up to a million.
pub(crate) async fn count(
    State(office): State<Arc<Office>>,
    Params(params): Params<CountParams>,
) -> Answer<Response> {
    let query = query(&params.q, &office)?;
    // It may walk through everything there is.
    let _place = office.long_reading()?;
    let count = office.store.count(&query, COUNTED + 1).await?;
    let masked = query.masked_terms();
    Ok(Json(CountOut { count: count.min(COUNTED), more: count > COUNTED, masked }).into_response())
}

pub(crate) async fn show(State(office): State<Arc<Office>>, Id(id): Id<LetterId>) -> Answer<Response> {
    let detail = office.shown().letter(id).await?;
    let leaves = leaving(&office, &detail.letter).await?;
    let routed_to = match detail.letter.status {
        Status::Routed => routed_to(&office, &office.shown().timeline(id).await?).await?,
        _ => None,
    };
    Ok(Json(DetailOut::new(&detail, leaves, routed_to)).into_response())
}

/// The queue that the replay which last sent a letter routed it to.
pub(crate) async fn routed_to(
    office: &Office,
    timeline: &[TimelineEntry],
) -> Result<Option<String>, StoreError> {
    let route = timeline.iter().rev().find(|entry| entry.what == Event::Step(Step::Route));
    let sent = route.and_then(|entry| parse_send_id(entry.reference.as_deref()?));
    let Some((replay, _)) = sent else { return Ok(None) };
    Ok(office.shown().replay(replay).await?.settings.target.named().map(str::to_owned))
}

/// The bytes as they were captured. Reading them is audited before they leave.
pub(crate) async fn payload(
    State(office): State<Arc<Office>>,
    Id(id): Id<LetterId>,
    author: Author,
) -> Answer<Response> {
    let payload = office.shown().payload(id, Some((&author.looks(), office.now()))).await?;
    Ok(attachment(id, payload))
}

/// The payload as a file that no browser shows or runs in the office's name.
///
/// The sender's content type is not sent: `text/html` or `image/svg+xml` would be a script of the sender. The letter names it.
fn attachment(id: LetterId, payload: StoredPayload) -> Response {
    let kind = match std::str::from_utf8(&payload.bytes) {
        Ok(_) => HeaderValue::from_static("text/plain; charset=utf-8"),
        Err(_) => HeaderValue::from_static("application/octet-stream"),
    };
    let name = HeaderValue::from_str(&format!("attachment; filename=\"{id}\""));
    let mut response = payload.bytes.into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind);
    headers.insert(header::CONTENT_DISPOSITION, name.unwrap_or(HeaderValue::from_static("attachment")));
    response
}

#[derive(Serialize)]
struct TimelineOut {
    timeline: Vec<dlo_store::TimelineEntry>,
}

pub(crate) async fn timeline(State(office): State<Arc<Office>>, Id(id): Id<LetterId>) -> Answer<Response> {
    Ok(Json(TimelineOut { timeline: office.shown().timeline(id).await? }).into_response())
}
