//! Replays: plan, look, steer. The work itself is done by the office's replay desk (`crate::replay`), which is rung here.
//!
//! A plan is written at once and sends nothing; what it would do is in its answer. Starting, pausing, resuming and
//! cancelling move the stored replay, and whoever has it in hand obeys the record.

mod consumers;
mod out;
mod plan;
mod receipts;
mod steer;

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dlo_core::id::ReplayId;
use dlo_core::replay::run::window;
use dlo_core::replay::{ItemState, ReplayState};
use serde::{Deserialize, Serialize};

use super::error::{Answer, Problem};
use crate::office::Office;
use crate::query_text::{Id, Params, page};

pub(crate) use consumers::hear;
pub(crate) use out::ReplayOut;
pub(crate) use plan::plan;
pub(crate) use receipts::receive;
pub(crate) use steer::{adjust, approve, cancel, pause, resume, settle, start};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListParams {
    state: Option<String>,
    limit: Option<usize>,
    cursor: Option<String>,
}

#[derive(Serialize)]
struct ReplaysOut<'a> {
    replays: Vec<ReplayOut<'a>>,
    next_cursor: Option<&'a dlo_store::Cursor>,
}

#[derive(Serialize)]
struct ItemsOut<'a> {
    items: Vec<out::ItemOut>,
    next_cursor: Option<&'a dlo_store::Cursor>,
}

pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    Params(params): Params<ListParams>,
) -> Answer<Response> {
    let state = params.state.as_deref().map(word::<ReplayState>).transpose()?;
    let found = office.store.replays(state, &page(params.limit, params.cursor)?).await?;
    let replays = found.replays.iter().map(|replay| ReplayOut::new(replay, &[], &office.replays)).collect();
    Ok(Json(ReplaysOut { replays, next_cursor: found.next.as_ref() }).into_response())
}

pub(crate) async fn show(State(office): State<Arc<Office>>, Id(id): Id<ReplayId>) -> Answer<Response> {
    let replay = office.store.replay(id).await?;
    let children = office.store.children(id).await?;
    let mut out = ReplayOut::new(&replay, &children, &office.replays);
    if children.is_empty() {
        out.waits_for_outcomes(window(&replay.settings, office.store.usual_death(id).await?));
    }
    Ok(Json(out).into_response())
}

pub(crate) async fn items(
    State(office): State<Arc<Office>>,
    Id(id): Id<ReplayId>,
    Params(params): Params<ListParams>,
) -> Answer<Response> {
    let state = params.state.as_deref().map(word::<ItemState>).transpose()?;
    office.store.replay(id).await?;
    let found = office.store.items(id, state, &page(params.limit, params.cursor)?).await?;
    let items = found.items.iter().map(|item| out::ItemOut::new(id, item)).collect();
    Ok(Json(ItemsOut { items, next_cursor: found.next.as_ref() }).into_response())
}

/// A state by its word, or a refusal that names the known ones.
fn word<T: std::str::FromStr<Err = dlo_core::UnknownCode>>(text: &str) -> Answer<T> {
    text.parse().map_err(|unknown: dlo_core::UnknownCode| {
        Problem::bad_request("bad_parameter", unknown.to_string()).field("state")
    })
}
