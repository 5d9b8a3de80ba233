//! What people write beside a group: notes, links, a runbook. It survives replays, and merges.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use dlo_core::id::GroupId;
use dlo_store::triage::{NewLink, Runbook};
use serde::Deserialize;
use serde_json::json;

use crate::api::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::{Author, Id};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct NoteIn {
    text: String,
}

pub(crate) async fn add_note(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<GroupId>,
    request: Request<Body>,
) -> Answer<Response> {
    let note: NoteIn = body::json(request, &office).await?;
    let note = office.shown().add_note(id, &note.text, &author.looks(), office.now()).await?;
    Ok(Json(note).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkIn {
    title: String,
    url: String,
}

pub(crate) async fn add_link(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<GroupId>,
    request: Request<Body>,
) -> Answer<Response> {
    let LinkIn { title, url } = body::json(request, &office).await?;
    let link = office.shown().add_link(id, &NewLink { title, url }, &author.looks(), office.now()).await?;
    Ok(Json(link).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct UnlinkIn {
    number: i64,
}

pub(crate) async fn remove_link(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<GroupId>,
    request: Request<Body>,
) -> Answer<Response> {
    let asked: UnlinkIn = body::json(request, &office).await?;
    let removed = office.store.remove_link(id, asked.number, &author.looks(), office.now()).await?;
    Ok(Json(json!({ "removed": removed })).into_response())
}

pub(crate) async fn runbook(State(office): State<Arc<Office>>, Id(id): Id<GroupId>) -> Answer<Response> {
    match office.shown().runbook(id).await? {
        Some(runbook) => Ok(tagged(&runbook)),
        None => {
            let detail = "nobody wrote a runbook for this group yet";
            Err(Problem::new(StatusCode::NOT_FOUND, "no_runbook", detail))
        }
    }
}

fn tagged(runbook: &Runbook) -> Response {
    ([(header::ETAG, format!("\"{}\"", runbook.version))], Json(runbook)).into_response()
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RunbookIn {
    text: String,
    /// The version that the author has read; none: there was none.
    version: Option<i64>,
}

/// Replaces the runbook, if nobody else did since it was read: `version` in the body, or `If-Match`.
pub(crate) async fn write_runbook(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<GroupId>,
    request: Request<Body>,
) -> Answer<Response> {
    let matched = if_match(request.headers())?;
    let asked: RunbookIn = body::json(request, &office).await?;
    let known = asked.version.or(matched).unwrap_or(0);
    let runbook = office.shown().write_runbook(id, &asked.text, known, &author.looks(), office.now()).await?;
    Ok(tagged(&runbook))
}

fn if_match(headers: &HeaderMap) -> Answer<Option<i64>> {
    let Some(value) = headers.get(header::IF_MATCH) else { return Ok(None) };
    let version = value.to_str().ok().and_then(|text| text.trim().trim_matches('"').parse().ok());
    let detail = "`If-Match` holds the `ETag` of the runbook that was read, such as \"3\"";
    version.map(Some).ok_or_else(|| Problem::bad_request("bad_etag", detail).field("if-match"))
}
