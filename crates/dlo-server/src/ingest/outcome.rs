//! What became of each item, kept small: an answer may hold a million of them.

use dlo_core::id::LetterId;
use dlo_store::{Inserted, StoreError};
use serde::Serialize;

use crate::admit::Refusal;

/// Rejections of one request that keep their sentence; those behind them keep code and field.
const DETAILED: u64 = 50_000;

#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Stored(LetterId),
    Duplicate(LetterId),
    Rejected(Box<Refusal>),
}

impl From<Inserted> for Outcome {
    fn from(inserted: Inserted) -> Self {
        match inserted {
            // A new chapter of a letter is stored as much as a new letter is.
            Inserted::Stored(id) | Inserted::DiedAgain(id) => Self::Stored(id),
            Inserted::Duplicate(id) => Self::Duplicate(id),
        }
    }
}

impl From<Refusal> for Outcome {
    fn from(refusal: Refusal) -> Self {
        Self::Rejected(Box::new(refusal))
    }
}

#[derive(Serialize)]
#[serde(tag = "status", rename_all = "lowercase")]
enum Wire<'a> {
    Stored { id: LetterId },
    Duplicate { id: LetterId },
    Rejected { error: WireError<'a> },
}

#[derive(Serialize)]
struct WireError<'a> {
    code: &'static str,
    detail: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
}

impl Outcome {
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let wire = match self {
            Self::Stored(id) => Wire::Stored { id: *id },
            Self::Duplicate(id) => Wire::Duplicate { id: *id },
            Self::Rejected(refusal) => Wire::Rejected {
                error: WireError {
                    code: refusal.code,
                    detail: &refusal.detail,
                    field: refusal.field.as_deref(),
                },
            },
        };
        // Writing texts and ids to memory has no way to fail.
        let written = serde_json::to_writer(out, &wire);
        debug_assert!(written.is_ok());
    }
}

/// How many of each.
#[derive(Debug, Clone, Copy, Default, Serialize)]
pub(crate) struct Tally {
    pub(crate) stored: u64,
    pub(crate) duplicate: u64,
    pub(crate) rejected: u64,
}

impl Tally {
    /// Counts outcomes, and shortens rejections when there are very many.
    pub(crate) fn count(&mut self, outcomes: &mut [Outcome]) {
        for outcome in outcomes {
            match outcome {
                Outcome::Stored(_) => self.stored += 1,
                Outcome::Duplicate(_) => self.duplicate += 1,
                Outcome::Rejected(refusal) => {
                    self.rejected += 1;
                    if self.rejected > DETAILED {
                        refusal.detail = "the first 50,000 rejections of an answer say more".into();
                    }
                }
            }
        }
    }
}

/// The store did not take a batch: each of its items is told so, and the sender keeps them.
pub(crate) fn not_taken(error: &StoreError) -> Refusal {
    match error {
        StoreError::Overloaded => {
            Refusal::new("overloaded", "the office is behind; send this item again shortly")
        }
        StoreError::DiskFull(disk) => {
            Refusal::new("disk_full", format!("{disk} is full; send this item again when there is space"))
        }
        StoreError::Unavailable(_) | StoreError::Unconfirmed(_) => {
            Refusal::new("store_unavailable", "the database did not answer; send this item again shortly")
        }
        _ => {
            tracing::error!(%error, "the store refused a batch");
            Refusal::new("store_failed", "the database refused the batch; the server's log says why")
        }
    }
}
