//! Decisions about letters: discard, compensate. Each has an author and a reason, and is a dry run until it says otherwise.
//!
//! A query is worked through in batches. What arrives after the request began is not part of it. Each letter stands for
//! itself: one that is no longer open is counted and left where it is, so the same request can be sent again.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::Request;
use axum::response::{IntoResponse, Response};
use dlo_core::id::LetterId;
use dlo_core::letter::{Status, Step};
use dlo_core::query::{Compare, Matcher, Op, Query, Term};
use dlo_core::time::Timestamp;
use dlo_store::{Deed, Page, Stepped, StoreError};
use serde::{Deserialize, Serialize};

use super::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::{self, Author};

/// Ids of one request.
const IDS: usize = 10_000;
/// A dry run counts up to here and then says "at least".
pub(super) const COUNTED: u64 = 1_000_000;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Decision {
    ids: Option<Vec<LetterId>>,
    query: Option<String>,
    reason: Option<String>,
    reference: Option<String>,
    /// How many letters the person saw and confirmed; another number of open ones refuses the whole.
    expect: Option<u64>,
    #[serde(default = "yes")]
    dry_run: bool,
}

fn yes() -> bool {
    true
}

#[derive(Debug, Default, Serialize)]
struct Decided {
    dry_run: bool,
    /// Letters that are meant.
    matched: u64,
    /// Moved; in a dry run: would be.
    moved: u64,
    /// Not open, and left where they are.
    skipped: u64,
    /// Ids of which there is no letter.
    missing: u64,
}

pub(crate) async fn discard(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    decide(office, author, request, Step::Discard).await
}

pub(crate) async fn compensate(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    decide(office, author, request, Step::Compensate).await
}

