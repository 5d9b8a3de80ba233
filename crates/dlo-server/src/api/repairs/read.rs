//! `GET /api/v1/letters/{id}/repairs`: what stands beside a letter, each as its difference to the original.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use dlo_core::id::LetterId;
use dlo_core::time::Timestamp;
use dlo_store::Repair;
use serde::Serialize;

use super::Change;
use super::letters::{Opened, one, outlooks};
use crate::api::error::{Answer, Problem};
use crate::office::Office;
use crate::query_text::{Author, Id};
use crate::repair::{Outlook, difference};

#[derive(Serialize)]
struct RepairsOut {
    repairs: Vec<RepairOut>,
}

#[derive(Serialize)]
struct RepairOut {
    number: u32,
    /// Whether a replay sends this one.
    active: bool,
    at: Timestamp,
    author: String,
    reason: Option<String>,
    /// `None`: edited by hand.
    expression: Option<String>,
    /// `None`: it may depend on masked values.
    payload_size: Option<usize>,
    diff: String,
}

/// A difference shows payload: reading it is audited as reading the payload is.
pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    Id(id): Id<LetterId>,
    author: Author,
) -> Answer<Response> {
    let repairs = office.store.repairs(id).await?;
    let looks = (!repairs.is_empty()).then(|| author.looks());
    let opened = one(&office, id, looks.as_ref()).await?;
    let shown = shown_repairs(&office, opened, repairs).await?;
    let out = shown.into_iter().map(|Shown { repair, diff, is_masked }| RepairOut {
        number: repair.number,
        active: repair.active,
        at: repair.at,
        author: repair.author,
        reason: repair.reason,
        payload_size: (!is_masked).then_some(repair.message.payload.0.len()),
        expression: repair.expression,
        diff,
    });
    Ok(Json(RepairsOut { repairs: out.collect() }).into_response())
}

/// A repair with its texts masked, and what it changes.
pub(crate) struct Shown {
    pub(crate) repair: Repair,
    pub(crate) diff: String,
    /// It may depend on masked values, so its message and the size of that are not shown.
    pub(crate) is_masked: bool,
}

/// What each repair of a letter changes, as far as it may be shown.
pub(crate) async fn shown_repairs(
    office: &Arc<Office>,
    opened: Opened,
    repairs: Vec<Repair>,
) -> Answer<Vec<Shown>> {
    let letters = [opened];
    let is_masked = letters[0].masking(office).is_some();
    let mut afters = Vec::with_capacity(repairs.len());
    for repair in repairs {
        // An expression was run over the captured message, so running it again over copies gives the same.
        let expression = repair.expression.clone().filter(|_| is_masked && !repair.is_as_captured());
        let outlook = match expression {
            // Without a worker the letter is shown all the same, and the difference is not.
            Some(expression) => match outlooks(office, &Change::Expression(expression), &letters).await {
                Ok(mut outlooks) => outlooks.pop().flatten(),
                Err(_) => Some(Outlook::Failed(HIDDEN.to_owned())),
            },
            None => None,
        };
        afters.push((repair, outlook));
    }
    let [opened] = letters;
    let office = Arc::clone(office);
    // Messages may be large: comparing them has a thread of its own.
    let compare = move || -> Vec<Shown> {
        let mut before = opened.message;
        office.mask.message(&mut before);
        let shown = |(mut repair, outlook): (Repair, Option<Outlook>)| {
            let is_masked = outlook.is_some();
            let diff = match outlook {
                None => {
                    let mut after = repair.message.clone();
                    office.mask.message(&mut after);
                    difference(&before, &after)
                }
                Some(Outlook::Changed { after, .. }) => difference(&before, &after),
                Some(Outlook::Same | Outlook::Failed(_)) => HIDDEN.to_owned(),
            };
            repair.reason = office.mask.over(repair.reason);
            repair.expression = office.mask.over(repair.expression);
            Shown { repair, diff, is_masked }
        };
        afters.into_iter().map(shown).collect()
    };
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed");
    tokio::task::spawn_blocking(compare).await.map_err(failed)
}

/// Shown for a repair whose effect depends on masked values.
const HIDDEN: &str = "*** (what it changes depends on masked values)\n";
