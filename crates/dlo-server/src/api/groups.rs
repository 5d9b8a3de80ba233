//! Groups: letters with one cause.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dlo_core::id::GroupId;
use dlo_core::letter::Status;
use dlo_store::GroupFilter;
use serde::{Deserialize, Serialize};

use super::dto::GroupOut;
use super::error::{Answer, Problem};
use crate::office::Office;
use crate::query_text::{Id, Params, page};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupParams {
    source: Option<String>,
    event_type: Option<String>,
    error_class: Option<String>,
    consumer: Option<String>,
    /// `none`: those that no team owns.
    owner: Option<String>,
    /// Only groups that have letters there.
    holding: Option<String>,
    limit: Option<usize>,
    pub(crate) cursor: Option<String>,
}

impl GroupParams {
    fn filter(&self) -> Answer<GroupFilter> {
        let holding = self.holding.as_deref().map(str::parse::<Status>).transpose();
        let owner = self.owner.clone().map(|owner| Some(owner).filter(|owner| owner != "none"));
        Ok(GroupFilter {
            source: self.source.clone(),
            event_type: self.event_type.clone(),
            error_class: self.error_class.clone(),
            consumer: self.consumer.clone(),
            owner,
            holding: holding.map_err(|unknown| {
                Problem::bad_request("bad_parameter", unknown.to_string()).field("holding")
            })?,
            ..GroupFilter::default()
        })
    }
}

#[derive(Serialize)]
struct GroupsOut<'a> {
    groups: Vec<GroupOut<'a>>,
    next_cursor: Option<&'a dlo_store::Cursor>,
}

pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    Params(params): Params<GroupParams>,
) -> Answer<Response> {
    let filter = params.filter()?;
    let mut found = office.store.groups(&filter, &page(params.limit, params.cursor)?).await?;
    office.mask.groups(&mut found.groups);
    let groups = found.groups.iter().map(GroupOut::new).collect();
    Ok(Json(GroupsOut { groups, next_cursor: found.next.as_ref() }).into_response())
}

pub(crate) async fn show(State(office): State<Arc<Office>>, Id(id): Id<GroupId>) -> Answer<Response> {
    let mut group = office.store.group(id).await?;
    office.mask.groups(std::slice::from_mut(&mut group));
    Ok(Json(GroupOut::new(&group)).into_response())
}