async fn decide(office: Arc<Office>, author: Author, request: Request<Body>, step: Step) -> Answer<Response> {
    let decision: Decision = body::json(request, &office).await?;
    let now = office.now();
    let chosen = chosen(decision.ids.as_deref(), decision.query.as_deref(), &office)?;
    let deed = deed(&decision, author, step)?;
    // Ids are few; a query may walk through everything there is.
    let place = match &chosen {
        Chosen::Ids(_) => None,
        Chosen::Query(_) => Some(office.long_reading()?),
    };
    // A task of its own: a client that goes away does not leave half a decision behind.
    let work = tokio::spawn(async move {
        let _held = place;
        match (chosen, decision.dry_run) {
            (Chosen::Ids(ids), true) => try_ids(&office, &ids, step).await,
            (Chosen::Ids(ids), false) => move_ids(&office, &ids, step, &deed).await,
            (Chosen::Query(query), true) => try_query(&office, query).await,
            (Chosen::Query(query), false) => {
                let query = frozen(query, now);
                as_expected(&office, &query, decision.expect).await?;
                move_query(&office, query, step, &deed).await
            }
        }
    });
    let failed = |_| {
        Problem::new(axum::http::StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed")
    };
    let decided = work.await.map_err(failed)??;
    Ok(Json(decided).into_response())
}

/// Which letters are meant.
pub(super) enum Chosen {
    Ids(Vec<LetterId>),
    Query(Query),
}

pub(super) fn chosen(ids: Option<&[LetterId]>, query: Option<&str>, office: &Office) -> Answer<Chosen> {
    match (ids, query) {
        (Some(ids), None) if ids.is_empty() || ids.len() > IDS => {
            let detail = format!("`ids` names 1 to {IDS} letters, found {}; a query names more", ids.len());
            Err(Problem::unprocessable("bad_ids", detail).field("ids"))
        }
        (Some(ids), None) => {
            let mut ids = ids.to_vec();
            ids.sort_unstable();
            ids.dedup();
            Ok(Chosen::Ids(ids))
        }
        (None, Some(text)) if text.trim().is_empty() => {
            let detail =
                "an empty query means every letter there is; say which are meant, such as `source:orders`";
            Err(Problem::unprocessable("empty_query", detail).field("query"))
        }
        (None, Some(text)) => Ok(Chosen::Query(query_text::query_of_shown(text, office)?)),
        _ => Err(Problem::unprocessable("bad_body", "say which letters are meant, by `ids` or by `query`")
            .field("ids")),
    }
}

fn deed(decision: &Decision, author: Author, step: Step) -> Answer<Deed> {
    let Some(reason) = query_text::note("reason", decision.reason.clone())? else {
        let detail = "say why, in `reason`; it is kept in the audit log";
        return Err(Problem::unprocessable("reason_needed", detail).field("reason"));
    };
    let reference = query_text::note("reference", decision.reference.clone())?;
    if step == Step::Compensate && reference.is_none() {
        let detail = "say what compensates, in `reference`: a ticket, a refund, a booking";
        return Err(Problem::unprocessable("reference_needed", detail).field("reference"));
    }
    Ok(Deed { author: author.0, reason: Some(reason), reference })
}

async fn try_ids(office: &Office, ids: &[LetterId], step: Step) -> Answer<Decided> {
    let mut decided = Decided { dry_run: true, matched: ids.len() as u64, ..Decided::default() };
    for id in ids {
        match office.store.letter(*id).await {
            Ok(detail) if step.apply(detail.letter.status).is_ok() => decided.moved += 1,
            Ok(_) => decided.skipped += 1,
            Err(StoreError::NoLetter(_)) => decided.missing += 1,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(decided)
}

async fn move_ids(office: &Office, ids: &[LetterId], step: Step, deed: &Deed) -> Answer<Decided> {
    let mut decided = Decided { matched: ids.len() as u64, ..Decided::default() };
    for batch in ids.chunks(Page::MOST) {
        for stepped in office.store.step(batch, step, deed, office.now()).await? {
            match stepped {
                Stepped::Moved { .. } => decided.moved += 1,
                Stepped::Illegal { .. } => decided.skipped += 1,
                Stepped::Missing => decided.missing += 1,
            }
        }
    }
    Ok(decided)
}

async fn try_query(office: &Office, query: Query) -> Answer<Decided> {
    let matched = office.store.count(&query, COUNTED).await?;
    let moved = office.store.count(&with(query, Matcher::Status(Status::Open)), COUNTED).await?;
    Ok(Decided { dry_run: true, matched, moved, skipped: matched.saturating_sub(moved), missing: 0 })
}

/// Both decisions are legal from `open` only, so only open letters are asked for, and of these what was here at `now`.
fn frozen(query: Query, now: Timestamp) -> Query {
    let before = Matcher::Captured(Compare { op: Op::Le, value: now });
    with(with(query, Matcher::Status(Status::Open)), before)
}

/// Whether it is still the number that somebody confirmed.
async fn as_expected(office: &Office, query: &Query, expect: Option<u64>) -> Answer<()> {
    let Some(expect) = expect else { return Ok(()) };
    let found = office.store.count(query, COUNTED.max(expect) + 1).await?;
    if found == expect {
        return Ok(());
    }
    let detail = format!(
        "{expect} letters were confirmed, and {found} are meant now; nothing was done. Look again and confirm the new number"
    );
    Err(Problem::new(axum::http::StatusCode::CONFLICT, "count_changed", detail).field("expect"))
}

async fn move_query(office: &Office, query: Query, step: Step, deed: &Deed) -> Answer<Decided> {
    let mut total = Decided::default();
    let mut page = Page::first(Page::MOST);
    loop {
        let found = office.store.letters(&query, &page).await?;
        let ids: Vec<LetterId> = found.letters.iter().map(|letter| letter.id).collect();
        if !ids.is_empty() {
            let decided = move_ids(office, &ids, step, deed).await?;
            total.matched += decided.matched;
            total.moved += decided.moved;
            total.skipped += decided.skipped + decided.missing;
        }
        match found.next {
            Some(next) => page.cursor = Some(next),
            None => return Ok(total),
        }
    }
}

pub(super) fn with(mut query: Query, matcher: Matcher) -> Query {
    query.terms.push(Term { negated: false, matcher });
    query
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn discard_that(office: &Arc<Office>, letters: &str) -> Answer<Response> {
        let body = format!(r#"{{{letters},"reason":"x"}}"#);
        let request =
            Request::post("/").header("content-type", "application/json").body(Body::from(body)).unwrap();
        discard(State(office.clone()), Author("ada".to_string()), request).await
    }

    #[tokio::test]
    async fn a_decision_by_query_waits_its_turn_as_other_long_readings_do() {
        let directory = tempfile::tempdir().unwrap();
        let office = Office::in_directory(directory.path());
        let by_query = r#""query":"source:a""#;
        let mut held = Vec::new();
        while let Ok(place) = office.long_reading() {
            held.push(place);
        }
        assert_eq!(discard_that(&office, by_query).await.unwrap_err().code(), "busy");
        let by_id = r#""ids":["01890a5d-ac96-774b-bcce-b302099a8057"]"#;
        discard_that(&office, by_id).await.unwrap();
        held.pop();
        discard_that(&office, by_query).await.unwrap();
        assert_eq!(office.long.available_permits(), 1, "the place is given back");
    }
}
