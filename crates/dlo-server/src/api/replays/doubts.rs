//! Letters in doubt: the evidence around them, and a person's decision on all of them or on some.
//!
//! A decision is written page by page, each page in one transaction with an audit row for each letter. Repeated, it finds
//! nothing left to change.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::ItemState;
use dlo_store::replays::Settling;
use dlo_store::{Deed, Page};
use serde::{Deserialize, Serialize};

use crate::api::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::{self, Author, Id};
use crate::replay::{Evidence, evidence};

#[derive(Serialize)]
struct DoubtsOut {
    in_doubt: u64,
    /// One for each part of the replay that has letters in doubt.
    evidence: Vec<Evidence>,
}

pub(crate) async fn doubts(State(office): State<Arc<Office>>, Id(id): Id<ReplayId>) -> Answer<Response> {
    let evidence = evidence(&office, id).await?;
    let in_doubt = evidence.iter().map(|part| part.in_doubt).sum();
    Ok(Json(DoubtsOut { in_doubt, evidence }).into_response())
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settle {
    outcome: Outcome,
    /// Which of them; all that are in doubt, if not said.
    letters: Option<BTreeSet<LetterId>>,
    reason: Option<String>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    /// It was handled.
    Recovered,
    /// It was sent; the replay waits for its outcome.
    Sent,
    /// It was not sent, or not handled, and is anybody's again.
    Open,
    /// It was not sent, and this replay sends it.
    Again,
}

pub(crate) async fn settle(
    State(office): State<Arc<Office>>,
    Author(author): Author,
    Id(id): Id<ReplayId>,
    request: Request<Body>,
) -> Answer<Response> {
    let asked: Settle = body::json(request, &office).await?;
    let reason = query_text::note("reason", asked.reason)?.ok_or_else(|| {
        Problem::unprocessable("no_reason", "say how it was found out; the audit log keeps it")
            .field("reason")
    })?;
    let how = match asked.outcome {
        Outcome::Recovered => Settling::Recovered,
        Outcome::Sent => Settling::FoundSent,
        Outcome::Open => Settling::Open,
        Outcome::Again => Settling::FoundUnsent,
    };
    let deed = Deed { author, reason: Some(reason), reference: None };
    office.store.replay(id).await?;
    let mut settled = 0;
    let parts = office.store.children(id).await?;
    let ids = if parts.is_empty() { vec![id] } else { parts.iter().map(|part| part.id).collect() };
    for part in ids {
        settled += settle_part(&office, part, asked.letters.as_ref(), how, &deed).await?;
    }
    office.replays.ring();
    let in_doubt = office.store.replay(id).await?.counts.get(ItemState::InDoubt);
    Ok(Json(serde_json::json!({ "settled": settled, "in_doubt": in_doubt })).into_response())
}

/// Settles what is in doubt, and sent letters where they are named; a page at a time. How many.
async fn settle_part(
    office: &Office,
    id: ReplayId,
    letters: Option<&BTreeSet<LetterId>>,
    how: Settling,
    deed: &Deed,
) -> Answer<u64> {
    let states: &[ItemState] = match letters {
        None => &[ItemState::InDoubt],
        Some(_) => &[
            ItemState::InDoubt,
            ItemState::Sent,
            ItemState::Presumed,
            ItemState::SuspectedReturn,
            ItemState::Unknown,
        ],
    };
    let mut settled = 0;
    for state in states {
        let mut page = Page::first(Page::MOST);
        loop {
            let found = office.store.items(id, Some(*state), &page).await?;
            let meant =
                found.items.iter().filter(|item| letters.is_none_or(|some| some.contains(&item.letter)));
            let numbers: Vec<u64> = meant.map(|item| item.number).collect();
            if !numbers.is_empty() {
                settled += office.store.settle(id, &numbers, how, deed, office.now()).await?;
            }
            let Some(next) = found.next else { break };
            page.cursor = Some(next);
        }
    }
    Ok(settled)
}
