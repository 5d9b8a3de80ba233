//! Merging groups that have one cause after all, and taking one out again; splitting one that has two causes, by a
//! condition, and joining it again. All of it is remembered.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use dlo_core::group::{Condition, ConditionError};
use dlo_core::id::GroupId;
use dlo_store::Page;
use dlo_store::triage::NewSplit;
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
    #[serde(default)]
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
    let head = office.shown().merge_groups(id, &asked.groups, &deed, office.now()).await?;
    Ok(Json(GroupOut::new(&head)).into_response())
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SplitIn {
    /// A condition: the letters of the group that match become a group of their own.
    #[serde(rename = "where")]
    condition: Option<String>,
    /// What that group is called.
    title: Option<String>,
    reason: Option<String>,
}

/// With a condition, letters leave the group of the path; without one, the group leaves the one it was merged into.
pub(crate) async fn split(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<GroupId>,
    request: Request<Body>,
) -> Answer<Response> {
    let asked: SplitIn = body::json_or_nothing(request, &office).await?.unwrap_or_default();
    let deed = deed(author, asked.reason)?;
    let group = match asked.condition {
        Some(condition) => {
            let parsed = Condition::parse(&condition).map_err(|bad| refused(&condition, &bad))?;
            if let Some(why) = office.mask.forbids(&parsed) {
                return Err(Problem::unprocessable("masked_value", why).field("where"));
            }
            let condition = parsed;
            let split = NewSplit { condition, title: asked.title };
            let made = office.shown().split_by(id, &split, &deed, office.now()).await?;
            office.triage.split_made();
            made
        }
        None => office.shown().split_group(id, &deed, office.now()).await?,
    };
    Ok(Json(GroupOut::new(&group)).into_response())
}

/// What is wrong with a condition, pointing at the place where it is a query that has no meaning.
fn refused(condition: &str, bad: &ConditionError) -> Problem {
    let detail = match bad {
        ConditionError::Query(error) => error.pointing(condition.trim()),
        ConditionError::Empty | ConditionError::TooLong { .. } | ConditionError::Unsteady { .. } => {
            bad.to_string()
        }
    };
    Problem::unprocessable("bad_condition", detail).field("where")
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct UnsplitIn {
    reason: Option<String>,
}

/// The condition that made the group of the path is forgotten, and its letters are those of the group it came from again.
pub(crate) async fn unsplit(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<GroupId>,
    request: Request<Body>,
) -> Answer<Response> {
    let asked: UnsplitIn = body::json_or_nothing(request, &office).await?.unwrap_or_default();
    let deed = deed(author, asked.reason)?;
    let group = office.shown().unsplit(id, &deed, office.now()).await?;
    Ok(Json(GroupOut::new(&group)).into_response())
}
