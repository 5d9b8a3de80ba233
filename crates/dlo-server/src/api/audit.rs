//! The audit log, and the proof that nothing leaked.
//!
//! A filter is looked for in a bounded number of rows: a page may hold fewer than asked, even none, and still have a next.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use dlo_core::id::LetterId;
use dlo_store::{AuditEntry, AuditPage, Cursor, Verification};
use serde::{Deserialize, Serialize};

use super::error::{Answer, Problem};
use crate::office::Office;
use crate::query_text::{Params, page};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AuditParams {
    #[serde(default)]
    pub(crate) author: String,
    /// The word of an event.
    #[serde(default)]
    pub(crate) what: String,
    /// A letter's id.
    #[serde(default)]
    pub(crate) letter: String,
    limit: Option<usize>,
    cursor: Option<String>,
}

/// Pages of the log that one request looks through.
const PAGES: usize = 40;

impl AuditParams {
    fn is_filter(&self) -> bool {
        !(self.author.is_empty() && self.what.is_empty() && self.letter.is_empty())
    }

    fn takes(&self, entry: &AuditEntry, letter: Option<LetterId>) -> bool {
        (self.author.is_empty() || entry.author == self.author)
            && (self.what.is_empty() || entry.what.as_str() == self.what)
            && (letter.is_none() || entry.letter == letter)
    }

    /// The rows that are meant, newest first.
    pub(crate) async fn find(&self, office: &Office) -> Answer<AuditPage> {
        let mut page = page(self.limit, self.cursor.clone())?;
        if !self.is_filter() {
            return Ok(office.shown().audit(&page).await?);
        }
        let wrong =
            |_| Problem::bad_request("bad_parameter", "`letter` is the id of a letter").field("letter");
        let letter = Some(self.letter.trim()).filter(|text| !text.is_empty());
        let letter = letter.map(str::parse::<LetterId>).transpose().map_err(wrong)?;
        let limit = page.limit;
        let mut found = AuditPage { entries: Vec::new(), next: None };
        for _ in 0..PAGES {
            // Never more than are still wanted, so that the cursor stands right behind the last one.
            page.limit = limit - found.entries.len();
            let read = office.shown().audit(&page).await?;
            found.entries.extend(read.entries.into_iter().filter(|entry| self.takes(entry, letter)));
            found.next.clone_from(&read.next);
            page.cursor = read.next;
            if found.entries.len() >= limit || page.cursor.is_none() {
                break;
            }
        }
        Ok(found)
    }
}

#[derive(Serialize)]
struct AuditOut {
    entries: Vec<AuditEntry>,
    next_cursor: Option<Cursor>,
}

pub(crate) async fn list(
    State(office): State<Arc<Office>>,
    Params(params): Params<AuditParams>,
) -> Answer<Response> {
    let found = params.find(&office).await?;
    Ok(Json(AuditOut { entries: found.entries, next_cursor: found.next }).into_response())
}

#[derive(Serialize)]
struct VerificationOut {
    /// Captured equals the sum over all statuses, for every source.
    holds: bool,
    #[serde(flatten)]
    verification: Verification,
}

/// Counts every letter anew. Reads everything, and takes its time.
pub(crate) async fn verify(State(office): State<Arc<Office>>) -> Answer<Response> {
    let _place = office.long_reading()?;
    let verification = office.shown().verify().await?;
    Ok(Json(VerificationOut { holds: verification.problems.is_empty(), verification }).into_response())
}
