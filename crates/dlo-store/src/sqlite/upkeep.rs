//! Keeping the index in shape: merges go on by a step, the smallest first, and what they leave is swept.
//!
//! What is to be read is read here, beside the writer; what is to be written is a [`Deed`] for the writer, bounded, so that
//! letters go between two of them. A small merge is one deed.

use std::sync::atomic::Ordering;

use rusqlite::Connection;

use super::indexer::count_anew;
use super::merge::{self, Pace, Size};
use super::merging::{self, Bounds, End, Merge, Step};
use super::writer::{Shared, Writer};
use crate::StoreError;

/// The merges under way.
#[derive(Debug, Default)]
pub(super) struct Upkeep {
    /// One of each size at most.
    merges: Vec<Merge>,
    /// A merge came to its end since it was last looked for what is outdated.
    merged: bool,
    bounds: Bounds,
}

/// Something for the writer: a step of a merge, and some of what is left of others.
#[derive(Debug)]
pub(super) struct Deed {
    step: Option<Step>,
    /// Segments that are being written, and not to be swept.
    growing: Vec<i64>,
    bounds: Bounds,
}

/// What became of a deed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// There is more of it.
    GoesOn,
    /// The merge is at its end.
    Ended,
    /// What was merged is not there any more.
    Void,
}

impl Upkeep {
    /// The next thing to do; `None` when all is well.
    pub(super) fn next(
        &mut self,
        db: &Connection,
        shared: &Shared,
        pace: Pace,
    ) -> Result<Option<Deed>, StoreError> {
        let epoch = shared.epoch.load(Ordering::SeqCst);
        while let Some(picked) = self.pick(db, pace)? {
            self.merges.push(Merge::new(db, shared, epoch, picked)?);
        }
        // The last one is the smallest: it is done soon, and until then there are more to ask.
        self.merges.sort_by_key(|merge| std::cmp::Reverse(merge.size));
        let bounds = self.bounds;
        let growing: Vec<i64> = self.merges.iter().map(|merge| merge.number).collect();
        if let Some(merge) = self.merges.last_mut() {
            return merge.step(db, bounds).map(|step| Some(Deed { step: Some(step), growing, bounds }));
        }
        Ok((!merging::leftovers(db, &growing)?.is_empty()).then_some(Deed { step: None, growing, bounds }))
    }

    fn pick(&mut self, db: &Connection, pace: Pace) -> Result<Option<merge::Picked>, StoreError> {
        let under_way: Vec<Size> = self.merges.iter().map(|merge| merge.size).collect();
        match merge::alike(db, pace, &under_way)? {
            None if self.merged && pace == Pace::Calm => {
                self.merged = false;
                merge::outdated(db, &under_way)
            }
            picked => Ok(picked),
        }
    }

    /// Takes note of what became of the deed that was handed out.
    pub(super) fn note(&mut self, deed: Outcome) {
        match deed {
            Outcome::GoesOn => {}
            Outcome::Ended => {
                self.merges.pop();
                self.merged = true;
            }
            Outcome::Void => self.forget(),
        }
    }

    /// Gives up what is under way; what was written of it is swept.
    pub(super) fn forget(&mut self) {
        self.merges.clear();
    }
}

impl Deed {
    /// On the writing thread.
    pub(super) fn perform(self, writer: &mut Writer) -> Result<Outcome, StoreError> {
        let stands = merging::write(writer, self.step.as_ref(), &self.growing, self.bounds)?;
        match self.step.and_then(|step| step.end) {
            _ if !stands => Ok(Outcome::Void),
            None => Ok(Outcome::GoesOn),
            Some(End::Whole { .. }) => Ok(Outcome::Ended),
            Some(End::Damaged(segment)) => {
                tracing::warn!(
                    segment,
                    "a segment of the text index was damaged; its letters are indexed again"
                );
                count_anew(writer).map(|_| Outcome::Ended)
            }
        }
    }
}

#[cfg(test)]
mod tests;
