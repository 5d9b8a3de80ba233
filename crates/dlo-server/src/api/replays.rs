//! Replays: plan, look, steer. The work itself is done by the office's replay desk (`crate::replay`), which is rung here.
//!
//! A plan is written at once and sends nothing; what it would do is in its answer. Starting, pausing, resuming and
//! cancelling move the stored replay, and whoever has it in hand obeys the record.

mod consumers;
mod doubts;
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
use crate::replay::differences;

pub(crate) use consumers::hear;
pub(crate) use doubts::{doubts, settle};
pub(crate) use out::ReplayOut;
pub(crate) use plan::plan;
pub(crate) use receipts::receive;
pub(crate) use steer::{adjust, approve, cancel, pause, resume, start};

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
    let found = office.shown().replays(state, &page(params.limit, params.cursor)?).await?;
    let replays = found.replays.iter().map(|replay| ReplayOut::new(replay, &[], &office.replays)).collect();
    Ok(Json(ReplaysOut { replays, next_cursor: found.next.as_ref() }).into_response())
}

pub(crate) async fn show(State(office): State<Arc<Office>>, Id(id): Id<ReplayId>) -> Answer<Response> {
    let replay = office.shown().replay(id).await?;
    let children = office.shown().children(id).await?;
    let mut out = ReplayOut::new(&replay, &children, &office.replays);
    if matches!(replay.state, ReplayState::Planned | ReplayState::AwaitingApproval) {
        out.differs(differences(&office, &replay, &children).await?);
    }
    if children.is_empty() {
        let usual = match office.replays.standing(id).filter(|standing| standing.runs) {
            Some(standing) => standing.usual,
            None => office.store.usual_death(id).await?,
        };
        out.waits_for_outcomes(window(&replay.settings, usual));
    }
    Ok(Json(out).into_response())
}

pub(crate) async fn items(
    State(office): State<Arc<Office>>,
    Id(id): Id<ReplayId>,
    Params(params): Params<ListParams>,
) -> Answer<Response> {
    let state = params.state.as_deref().map(word::<ItemState>).transpose()?;
    office.shown().replay(id).await?;
    let found = office.shown().items(id, state, &page(params.limit, params.cursor)?).await?;
    let items = found.items.iter().map(|item| out::ItemOut::new(id, item)).collect();
    Ok(Json(ItemsOut { items, next_cursor: found.next.as_ref() }).into_response())
}

/// A state by its word, or a refusal that names the known ones.
fn word<T: std::str::FromStr<Err = dlo_core::UnknownCode>>(text: &str) -> Answer<T> {
    text.parse().map_err(|unknown: dlo_core::UnknownCode| {
        Problem::bad_request("bad_parameter", unknown.to_string()).field("state")
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::admit::tests::admitted;
    use crate::replay::Standing;

    async fn window_of(office: &Arc<Office>, id: ReplayId) -> serde_json::Value {
        let answer = show(State(Arc::clone(office)), Id(id)).await.unwrap();
        let body = axum::body::to_bytes(answer.into_body(), usize::MAX).await.unwrap();
        serde_json::from_slice::<serde_json::Value>(&body).unwrap()["outcome_window"].take()
    }

    #[tokio::test]
    async fn the_window_of_a_replay_in_hand_is_the_one_that_its_run_goes_by() {
        let directory = tempfile::tempdir().unwrap();
        let office = Office::in_directory(directory.path());
        let letters = vec![admitted(r#"{"source":"orders","payload":1}"#); 3];
        let id = crate::replay::testing::plan(&office, letters).await;
        assert_eq!(window_of(&office, id).await, "30s");
        let usual = Some(Duration::from_secs(2_400));
        let standing = |runs| Standing { runs, waits: None, stalled: None, source: None, rate: None, usual };
        office.replays.stands(id, standing(true));
        assert_eq!(window_of(&office, id).await, "40m");
        // Whoever cannot run it knows nothing of its letters.
        office.replays.stands(id, standing(false));
        assert_eq!(window_of(&office, id).await, "30s");
    }
}
