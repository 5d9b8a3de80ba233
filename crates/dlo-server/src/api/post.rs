//! `POST /letters`: one letter, an array, or a stream of lines. What happens to them is in `ingest/`.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use dlo_core::limits;
use futures::stream;
use serde_json::value::RawValue;

use super::error::{Answer, Problem};
use crate::body;
use crate::ingest::answer::{self, as_json, as_lines};
use crate::ingest::chunk::{self, Terms};
use crate::ingest::lines::Chunk;
use crate::ingest::outcome::Outcome;
use crate::memory::Held;
use crate::office::Office;

const JSON: &str = "application/json";
/// How long the items of an array wait for a store that is behind.
const ARRAY_PATIENCE: Duration = Duration::from_secs(2);
const LINES: &[&str] =
    &["application/x-ndjson", "application/ndjson", "application/jsonl", "application/x-jsonlines"];

pub(crate) async fn letters(State(office): State<Arc<Office>>, request: Request<Body>) -> Answer<Response> {
    let kind = body::media_type(request.headers());
    let idempotency_key = idempotency_key(request.headers())?;
    let as_stream = wants_lines(request.headers());
    body::expect_plain(request.headers())?;
    match kind.as_deref() {
        Some(JSON) => {
            let terms = Terms { idempotency_key, patience: Duration::ZERO };
            let (document, held) = body::whole(request, office.config.limits.json_body, &office).await?;
            match document.iter().find(|byte| !byte.is_ascii_whitespace()) {
                Some(b'[') => array(office.clone(), document, terms, as_stream, held).await,
                _ => Ok(single(office.clone(), document, terms, held).await),
            }
        }
        Some(kind) if LINES.contains(&kind) => {
            let terms = Terms { idempotency_key, patience: office.config.limits.patience };
            let chunks = answer::lines(office.clone(), request.into_body());
            let pieces = answer::outcomes(office.clone(), chunks, terms, Held::default());
            Ok(if as_stream { as_lines(pieces).await } else { as_json(pieces).await })
        }
        other => Err(body::wrong_type(other, &[JSON, LINES[0]])),
    }
}

/// One letter: refused, it is a problem of its own.
async fn single(office: Arc<Office>, document: Bytes, terms: Terms, held: Held) -> Response {
    let chunk = Chunk { first: 0, items: vec![Some(0..document.len())], slab: document, held };
    let outcomes = chunk::store(office, chunk, terms).await;
    if let Some(problem) = answer::not_taken_at_all(&outcomes) {
        return problem.into_response();
    }
    if let [Outcome::Rejected(refusal)] = &outcomes[..] {
        let status = match refusal.code {
            "malformed_json" | "invalid_utf8" => StatusCode::BAD_REQUEST,
            _ => StatusCode::UNPROCESSABLE_ENTITY,
        };
        let problem = Problem::new(status, refusal.code, refusal.detail.clone());
        return match &refusal.field {
            Some(field) => problem.field(field.clone()).into_response(),
            None => problem.into_response(),
        };
    }
    as_json(stream::iter([answer::Piece::Outcomes(outcomes)])).await
}

async fn array(
    office: Arc<Office>,
    document: Bytes,
    mut terms: Terms,
    as_stream: bool,
    held: Held,
) -> Answer<Response> {
    let ranges = ranges(&document)?;
    if ranges.len() as u64 > office.config.limits.items {
        let detail =
            format!("a request has at most {} items, found {}", office.config.limits.items, ranges.len());
        return Err(Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "too_many_items", detail));
    }
    // The chunks of one array must not push each other out; the first of them is not made to wait by this.
    terms.patience = ARRAY_PATIENCE.min(office.config.limits.patience);
    let chunks = stream::iter(Chunk::of_ranges(&document, &ranges).into_iter().map(Ok));
    let pieces = answer::outcomes(office, chunks, terms, held);
    Ok(if as_stream { as_lines(pieces).await } else { as_json(pieces).await })
}

/// Where each item of an array stands in its document.
fn ranges(document: &Bytes) -> Answer<Vec<Range<usize>>> {
    let text = std::str::from_utf8(document).map_err(|error| {
        let detail = format!("the body is not UTF-8 from byte {}", error.valid_up_to());
        Problem::bad_request("invalid_utf8", detail)
    })?;
    let items: Vec<&RawValue> = serde_json::from_str(text).map_err(|error| {
        let place = format!("line {} column {}", error.line(), error.column());
        let detail = format!("the body is not valid JSON at {place}; nothing was stored");
        Problem::bad_request("malformed_json", detail)
    })?;
    let begin = document.as_ptr() as usize;
    let at = |item: &&RawValue| {
        let start = item.get().as_ptr() as usize - begin;
        start..start + item.get().len()
    };
    Ok(items.iter().map(at).collect())
}

fn idempotency_key(headers: &HeaderMap) -> Answer<Option<Arc<str>>> {
    let Some(value) = headers.get("idempotency-key") else { return Ok(None) };
    match value.to_str() {
        Ok(key) if !key.is_empty() && key.len() <= limits::ID => Ok(Some(key.into())),
        _ => {
            let detail = format!("`Idempotency-Key` is visible ASCII text of 1 to {} bytes", limits::ID);
            Err(Problem::bad_request("bad_idempotency_key", detail).field("Idempotency-Key"))
        }
    }
}

/// Whether the answer shall be a line for each item.
fn wants_lines(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|kind| {
        let kind = kind.split(';').next().unwrap_or(kind).trim().to_ascii_lowercase();
        LINES.contains(&kind.as_str())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_items_of_an_array_are_found_where_they_stand() {
        let document = Bytes::from_static(b" [ {\"a\":1} ,\n 2,\"x\" ] ");
        let found: Vec<&[u8]> = ranges(&document).unwrap().into_iter().map(|at| &document[at]).collect();
        assert_eq!(found, [&b"{\"a\":1}"[..], b"2", b"\"x\""]);
        assert!(ranges(&Bytes::from_static(b"[{}")).is_err());
        assert!(ranges(&Bytes::from_static(b"[\"\xff\"]")).is_err());
    }

    #[test]
    fn lines_are_answered_to_who_accepts_them() {
        let wants = |accept: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, axum::http::HeaderValue::from_static(accept));
            wants_lines(&headers)
        };
        assert!(wants("application/x-ndjson") && wants("text/html, application/jsonl;q=0.9"));
        assert!(!wants("application/json") && !wants("*/*"));
    }
}
