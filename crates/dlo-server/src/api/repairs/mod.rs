//! Repairs over HTTP (F9): preview as a diff, apply, and what was repaired. A dry run until it says otherwise.
//!
//! An expression, or a payload that was edited as a whole, is laid over letters as they were captured, never over an
//! earlier repair: the same request sent again gives the same repair. The original stays as it was.

mod apply;
mod letters;
mod preview;
mod read;

use axum::http::StatusCode;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use dlo_core::id::LetterId;
use dlo_core::limits;
use serde::Deserialize;

pub(crate) use apply::apply;
pub(crate) use letters::one;
pub(crate) use preview::preview;
pub(crate) use read::{list, shown_repairs};

use super::decide::{Chosen, chosen};
use super::error::{Answer, Problem};
use crate::office::Office;
use crate::repair::{EXPRESSION, RepairError};

/// What both a preview and a repair are asked for. Each refuses what says something to the other only.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Asked {
    ids: Option<Vec<LetterId>>,
    query: Option<String>,
    expression: Option<String>,
    payload: Option<String>,
    payload_base64: Option<String>,
    /// Of a preview.
    sample: Option<usize>,
    /// Of a repair.
    reason: Option<String>,
    dry_run: Option<bool>,
}

impl Asked {
    /// What is done, and to which letters.
    fn meaning(&mut self, office: &Office) -> Answer<(Change, Chosen)> {
        let change = change(self.expression.take(), self.payload.take(), self.payload_base64.take())?;
        for_one(&change, self.ids.as_ref().map(Vec::len))?;
        let chosen = chosen(self.ids.as_deref(), self.query.as_deref(), office)?;
        Ok((change, chosen))
    }
}

fn not_here(field: &'static str) -> Problem {
    Problem::unprocessable("bad_body", format!("`{field}` says nothing here; leave it out")).field(field)
}

/// What is done to each letter.
#[derive(Debug, Clone)]
enum Change {
    Expression(String),
    /// In place of the whole payload.
    Payload(Vec<u8>),
}

/// Reads the one that was given.
fn change(
    expression: Option<String>,
    payload: Option<String>,
    payload_base64: Option<String>,
) -> Answer<Change> {
    match (expression, payload, payload_base64) {
        (Some(expression), None, None) => {
            if expression.trim().is_empty() || expression.len() > EXPRESSION {
                let detail =
                    format!("`expression` is jq of 1 to {EXPRESSION} bytes, such as `.amount |= tonumber`");
                return Err(Problem::unprocessable("bad_expression", detail).field("expression"));
            }
            Ok(Change::Expression(expression))
        }
        (None, Some(text), None) => bounded(text.into_bytes(), "payload"),
        (None, None, Some(encoded)) => {
            let wrong = |_| Problem::unprocessable("bad_body", "`payload_base64` is not base64");
            let bytes = STANDARD.decode(encoded).map_err(|error| wrong(error).field("payload_base64"))?;
            bounded(bytes, "payload_base64")
        }
        _ => {
            let detail = "say what to change, by one of `expression`, `payload` and `payload_base64`";
            Err(Problem::unprocessable("bad_body", detail).field("expression"))
        }
    }
}

fn bounded(bytes: Vec<u8>, field: &'static str) -> Answer<Change> {
    if bytes.len() > limits::PAYLOAD {
        let detail = format!("a payload has at most {} bytes", limits::PAYLOAD);
        return Err(Problem::unprocessable("bad_payload", detail).field(field));
    }
    Ok(Change::Payload(bytes))
}

/// One payload is meant for one letter.
fn for_one(change: &Change, letters: Option<usize>) -> Answer<()> {
    match (change, letters) {
        (Change::Expression(_), _) | (Change::Payload(_), Some(1)) => Ok(()),
        (Change::Payload(_), _) => {
            let detail = "an edited payload is for one letter: name it by `ids`; an expression changes many";
            Err(Problem::unprocessable("one_letter", detail).field("ids"))
        }
    }
}

impl From<RepairError> for Problem {
    fn from(error: RepairError) -> Self {
        match error {
            RepairError::Expression(bad) => {
                Self::unprocessable("bad_expression", bad.what).field("expression").at(bad.at)
            }
            RepairError::Worker(cause) => {
                tracing::error!(error = %cause, "no repair worker");
                let detail = format!("no repair worker could be started: {cause}");
                Self::new(StatusCode::SERVICE_UNAVAILABLE, "no_repair_worker", detail).retry_after(5)
            }
        }
    }
}
