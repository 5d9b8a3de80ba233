//! The office in numbers. All of them are kept at write time: asking costs the same at any number of letters.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use dlo_core::group::StatusCounts;
use dlo_core::time::Timestamp;
use dlo_store::{CauseCount, SourceStats};
use serde::{Deserialize, Serialize, Serializer};

use super::error::Answer;
use crate::capture::CaptureStatus;
use crate::office::Office;
use crate::query_text::Params;

#[derive(Serialize)]
struct StatsOut {
    letters: Counts,
    groups: u64,
    unowned: u64,
    unindexed: u64,
    sources: Vec<SourceOut>,
    captures: Vec<CaptureStatus>,
}

#[derive(Serialize)]
struct SourceOut {
    source: String,
    captured: u64,
    deaths: u64,
    letters: Counts,
    groups: u64,
    oldest_open: Option<Timestamp>,
    last_captured: Option<Timestamp>,
}

impl From<SourceStats> for SourceOut {
    fn from(stats: SourceStats) -> Self {
        Self {
            source: stats.source,
            captured: stats.captured,
            deaths: stats.deaths,
            letters: Counts(stats.counts),
            groups: stats.groups,
            oldest_open: stats.oldest_open,
            last_captured: stats.last_captured,
        }
    }
}

/// Counts by status, with their sum.
struct Counts(StatusCounts);

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let total = std::iter::once(("total", self.0.total()));
        serializer.collect_map(total.chain(self.0.iter().map(|(status, count)| (status.as_str(), count))))
    }
}

pub(crate) async fn office(State(office): State<Arc<Office>>) -> Answer<Response> {
    Ok(Json(stats(&office).await?).into_response())
}

/// The same as text, for those who follow it. `None` while the store does not answer.
pub(super) async fn snapshot(office: &Office) -> Option<String> {
    serde_json::to_string(&stats(office).await.ok()?).ok()
}

async fn stats(office: &Office) -> Answer<StatsOut> {
    let stats = office.store.stats().await?;
    Ok(StatsOut {
        letters: Counts(stats.letters),
        groups: stats.groups,
        unowned: stats.unowned,
        unindexed: stats.unindexed,
        sources: stats.sources.into_iter().map(SourceOut::from).collect(),
        captures: office.capture_status(),
    })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CauseParams {
    source: Option<String>,
}

#[derive(Serialize)]
struct CausesOut {
    causes: Vec<CauseCount>,
}

pub(crate) async fn causes(
    State(office): State<Arc<Office>>,
    Params(params): Params<CauseParams>,
) -> Answer<Response> {
    Ok(Json(CausesOut { causes: office.shown().causes(params.source.as_deref()).await? }).into_response())
}

#[derive(Serialize)]
struct AgesOut {
    /// When it was counted; `None` shortly after a start.
    at: Option<Timestamp>,
    ages: Vec<AgeOut>,
}

#[derive(Serialize)]
struct AgeOut {
    /// `None`: older than all.
    younger_than_seconds: Option<u64>,
    count: u64,
}

/// How old open letters are, as it was counted last.
pub(crate) async fn ages(State(office): State<Arc<Office>>) -> Answer<Response> {
    let known = office.triage.ages();
    let ages = known.iter().flat_map(|known| &known.counts).map(|age| AgeOut {
        younger_than_seconds: age.younger_than.map(|age| age.as_secs()),
        count: age.count,
    });
    Ok(Json(AgesOut { at: known.as_ref().map(|known| known.at), ages: ages.collect() }).into_response())
}

/// While the store does not answer, the counts of letters are left out. The gauge of troubles must be readable then.
pub(crate) async fn metrics(State(office): State<Arc<Office>>) -> Response {
    let stats = match office.health.unready() {
        Some(_) => None,
        None => office.store.stats().await.ok(),
    };
    let (captures, troubles) = (office.capture_status(), office.troubles());
    let page = office.metrics.render(stats.as_ref(), &captures, &troubles, office.now());
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], page).into_response()
}
