//! What the lanes of one source share, and the two ways in which each of them waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use dlo_core::broker::BrokerError;
use dlo_core::trouble::TroubleKind;
use dlo_store::{Checkpoint, Inserted, StoreError};
use tokio_util::sync::CancellationToken;

use super::pace::Pace;
use super::spec::CaptureSpec;
use crate::admit::Refusal;
use crate::office::Office;

/// Pauses while store or broker are away: the first, and the longest. A recovery is seen, and told, within 5 s.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(2);

/// The workplace of one source.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) office: Arc<Office>,
    pub(super) spec: Arc<CaptureSpec>,
    pub(super) pace: Pace,
    /// Lanes that this server reads.
    pub(super) lanes: AtomicUsize,
    /// Batches that the store did not take yet.
    pub(super) not_taken: AtomicUsize,
}

/// Why a lane cannot go on as it is.
#[derive(Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Broker(#[from] BrokerError),
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A message that admission refuses. Its source has no name, which the config does not let pass.
    #[error("a message cannot become a letter ({})", .0.code)]
    Refused(Refusal),
}

impl Trouble {
    pub(super) const fn is_lost_lease(&self) -> bool {
        matches!(self, Self::Store(StoreError::LeaseLost(_)))
    }

    /// What it is to an operator; `None`: the usual way to be slowed down.
    const fn kind(&self) -> Option<TroubleKind> {
        Some(match self {
            Self::Store(StoreError::Overloaded) => return None,
            Self::Broker(BrokerError::Unavailable(_) | BrokerError::Closed) => TroubleKind::SourceUnreachable,
            Self::Broker(BrokerError::Missing(_)) => TroubleKind::SourceQueueMissing,
            Self::Broker(_) => TroubleKind::SourceRefused,
            Self::Store(_) | Self::Refused(_) => TroubleKind::SourceNotStored,
        })
    }
}

impl Desk {
    pub(super) fn new(office: Arc<Office>, spec: Arc<CaptureSpec>) -> Self {
        let pace = Pace::new(spec.limits.rate);
        Self { office, spec, pace, lanes: AtomicUsize::new(1), not_taken: AtomicUsize::new(0) }
    }

    /// Bytes that one of `shares` in every lane may hold.
    pub(super) fn room(&self, shares: usize) -> usize {
        self.spec.limits.waiting / (shares * self.lanes.load(Ordering::Relaxed).max(1))
    }

    /// What distinguishes the checkpoints of this queue from those of another that the source may have had before.
    pub(super) fn queue_key(&self) -> String {
        format!("{}:{}", self.spec.broker.capabilities().kind, self.spec.dlq)
    }

    pub(super) async fn checkpoints(&self) -> Result<Vec<Checkpoint>, StoreError> {
        self.office.store.checkpoints(&self.spec.source).await
    }

    /// Counts what became of letters.
    pub(super) fn count(&self, inserted: &[Inserted], known: u64) {
        let duplicates = inserted.iter().filter(|one| matches!(one, Inserted::Duplicate(_))).count() as u64;
        let new = inserted.len() as u64 - duplicates;
        self.office.captures.stored(&self.spec.source, new, duplicates + known, self.office.now());
    }

    /// A lane works, as far as no batch of it waits for the store: one that is received meanwhile proves nothing.
    pub(super) fn works(&self, lane: i32) {
        let waits = self.not_taken.load(Ordering::Relaxed) > 0;
        if !waits && self.office.captures.works(&self.spec.source, lane) {
            tracing::warn!(source = self.spec.source, recovered = true, "capture works again");
        }
    }

    /// A lane is not here any more.
    pub(super) fn leaves(&self, lane: i32) {
        self.office.captures.works(&self.spec.source, lane);
    }

    /// Says why a lane waits, on the board and in the log.
    pub(super) fn waits(&self, lane: i32, trouble: &Trouble) {
        let source = self.spec.source.as_str();
        match trouble {
            // The usual way to be slowed down; the store says so itself when it lasts.
            Trouble::Store(StoreError::Overloaded) => {
                tracing::debug!(source, lane, "capture waits for the store");
            }
            other => tracing::warn!(source, lane, error = %other, "capture waits"),
        }
        let (kind, now) = (trouble.kind(), self.office.now());
        self.office.captures.waits(source, lane, kind, &trouble.to_string(), now);
    }
}

/// Growing pauses.
#[derive(Debug)]
pub(super) struct Pause(Duration);

impl Pause {
    pub(super) const fn new() -> Self {
        Self(FIRST_PAUSE)
    }

    pub(super) fn reset(&mut self) {
        self.0 = FIRST_PAUSE;
    }

    /// Waits; `false` when it was stopped meanwhile.
    pub(super) async fn wait(&mut self, stop: &CancellationToken) -> bool {
        let pause = self.0;
        self.0 = (self.0 * 2).min(LAST_PAUSE);
        stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_some()
    }
}
