//! Merging groups that have one cause after all, and taking one out again. Both are remembered.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use dlo_core::id::GroupId;
use dlo_store::Page;
use serde::Deserialize;

use super::GroupOut;
use super::change::deed;
use crate::api::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::{Author, Id};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct MergeIn {
    /// The groups that are merged into the one of the path.
    groups: Vec<GroupId>,
    reason: Option<String>,
}

pub(crate) async fn merge(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<GroupId>,
    request: Request<Body>,
) -> Answer<Response> {
    let asked: MergeIn = body::json(request, &office).await?;
    if asked.groups.is_empty() || asked.groups.len() > Page::MOST {
        let detail = format!("`groups` names 1 to {} groups to merge into this one", Page::MOST);
        return Err(Problem::unprocessable("bad_ids", detail).field("groups"));
    }
    let deed = deed(author, asked.reason)?;
    let mut head = office.store.merge_groups(id, &asked.groups, &deed, office.now()).await?;
    office.mask.groups(std::slice::from_mut(&mut head));
    Ok(Json(GroupOut::new(&head)).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SplitIn {
    reason: Option<String>,
}

/// The group of the path leaves the one it was merged into.
pub(crate) async fn split(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<GroupId>,
    request: Request<Body>,
) -> Answer<Response> {
    let asked: SplitIn = body::json_or_nothing(request, &office).await?.unwrap_or_default();
    let deed = deed(author, asked.reason)?;
    let mut group = office.store.split_group(id, &deed, office.now()).await?;
    office.mask.groups(std::slice::from_mut(&mut group));
    Ok(Json(GroupOut::new(&group)).into_response())
}
