//! Saved views: a list with a name, one's own or everybody's. And how many groups wait in those that everybody has.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, Uri};
use axum::response::{IntoResponse, Response};
use dlo_core::group::GroupStatus;
use dlo_core::limits;
use dlo_core::view::{View, ViewOf};
use dlo_store::triage::NewView;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::error::{Answer, Problem};
use super::groups::named;
use crate::body;
use crate::office::Office;
use crate::query_text::{self, Author, Params};
use crate::ui::groups::GroupParams;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ViewIn {
    name: String,
    of: ViewOf,
    query: String,
    /// For everybody; else the author's own.
    #[serde(default)]
    shared: bool,
}

#[derive(Debug, Serialize)]
struct ViewsOut {
    views: Vec<View>,
    /// Groups that have open letters.
    groups: Map<String, Value>,
}

/// Shared views and the author's own; with how many groups stand where.
pub(crate) async fn list(State(office): State<Arc<Office>>, author: Author) -> Answer<Response> {
    let views = office.shown().views(Some(&author.0)).await?;
    let tally = office.store.tally_groups(Some(&author.0)).await?;
    let mut groups: Map<String, Value> = GroupStatus::ALL
        .iter()
        .map(|status| (status.as_str().to_string(), json!(tally.get(*status))))
        .collect();
    for (name, count) in [("total", tally.total()), ("unowned", tally.unowned), ("mine", tally.mine)] {
        groups.insert(name.into(), json!(count));
    }
    Ok(Json(ViewsOut { views, groups }).into_response())
}

pub(crate) async fn save(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    let view: ViewIn = body::json(request, &office).await?;
    named("name", &view.name)?;
    match view.of {
        ViewOf::Letters => drop(query_text::query(&view.query, &office)?),
        ViewOf::Groups if view.query.len() > limits::QUERY => {
            let detail = format!("`query` has at most {} bytes", limits::QUERY);
            return Err(Problem::unprocessable("bad_query", detail).field("query"));
        }
        ViewOf::Groups => listed(&view.query)?,
    }
    let owner = (!view.shared).then(|| author.0.clone());
    let view = NewView { name: view.name, of: view.of, query: view.query, owner };
    Ok(Json(office.shown().save_view(&view, &author.looks(), office.now()).await?).into_response())
}

/// Refuses what the list of groups would refuse when somebody follows the view.
fn listed(query: &str) -> Answer<()> {
    let address: Uri = format!("/groups?{query}").parse().map_err(|_| {
        Problem::unprocessable("bad_query", "`query` is no part of an address; write spaces as %20")
            .field("query")
    })?;
    Params::<GroupParams>::of(&address)
        .map(drop)
        .map_err(|problem| Problem::unprocessable("bad_query", problem.detail()).field("query"))
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RemoveIn {
    name: String,
    of: ViewOf,
    #[serde(default)]
    shared: bool,
}

pub(crate) async fn remove(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    let asked: RemoveIn = body::json(request, &office).await?;
    let owner = (!asked.shared).then(|| author.0.clone());
    let removed = office
        .store
        .remove_view(&asked.name, asked.of, owner.as_deref(), &author.looks(), office.now())
        .await?;
    Ok(Json(json!({ "removed": removed })).into_response())
}
