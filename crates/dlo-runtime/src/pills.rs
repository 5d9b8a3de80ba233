//! Poison pills: who is in the handler, who was there when it went down, and who runs alone (B9).
//!
//! The journal remembers over a crash; `dlo_core::poison` thinks. A consumer that can keep no journal still finds pills by
//! what a handler over HTTP does and by the broker's count, and says at its start that it keeps none.
//!
//! A handler over HTTP is another process, which outlives this one. There the only evidence is what the live consumer
//! sees: the connection is lost after the request was sent. A death of this process charges nobody, and neither does the
//! broker's count, because both grow with each restart of the sidecar. So a message that is handled, and whose
//! acknowledgement is lost with the sidecar, is never parked for it. What the live consumer saw is kept over its death. A
//! message that takes handler and sidecar down in the same instant leaves no evidence here: the broker's own delivery
//! limit ends it.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlo_core::attempt::Attempt;
use dlo_core::poison::{Crash, Mark, PoisonConfig, Standing, Suspects};
use dlo_core::time::Timestamp;

use crate::journal::{Journal, Seat};

/// What is evidence against a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// The handler runs in this process: it dies with us, and the journal knows who was in it.
    OurDeath,
    /// The handler is another process: only a connection that is lost after the request was sent.
    LostConnection,
}

pub(crate) struct Pills {
    evidence: Evidence,
    suspects: Mutex<Suspects>,
    /// Whether there are any, to be asked without the lock.
    any: AtomicBool,
    journal: Option<Journal>,
}

/// A message is in the handler until this is dropped: by an answer, or because we stop it. A crash drops nothing.
#[must_use]
pub(crate) struct InHandler<'a>(Option<(&'a Journal, Option<Seat>)>);

impl Drop for InHandler<'_> {
    fn drop(&mut self) {
        if let Some((journal, Some(seat))) = self.0.as_mut().map(|(journal, seat)| (&*journal, seat.take())) {
            journal.leave(seat);
        }
    }
}

impl Pills {
    /// Opens the journal below `directory`, if there is one to be kept, and charges what it tells of an earlier crash.
    pub(crate) fn open(
        config: PoisonConfig,
        directory: Option<&Path>,
        seats: usize,
        evidence: Evidence,
    ) -> Self {
        let mut suspects = Suspects::new(config);
        let journal = directory.and_then(|directory| match Journal::open(directory, seats) {
            Ok((journal, found)) => {
                for (mark, crashes) in found.suspects {
                    crashes.into_iter().for_each(|crash| suspects.add(mark, crash));
                }
                for down in &found.crashes {
                    tracing::warn!(suspects = down.marks.len(), "consumer.crashed");
                }
                Some(journal)
            }
            Err(problem) => {
                tracing::warn!(%problem, "consumer.no_journal");
                None
            }
        });
        let any = AtomicBool::new(!suspects.is_empty());
        let pills = Self { evidence, any, suspects: Mutex::new(suspects), journal };
        pills.keep(&pills.lock());
        pills
    }

    pub(crate) fn look(&self, mark: Mark, unexplained: u32, now: Timestamp) -> Standing {
        let unexplained = match self.evidence {
            Evidence::OurDeath => unexplained,
            Evidence::LostConnection => 0,
        };
        if unexplained == 0 && !self.any.load(Ordering::Relaxed) {
            return Standing::Innocent;
        }
        self.lock().look(mark, unexplained, now)
    }

    /// Before the handler.
    pub(crate) fn enter(&self, mark: Mark, now: Timestamp) -> InHandler<'_> {
        let journal = self.journal.as_ref().filter(|_| self.evidence == Evidence::OurDeath);
        InHandler(journal.map(|journal| (journal, Some(journal.enter(mark, now)))))
    }

    /// Whether a message that kills its handler is found without the broker's help.
    pub(crate) fn finds_pills(&self) -> bool {
        self.evidence == Evidence::LostConnection || self.journal.is_some()
    }

    /// Where this consumer alone keeps its things.
    pub(crate) fn place(&self) -> Option<&Path> {
        self.journal.as_ref().map(Journal::place)
    }

    /// The handler went away with it.
    pub(crate) fn lost(&self, mark: Mark, alone: bool, now: Timestamp) {
        let mut suspects = self.lock();
        suspects.add(mark, Crash { at: now, alone });
        self.any.store(true, Ordering::Relaxed);
        self.keep(&suspects);
    }

    /// It came through, or is safe in a dead-letter queue.
    pub(crate) fn cleared(&self, mark: Mark) {
        if !self.any.load(Ordering::Relaxed) {
            return;
        }
        let mut suspects = self.lock();
        if suspects.cleared(mark) {
            self.any.store(!suspects.is_empty(), Ordering::Relaxed);
            self.keep(&suspects);
        }
    }

    /// The end of a shutdown: nobody is in the handler, and nobody who was is a suspect because of it.
    pub(crate) fn clear(&self) {
        if let Some(journal) = &self.journal {
            journal.clear();
        }
    }

    /// Remembers an attempt that no broker counts, over a restart.
    pub(crate) fn note(&self, mark: Mark, attempt: Attempt, first_failed_at: Timestamp) {
        if let Some(journal) = &self.journal {
            journal.note(mark, attempt, first_failed_at);
        }
    }

    pub(crate) fn recall(&self, mark: Mark) -> Option<(Attempt, Timestamp)> {
        self.journal.as_ref().and_then(|journal| journal.recall(mark))
    }

    pub(crate) fn forget(&self, mark: Mark) {
        if let Some(journal) = &self.journal {
            journal.forget(mark);
        }
    }

    fn keep(&self, suspects: &Suspects) {
        let Some(journal) = &self.journal else { return };
        if let Err(problem) = journal.keep(suspects) {
            tracing::warn!(%problem, "consumer.no_journal");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Suspects> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
