//! Groups: letters with one cause. Listed and shown here; what people do with them stands in the files beside.
//!
//! `change.rs` is the life cycle, one group or many at once; `beside.rs` notes, links and the runbook; `family.rs` merging
//! and splitting; `look.rs` trends and samples; `out.rs` a group as JSON.

mod beside;
mod change;
mod family;
mod look;
mod out;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dlo_core::group::GroupStatus;
use dlo_core::id::GroupId;
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;
use dlo_store::GroupFilter;
use serde::{Deserialize, Serialize};

use super::error::{Answer, Problem};
use crate::office::Office;
use crate::query_text::{Author, Id, Params, page};
use crate::triage;

pub(crate) use beside::{add_link, add_note, remove_link, runbook, write_runbook};
pub(in crate::api) use change::named;
pub(crate) use change::{acknowledge, assign, fix, ignore, many, own, reopen, resolve, snooze};
pub(crate) use family::{merge, split, unsplit};
pub(crate) use look::{by_class, sample, trend};
pub(crate) use out::GroupOut;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GroupParams {
    source: Option<String>,
    event_type: Option<String>,
    error_class: Option<String>,
    consumer: Option<String>,
    /// `none`: those that no team owns.
    owner: Option<String>,
    /// `none`: those that nobody has in hand; `me`: the author's.
    assignee: Option<String>,
    /// Only groups that have letters there.
    holding: Option<String>,
    /// Only groups of which every letter has ended.
    #[serde(default)]
    handled: bool,
    /// Several are joined by commas.
    status: Option<String>,
    text: Option<String>,
    /// Only groups with an open letter that failed before.
    open_since: Option<String>,
    order: Option<String>,
    limit: Option<usize>,
    pub(crate) cursor: Option<String>,
}

impl GroupParams {
    /// What is asked for, by whom.
    pub(crate) fn filter(&self, author: &Author) -> Answer<GroupFilter> {
        let none = |name: &Option<String>| name.clone().map(|name| Some(name).filter(|name| name != "none"));
        let mine = |name: Option<String>| name.map(|name| if name == "me" { author.0.clone() } else { name });
        let statuses = self.status.as_deref().into_iter().flat_map(|words| words.split(','));
        let open_since = self.open_since.as_deref().map(Timestamp::parse).transpose();
        Ok(GroupFilter {
            source: self.source.clone(),
            event_type: self.event_type.clone(),
            error_class: self.error_class.clone(),
            consumer: self.consumer.clone(),
            owner: none(&self.owner),
            assignee: none(&self.assignee).map(mine),
            holding: self.holding.as_deref().map(|word| known::<Status>("holding", word)).transpose()?,
            handled: self.handled,
            statuses: statuses.map(|word| known::<GroupStatus>("status", word)).collect::<Answer<_>>()?,
            text: self.text.clone().filter(|text| !text.trim().is_empty()),
            open_since: open_since.map_err(|bad| bad_parameter("open_since", bad.to_string()))?,
            shown_by: None,
            order: self.order.as_deref().map(|word| known("order", word)).transpose()?.unwrap_or_default(),
        })
    }
}

fn known<T: std::str::FromStr<Err = dlo_core::UnknownCode>>(field: &'static str, word: &str) -> Answer<T> {
    word.trim().parse().map_err(|unknown: dlo_core::UnknownCode| bad_parameter(field, unknown.to_string()))
}

fn bad_parameter(field: &'static str, detail: impl Into<String>) -> Problem {
    Problem::bad_request("bad_parameter", detail).field(field)
}

#[derive(Serialize)]
struct GroupsOut<'a> {
    groups: Vec<GroupOut<'a>>,
    next_cursor: Option<&'a dlo_store::Cursor>,
}

pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    author: Author,
    Params(params): Params<GroupParams>,
) -> Answer<Response> {
    let filter = params.filter(&author)?;
    let found = office.shown().groups(&filter, &page(params.limit, params.cursor)?).await?;
    let groups = found.groups.iter().map(GroupOut::new).collect();
    Ok(Json(GroupsOut { groups, next_cursor: found.next.as_ref() }).into_response())
}

pub(crate) async fn show(State(office): State<Arc<Office>>, Id(id): Id<GroupId>) -> Answer<Response> {
    let whole = triage::whole(&office, id).await?;
    Ok(Json(out::WholeOut::new(&whole)).into_response())
}
