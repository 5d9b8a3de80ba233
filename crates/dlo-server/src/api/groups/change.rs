//! The life of groups: acknowledge, fix, resolve, snooze, ignore, reopen, assign, own. One group, or many at once.
//!
//! The body of a change has its own fields and an optional `reason`; a change without fields needs no body. Everything can
//! be taken back by another change, so that nothing here asks twice.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use dlo_core::group::{Change, GroupStatus};
use dlo_core::id::GroupId;
use dlo_core::limits;
use dlo_core::time::Timestamp;
use dlo_core::units::HumanDuration;
use dlo_store::triage::Changed;
use dlo_store::{Deed, Page};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::GroupOut;
use crate::api::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::{self, Author, Id};

macro_rules! changes {
    ($($name:ident)+) => { $(
        pub(crate) async fn $name(
            State(office): State<Arc<Office>>,
            author: Author,
            Id(id): Id<GroupId>,
            request: Request<Body>,
        ) -> Answer<Response> {
            one(&office, author, id, stringify!($name), request).await
        }
    )+ };
}

changes! { acknowledge fix resolve snooze ignore reopen assign own }

async fn one(
    office: &Office,
    author: Author,
    id: GroupId,
    what: &str,
    request: Request<Body>,
) -> Answer<Response> {
    let mut body = body::json_or_nothing::<Map<String, Value>>(request, office).await?.unwrap_or_default();
    let reason = match body.remove("reason") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) => Some(text),
        Some(_) => return Err(Problem::unprocessable("bad_body", "`reason` is text").field("reason")),
    };
    body.insert("do".into(), Value::String(what.into()));
    let change = read(Value::Object(body), office.now())?;
    let deed = deed(author, reason)?;
    let changed = office.shown().change_groups(&[id], &change, &deed, office.now()).await?.pop();
    match changed {
        Some(Changed::Changed(group)) => {
            after(office, &change).await?;
            Ok(Json(GroupOut::new(&group)).into_response())
        }
        Some(Changed::Illegal { why, .. }) => Err(Problem::new(
            StatusCode::CONFLICT,
            "illegal_change",
            format!("the group stays as it is: {why}"),
        )),
        Some(Changed::Missing) | None => Err(dlo_store::StoreError::NoGroup(id).into()),
    }
}

/// A group that was given back to the rules gets its owner by them.
async fn after(office: &Office, change: &Change) -> Answer<()> {
    match change {
        Change::Own { team: None } => Ok(office.assign_owners().await?),
        _ => Ok(()),
    }
}

/// When a snooze ends may be said as a time, or as how long from now: `2h`, `3d`.
fn wakes(body: &mut Value, now: Timestamp) -> Answer<()> {
    let Some(until) = body.get_mut("until") else { return Ok(()) };
    let Some(text) = until.as_str().map(str::trim) else { return Ok(()) };
    let at = Timestamp::parse(text).ok().or_else(|| Some(now.plus(text.parse::<HumanDuration>().ok()?.0)));
    let detail = "`until` is a time such as 2026-12-01T09:00:00Z or 2026-12-01, or how long from now: 2h, 3d";
    let at = at.ok_or_else(|| Problem::unprocessable("bad_change", detail).field("until"))?;
    *until = Value::String(at.to_string());
    Ok(())
}

fn read(mut body: Value, now: Timestamp) -> Answer<Change> {
    wakes(&mut body, now)?;
    let refused = |detail: String| Problem::unprocessable("bad_change", detail);
    let given = body.as_object().map_or(0, Map::len);
    let change: Change = serde_json::from_value(body)
        .map_err(|error| refused(format!("{error}; see `do` and its fields in the description")))?;
    let plain = matches!(change, Change::Acknowledge | Change::Fix | Change::Ignore | Change::Reopen);
    if plain && given > 1 {
        return Err(refused("this change has no fields but `reason`".into()));
    }
    let name = match &change {
        Change::Resolve { in_version } => in_version.as_ref().map(|text| ("in_version", text)),
        Change::Assign { to } => to.as_ref().map(|text| ("to", text)),
        Change::Own { team } => team.as_ref().map(|text| ("team", text)),
        Change::Acknowledge | Change::Fix | Change::Snooze { .. } | Change::Ignore | Change::Reopen => None,
    };
    match name {
        Some((field, text)) => named(field, text).map(|()| change),
        None => Ok(change),
    }
}

/// A name that a person gives: not empty, not endless, nothing that a terminal would obey.
pub(in crate::api) fn named(field: &'static str, text: &str) -> Answer<()> {
    if !query_text::is_name(text) {
        let detail = format!("`{field}` is a name of 1 to {} characters", limits::NAME);
        return Err(Problem::unprocessable("bad_name", detail).field(field));
    }
    Ok(())
}

pub(super) fn deed(author: Author, reason: Option<String>) -> Answer<Deed> {
    Ok(Deed { author: author.0, reason: query_text::note("reason", reason)?, reference: None })
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ManyIn {
    ids: Vec<GroupId>,
    change: Value,
    reason: Option<String>,
}

#[derive(Debug, Serialize)]
struct ManyOut {
    changed: usize,
    /// In the order of the ids.
    results: Vec<OneOut>,
}

#[derive(Debug, Serialize)]
struct OneOut {
    id: GroupId,
    result: &'static str,
    status: Option<GroupStatus>,
    detail: Option<String>,
}

impl OneOut {
    fn new(id: GroupId, changed: &Changed) -> Self {
        let (result, status, detail) = match changed {
            Changed::Changed(group) => ("changed", Some(group.life.status), None),
            Changed::Illegal { status, why } => ("illegal", Some(*status), Some(why.to_string())),
            Changed::Missing => ("missing", None, None),
        };
        Self { id, result, status, detail }
    }
}

/// One change for many groups. Each stands for itself.
pub(crate) async fn many(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    let asked: ManyIn = body::json(request, &office).await?;
    if asked.ids.is_empty() || asked.ids.len() > Page::MOST {
        let detail = format!("`ids` names 1 to {} groups, found {}", Page::MOST, asked.ids.len());
        return Err(Problem::unprocessable("bad_ids", detail).field("ids"));
    }
    let change = read(asked.change, office.now())?;
    let deed = deed(author, asked.reason)?;
    let changed = office.shown().change_groups(&asked.ids, &change, &deed, office.now()).await?;
    after(&office, &change).await?;
    let results: Vec<OneOut> =
        asked.ids.iter().zip(&changed).map(|(id, changed)| OneOut::new(*id, changed)).collect();
    let changed = results.iter().filter(|one| one.result == "changed").count();
    Ok(Json(ManyOut { changed, results }).into_response())
}
