//! `POST /api/v1/repairs/preview`: what a change would make of a sample of letters, as a diff. Nothing is stored.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use dlo_core::id::LetterId;
use dlo_core::letter::Status;
use dlo_core::query::Matcher;
use dlo_store::Page;
use serde::Serialize;

use super::letters::{Opened, mend, open, outlooks};
use super::{Asked, not_here};
use crate::api::decide::{COUNTED, Chosen, with};
use crate::api::error::{Answer, Problem};
use crate::body;
use crate::office::Office;
use crate::query_text::Author;
use crate::repair::{Mended, Outlook, Repaired, difference};

/// Letters of a sample.
const SAMPLE: usize = 5;
const LARGEST: usize = 50;
/// Shown where a message changes and nothing that is shown of it does.
const ONLY_MASKED: &str = "*** (only masked values change)\n";

#[derive(Debug, Default, Serialize)]
struct Previewed {
    /// Letters that are meant; of a query, those that are open.
    matched: u64,
    changed: u64,
    unchanged: u64,
    failed: u64,
    letters: Vec<Sample>,
}

/// One letter of the sample.
#[derive(Debug, Serialize)]
struct Sample {
    id: LetterId,
    source: String,
    event_type: Option<String>,
    status: Status,
    outcome: Outcome,
    /// Whether there was a schema that the result fits.
    schema: bool,
    /// Why not.
    error: Option<String>,
    diff: Option<String>,
}

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(rename_all = "snake_case")]
enum Outcome {
    Changed,
    Unchanged,
    Failed,
}

pub(crate) async fn preview(
    State(office): State<Arc<Office>>,
    author: Author,
    request: Request<Body>,
) -> Answer<Response> {
    let mut asked: Asked = body::large_json(request, &office).await?;
    for (given, field) in [(asked.reason.is_some(), "reason"), (asked.dry_run.is_some(), "dry_run")] {
        if given {
            return Err(not_here(field));
        }
    }
    let sample = asked.sample.unwrap_or(SAMPLE);
    if !(1..=LARGEST).contains(&sample) {
        let detail = format!("`sample` must be 1 to {LARGEST}, found {sample}");
        return Err(Problem::unprocessable("bad_sample", detail).field("sample"));
    }
    let (change, chosen) = asked.meaning(&office)?;
    let (matched, ids) = match chosen {
        Chosen::Ids(ids) => (ids.len() as u64, ids),
        Chosen::Query(query) => {
            let query = with(query, Matcher::Status(Status::Open));
            let found = office.store.letters(&query, &Page::first(sample)).await?;
            let ids = found.letters.iter().map(|letter| letter.id).collect();
            (office.store.count(&query, COUNTED).await?, ids)
        }
    };
    let mut previewed = Previewed { matched, ..Previewed::default() };
    let deed = author.looks();
    let mut left = &ids[..ids.len().min(sample)];
    while !left.is_empty() {
        let hand = open(&office, left, Some(&deed)).await?;
        left = &left[hand.taken..];
        let outlooks = outlooks(&office, &change, &hand.letters).await?;
        // Only letters without masked parts are looked at as they are.
        let (plain, masked): (Vec<_>, Vec<_>) =
            hand.letters.into_iter().zip(outlooks).partition(|(_, outlook)| outlook.is_none());
        let plain: Vec<Opened> = plain.into_iter().map(|(opened, _)| opened).collect();
        let mended = mend(&office, &change, &plain.iter().collect::<Vec<_>>()).await?;
        let plain = plain.into_iter().zip(mended.into_iter().map(seen));
        let masked = masked.into_iter().filter_map(|(opened, outlook)| Some((opened, outlook?)));
        let mut samples = Vec::new();
        for (opened, outlook) in plain.chain(masked) {
            samples.push(shown(&office, opened, outlook).await?);
        }
        let place = |id| ids.iter().position(|other| *other == id);
        samples.sort_by_key(|sample| place(sample.id));
        samples.into_iter().for_each(|sample| previewed.take(sample));
    }
    Ok(Json(previewed).into_response())
}

impl Previewed {
    fn take(&mut self, sample: Sample) {
        match sample.outcome {
            Outcome::Changed => self.changed += 1,
            Outcome::Unchanged => self.unchanged += 1,
            Outcome::Failed => self.failed += 1,
        }
        self.letters.push(sample);
    }
}

/// What was made of a letter without masked parts.
fn seen(mended: Result<Mended, String>) -> Outlook {
    match mended {
        Err(why) => Outlook::Failed(why),
        Ok(Mended { repaired: Repaired::Same, .. }) => Outlook::Same,
        Ok(Mended { repaired: Repaired::Changed(after), schema }) => Outlook::Changed { after, schema },
    }
}

/// The letter as it is shown: what is sensitive is hidden in both, before they are compared.
async fn shown(office: &Arc<Office>, opened: Opened, outlook: Outlook) -> Answer<Sample> {
    let Opened { letter, message: mut before, .. } = opened;
    let letter = office.mask.over(letter);
    let sample = Sample {
        id: letter.id,
        source: letter.source,
        event_type: letter.event_type,
        status: letter.status,
        outcome: Outcome::Unchanged,
        schema: false,
        error: None,
        diff: None,
    };
    let (mut after, schema) = match outlook {
        Outlook::Failed(why) => return Ok(Sample { outcome: Outcome::Failed, error: Some(why), ..sample }),
        Outlook::Same => return Ok(sample),
        Outlook::Changed { after, schema } => (after, schema),
    };
    let office = Arc::clone(office);
    // Payloads may be large: comparing them has a thread of its own.
    let compared = tokio::task::spawn_blocking(move || {
        office.mask.message(&mut before);
        office.mask.message(&mut after);
        match difference(&before, &after) {
            diff if diff.is_empty() => ONLY_MASKED.to_owned(),
            diff => diff,
        }
    });
    let failed = |_| Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "internal_error", "the office failed");
    let diff = Some(compared.await.map_err(failed)?);
    Ok(Sample { outcome: Outcome::Changed, schema, diff, ..sample })
}
