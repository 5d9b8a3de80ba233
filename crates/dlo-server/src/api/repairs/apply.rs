//! `POST /api/v1/repairs`: stores a repair beside each letter that changes. A dry run counts and stores nothing.
//!
//! Letters are taken in hand a bounded number at a time; each stands for itself. One that is no longer open is counted and
//! left. What arrives after the request began is not part of it.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use dlo_core::id::LetterId;
use dlo_core::letter::Status;
use dlo_core::query::{Compare, Matcher, Op, Query};
use dlo_core::time::Timestamp;
use dlo_store::{AS_CAPTURED, Deed, NewRepair, Page, Repair, Repaired as Stored};
use serde::Serialize;

use super::letters::{Opened, mend_as_told, open};
use super::{Asked, Change, not_here};
use crate::api::decide::{COUNTED, Chosen, with};
use crate::api::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::{self, Author};
use crate::repair::{Mended, Repaired};

/// Failures that are told; the others are counted.
const TOLD: usize = 20;

#[derive(Debug, Default, Serialize)]
struct Applied {
    dry_run: bool,
    /// Letters that are meant.
    matched: u64,
    /// Have a repair now; in a dry run: would have.
    repaired: u64,
    /// The change makes no difference to them, and nothing is stored.
    unchanged: u64,
    /// The change makes no difference to them, and an earlier repair is taken back: they are sent as they were captured.
    taken_back: u64,
    /// The change cannot be made, or its result does not fit.
    failed: u64,
    /// Not open, and left as they are.
    skipped: u64,
    /// Ids of which there is no letter.
    missing: u64,
    failures: Vec<Failure>,
}

#[derive(Debug, Serialize)]
struct Failure {
    id: LetterId,
    error: String,
}

pub(crate) async fn apply(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    let mut asked: Asked = body::large_json(request, &office).await?;
    if asked.sample.is_some() {
        return Err(not_here("sample"));
    }
    let now = office.now();
    let dry_run = asked.dry_run.unwrap_or(true);
    let (change, chosen) = asked.meaning(&office)?;
    let Some(reason) = query_text::note("reason", asked.reason)? else {
        let detail = "say why, in `reason`; it is kept with the repair and in the audit log";
        return Err(Problem::unprocessable("reason_needed", detail).field("reason"));
    };
    if let Change::Expression(expression) = &change {
        office.repairs.check(expression).await?;
    }
    let place = match &chosen {
        Chosen::Ids(_) => None,
        Chosen::Query(_) => Some(office.long_reading()?),
    };
    let deed = Deed { author: author.0, reason: Some(reason), reference: None };
    let work = Work { office, change, deed, dry_run };
    // A task of its own: a client that goes away does not leave half a repair behind.
    let work = tokio::spawn(async move {
        let _held = place;
        match chosen {
            Chosen::Ids(ids) => {
                let mut applied = Applied { matched: ids.len() as u64, ..Applied::default() };
                work.ids(&ids, &mut applied).await.map(|()| applied)
            }
            Chosen::Query(query) => work.query(query, now).await,
        }
    });
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed");
    let applied = work.await.map_err(failed)??;
    Ok(Json(Applied { dry_run, ..applied }).into_response())
}

/// A repair to store; or the captured message in place of an earlier one, so that the history says when and why.
struct New {
    letter: LetterId,
    back: bool,
    repair: NewRepair,
}

struct Work {
    office: Arc<Office>,
    change: Change,
    deed: Deed,
    dry_run: bool,
}

