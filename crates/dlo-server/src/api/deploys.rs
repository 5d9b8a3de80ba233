//! Marks of deployments: what began or came back shortly after one is shown with it.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use dlo_core::deploy::{Deploy, NewDeploy};
use dlo_core::limits;
use dlo_core::time::Timestamp;
use dlo_store::Deed;
use serde::{Deserialize, Serialize};

use super::error::{Answer, Problem};
use super::groups::named;
use crate::body;
use crate::office::Office;
use crate::query_text::{self, Author, Params, page};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MarkIn {
    version: String,
    consumer: Option<String>,
    source: Option<String>,
    url: Option<String>,
    /// When it happened; now, if it is not said.
    at: Option<Timestamp>,
    reason: Option<String>,
}

pub(crate) async fn mark(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    let MarkIn { version, consumer, source, url, at, reason } = body::json(request, &office).await?;
    named("version", &version)?;
    for (field, text) in [("consumer", &consumer), ("source", &source)] {
        text.as_deref().map_or(Ok(()), |text| named(field, text))?;
    }
    if url.as_deref().is_some_and(|url| !is_web(url)) {
        let detail = format!("`url` begins with https:// or http:// and has at most {} bytes", limits::URL);
        return Err(Problem::unprocessable("bad_url", detail).field("url"));
    }
    let now = office.now();
    let at = at.unwrap_or(now);
    if at > now.plus(std::time::Duration::from_secs(limits::FUTURE_SECONDS)) {
        let detail = "`at` lies more than a day ahead; is it the right year?";
        return Err(Problem::unprocessable("bad_time", detail).field("at"));
    }
    let deed = Deed { author: author.0, reason: query_text::note("reason", reason)?, reference: None };
    let what = NewDeploy { version, consumer, source, url };
    Ok(Json(office.shown().mark_deploy(&what, at, &deed, now).await?).into_response())
}

fn is_web(url: &str) -> bool {
    let lower = url.to_ascii_lowercase();
    let plain = |c: char| !c.is_whitespace() && !c.is_control() && !matches!(c, '"' | '<' | '>' | '\\');
    (lower.starts_with("https://") || lower.starts_with("http://"))
        && url.len() <= limits::URL
        && url.chars().all(plain)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeployParams {
    from: Option<Timestamp>,
    until: Option<Timestamp>,
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
struct DeploysOut {
    deploys: Vec<Deploy>,
}

pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    Params(params): Params<DeployParams>,
) -> Answer<Response> {
    let limit = page(params.limit, None)?.limit;
    let deploys = office.shown().deploys(params.from, params.until, limit).await?;
    Ok(Json(DeploysOut { deploys }).into_response())
}
