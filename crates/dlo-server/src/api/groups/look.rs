//! Looking closer: the trend of a group, the trend of everything by class, a sample of a group's letters.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dlo_core::deploy::Deploy;
use dlo_core::id::GroupId;
use dlo_core::limits;
use dlo_core::time::Timestamp;
use dlo_core::trend::{Resolution, Window};
use dlo_store::Page;
use dlo_store::triage::ClassTrend;
use serde::{Deserialize, Serialize};

use super::{bad_parameter, known};
use crate::api::error::Answer;
use crate::office::Office;
use crate::query_text::{Author, Id, Params};
use crate::triage;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrendParams {
    /// `minute`, `hour` (the default) or `day`.
    resolution: Option<String>,
    buckets: Option<usize>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ClassParams {
    source: Option<String>,
    resolution: Option<String>,
    buckets: Option<usize>,
}

fn window(resolution: Option<&str>, buckets: Option<usize>, now: Timestamp) -> Answer<Window> {
    let resolution = resolution.map_or(Ok(Resolution::Hour), |word| known("resolution", word))?;
    let usual = match resolution {
        Resolution::Minute => 60,
        Resolution::Hour => 24,
        Resolution::Day => 30,
    };
    let buckets = buckets.unwrap_or(usual);
    let kept = resolution.kept() as usize;
    if !(1..=kept).contains(&buckets) {
        let detail = format!("`buckets` is 1 to {kept} for this resolution, found {buckets}");
        return Err(bad_parameter("buckets", detail));
    }
    Ok(Window::until(now, resolution, buckets))
}

/// Where the buckets lie: the first begins at `from`, each is `seconds` wide, the last is still being filled.
#[derive(Debug, Serialize)]
struct WindowOut {
    resolution: Resolution,
    from: Timestamp,
    seconds: i64,
    buckets: usize,
}

impl From<Window> for WindowOut {
    fn from(window: Window) -> Self {
        Self {
            resolution: window.resolution,
            from: window.begins(),
            seconds: window.resolution.seconds(),
            buckets: window.buckets,
        }
    }
}

#[derive(Debug, Serialize)]
struct TrendOut {
    #[serde(flatten)]
    window: WindowOut,
    counts: Vec<u64>,
    /// Deployments within, newest first.
    deploys: Vec<Deploy>,
}

pub(crate) async fn trend(
    State(office): State<Arc<Office>>,
    Id(id): Id<GroupId>,
    Params(params): Params<TrendParams>,
) -> Answer<Response> {
    let window = window(params.resolution.as_deref(), params.buckets, office.now())?;
    office.shown().group(id).await?;
    let counts = office.store.trends(&[id], window).await?.pop().unwrap_or_default();
    let deploys = office.shown().deploys(Some(window.begins()), None, Page::MOST).await?;
    Ok(Json(TrendOut { window: window.into(), counts, deploys }).into_response())
}

#[derive(Debug, Serialize)]
struct ClassesOut {
    #[serde(flatten)]
    window: WindowOut,
    /// The most frequent first; behind the first dozen the others together.
    classes: Vec<ClassTrend>,
    deploys: Vec<Deploy>,
}

pub(crate) async fn by_class(
    State(office): State<Arc<Office>>,
    Params(params): Params<ClassParams>,
) -> Answer<Response> {
    let window = window(params.resolution.as_deref(), params.buckets, office.now())?;
    let classes = office.shown().trend_by_class(params.source.as_deref(), window).await?;
    let deploys = office.shown().deploys(Some(window.begins()), None, Page::MOST).await?;
    Ok(Json(ClassesOut { window: window.into(), classes, deploys }).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SampleParams {
    letters: Option<usize>,
}

/// What the newest letters have in common. Payloads are read for it, which is audited.
pub(crate) async fn sample(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<GroupId>,
    Params(params): Params<SampleParams>,
) -> Answer<Response> {
    let letters = params.letters.unwrap_or(100);
    if !(1..=limits::SAMPLE).contains(&letters) {
        return Err(bad_parameter("letters", format!("`letters` is 1 to {}", limits::SAMPLE)));
    }
    Ok(Json(triage::sample(&office, id, letters, &author.looks()).await?).into_response())
}