impl Work {
    /// Only open letters can be repaired, so only they are asked for; the others are counted.
    async fn query(&self, query: Query, now: Timestamp) -> Answer<Applied> {
        let store = &self.office.store;
        let query = with(query, Matcher::Captured(Compare { op: Op::Le, value: now }));
        let matched = store.count(&query, COUNTED).await?;
        let query = with(query, Matcher::Status(Status::Open));
        let open = store.count(&query, COUNTED).await?;
        let mut applied = Applied { matched, skipped: matched.saturating_sub(open), ..Applied::default() };
        let mut page = Page::first(Page::MOST);
        loop {
            let found = store.letters(&query, &page).await?;
            let ids: Vec<LetterId> = found.letters.iter().map(|letter| letter.id).collect();
            self.ids(&ids, &mut applied).await?;
            match found.next {
                Some(next) => page.cursor = Some(next),
                None => return Ok(applied),
            }
        }
    }

    async fn ids(&self, ids: &[LetterId], applied: &mut Applied) -> Answer<()> {
        let mut left = ids;
        while !left.is_empty() {
            let mut hand = open(&self.office, left, None).await?;
            left = &left[hand.taken..];
            applied.missing += hand.missing;
            let before = hand.letters.len();
            hand.letters.retain(|opened| opened.letter.status == Status::Open);
            applied.skipped += (before - hand.letters.len()) as u64;
            let mended = mend_as_told(&self.office, &self.change, &hand.letters, self.dry_run).await?;
            let repairs = self.sort(&hand.letters, mended, applied).await?;
            self.store(repairs, applied).await?;
        }
        Ok(())
    }

    /// Those that get a repair; the others are counted.
    async fn sort(
        &self,
        letters: &[Opened],
        mended: Vec<Result<Mended, String>>,
        applied: &mut Applied,
    ) -> Answer<Vec<New>> {
        let expression = match &self.change {
            Change::Expression(expression) => Some(expression.clone()),
            Change::Payload(_) => None,
        };
        let mut repairs = Vec::new();
        for (opened, mended) in letters.iter().zip(mended) {
            let letter = opened.letter.id;
            match mended.map(|mended| mended.repaired) {
                // Left alone, the earlier repair would be sent although this one says that nothing is to change.
                Ok(Repaired::Same) if self.is_repaired(opened).await? => {
                    let (message, expression) = (opened.message.clone(), Some(AS_CAPTURED.to_string()));
                    repairs.push(New { letter, back: true, repair: NewRepair { message, expression } });
                }
                Ok(Repaired::Same) => applied.unchanged += 1,
                Ok(Repaired::Changed(message)) => {
                    let expression = expression.clone();
                    repairs.push(New { letter, back: false, repair: NewRepair { message, expression } });
                }
                Err(error) => {
                    applied.failed += 1;
                    if applied.failures.len() < TOLD {
                        applied.failures.push(Failure { id: opened.letter.id, error });
                    }
                }
            }
        }
        Ok(repairs)
    }

    /// Whether something else than the captured message would be sent.
    async fn is_repaired(&self, opened: &Opened) -> Answer<bool> {
        let repairs = self.office.store.repairs(opened.letter.id).await?;
        // Whether the message of a repair is equal to a masked one would confirm a guess.
        let is_masked = opened.masking(&self.office).is_some();
        let differs = |repair: &Repair| {
            if is_masked { !repair.is_as_captured() } else { repair.message != opened.message }
        };
        Ok(repairs.iter().any(|repair| repair.active && differs(repair)))
    }

    async fn store(&self, repairs: Vec<New>, applied: &mut Applied) -> Answer<()> {
        let back: Vec<bool> = repairs.iter().map(|new| new.back).collect();
        let stored = if self.dry_run || repairs.is_empty() {
            vec![Stored::Stored; repairs.len()]
        } else {
            let repairs = repairs.into_iter().map(|new| (new.letter, new.repair)).collect();
            self.office.store.repair_many(repairs, &self.deed, self.office.now()).await?
        };
        for (stored, back) in stored.into_iter().zip(back) {
            match stored {
                Stored::Stored if back => applied.taken_back += 1,
                Stored::Stored => applied.repaired += 1,
                // Somebody was faster.
                Stored::NotOpen(_) => applied.skipped += 1,
                Stored::Missing => applied.missing += 1,
            }
        }
        Ok(())
    }
}
