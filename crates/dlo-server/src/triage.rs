//! Triage in the office: what belongs to a group beside its numbers, and the small work that is done behind.
//!
//! `whole.rs` puts together what one screen, or one answer, tells of a group. The loops here wake snoozed groups, forget old
//! buckets of trends, move the letters of groups that were split, and count the ages of open letters, which is too dear to
//! be done for each who asks.

mod whole;

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use dlo_core::known::KnownPatterns;
use dlo_core::teams::Teams;
use dlo_core::time::Timestamp;
use dlo_store::triage::AgeCount;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::office::Office;

pub(crate) use whole::{Whole, sample, whole};

/// How often snoozes are looked at.
const TICK: Duration = Duration::from_secs(20);
/// Ages are counted anew after so many times of what it took to count them, within these bounds: a small office shows what
/// is, a large one spends little of a core on it.
const AGES_SHARE: u32 = 50;
const AGES_SOONEST: Duration = Duration::from_secs(2);
const AGES_LATEST: Duration = Duration::from_secs(300);
/// After an error.
const AGES_AGAIN: Duration = Duration::from_secs(5);
/// Old buckets of trends are forgotten every so many ticks: once an hour, since it looks at every group.
const HOURLY: u32 = 180;

/// What is known of failures, teams and ages. Rules may change while the office runs.
#[derive(Debug, Default)]
pub(crate) struct TriageDesk {
    known: RwLock<Option<Arc<KnownPatterns>>>,
    teams: RwLock<Arc<Teams>>,
    ages: RwLock<Option<Ages>>,
    /// Somebody split a group: its letters wait to be moved.
    split_made: Notify,
}

/// How old open letters were at a time.
#[derive(Debug, Clone)]
pub(crate) struct Ages {
    pub(crate) at: Timestamp,
    pub(crate) counts: Vec<AgeCount>,
}

impl TriageDesk {
    pub(crate) fn new(known: Option<KnownPatterns>, teams: Teams) -> Self {
        let desk = Self::default();
        desk.set(known, teams);
        desk
    }

    /// From now on these patterns and teams are known. Without patterns, the built-in ones are.
    pub(crate) fn set(&self, known: Option<KnownPatterns>, teams: Teams) {
        let known = known.or_else(|| KnownPatterns::compile(Vec::new()).ok());
        *self.known.write().unwrap_or_else(PoisonError::into_inner) = known.map(Arc::new);
        *self.teams.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(teams);
    }

    pub(crate) fn known(&self) -> Option<Arc<KnownPatterns>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Has the letters of a group that was just split moved now instead of at the next tick.
    pub(crate) fn split_made(&self) {
        self.split_made.notify_one();
    }

    pub(crate) fn teams(&self) -> Arc<Teams> {
        self.teams.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The ages as they were counted last; `None` shortly after a start.
    pub(crate) fn ages(&self) -> Option<Ages> {
        self.ages.read().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Tends groups and counts ages until `stop`. Every server does: all of it may be done twice.
pub(crate) async fn run(office: Arc<Office>, stop: CancellationToken) {
    let counting = stop.run_until_cancelled(count_ages(&office));
    let (_, (), ()) = tokio::join!(counting, tend(&office, &stop), move_splits(&office, &stop));
}

async fn tend(office: &Office, stop: &CancellationToken) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut ticks = 0_u32;
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        if ticks.is_multiple_of(HOURLY)
            && let Err(error) = office.store.forget_trends(office.now()).await
        {
            tracing::warn!(%error, "old buckets of trends are forgotten an hour later");
        }
        ticks = ticks.wrapping_add(1);
        match office.store.tend_groups(office.now()).await {
            Ok(0) => {}
            Ok(woken) => tracing::info!(groups = woken, "snoozed groups woke"),
            Err(error) => tracing::warn!(%error, "groups are tended when the store answers again"),
        }
    }
}

/// Moves letters of groups that were split, when one was and now and then: another server may have made a split and died.
async fn move_splits(office: &Office, stop: &CancellationToken) {
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        let woken = async {
            tokio::select! {
                _ = tick.tick() => {}
                () = office.triage.split_made.notified() => {}
            }
        };
        if stop.run_until_cancelled(woken).await.is_none() {
            return;
        }
        // Each call is one transaction: what stops in between goes on where it stood.
        while !stop.is_cancelled() {
            match office.store.move_split_letters(office.now()).await {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, "letters of a group that was split are moved when the store answers again");
                    break;
                }
            }
        }
    }
}

async fn count_ages(office: &Office) {
    loop {
        let (at, began) = (office.now(), Instant::now());
        let pause = match office.store.open_ages(at).await {
            Ok(counts) => {
                let ages = Some(Ages { at, counts });
                *office.triage.ages.write().unwrap_or_else(PoisonError::into_inner) = ages;
                began.elapsed().saturating_mul(AGES_SHARE).clamp(AGES_SOONEST, AGES_LATEST)
            }
            Err(error) => {
                tracing::warn!(%error, "the ages of open letters are counted when the store answers again");
                AGES_AGAIN
            }
        };
        tokio::time::sleep(pause).await;
    }
}
