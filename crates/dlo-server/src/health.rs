//! Whether the office can do its work: asked by `/readyz`, and all the time for the list of troubles.
//!
//! One function decides ([`look`]), so that a probe, the banner and the metric never disagree.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dlo_core::time::Timestamp;
use dlo_core::trouble::TroubleKind;
use dlo_store::StoreError;
use tokio_util::sync::CancellationToken;

use crate::office::Office;

/// How often the office looks, and how long the store may take to answer. A recovery is seen within their sum.
const EVERY: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(3);

/// Why the office cannot do its work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unready {
    pub(crate) kind: TroubleKind,
    pub(crate) why: String,
}

/// What was seen last, and since when it is so.
#[derive(Debug, Default)]
pub(crate) struct Health(Mutex<Option<(Unready, Timestamp)>>);

impl Health {
    /// Why the office cannot do its work, and since when; `None`: it can.
    pub(crate) fn unready(&self) -> Option<(Unready, Timestamp)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn record(&self, seen: Option<Unready>, now: Timestamp) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let since = known.as_ref().map_or(now, |(_, since)| *since);
        *known = seen.map(|unready| (unready, since));
    }
}

/// Asks the store. `patience`: how long it may take to answer.
pub(crate) async fn look(office: &Office, patience: Duration) -> Result<(), Unready> {
    let unready = |kind: TroubleKind, why: String| Err(Unready { kind, why });
    let disk_full =
        |error: StoreError| unready(TroubleKind::DiskFull, format!("the office takes no letters: {error}"));
    match tokio::time::timeout(patience, office.store.ping()).await {
        Ok(Ok(())) => office.full_disk.error().map_or(Ok(()), disk_full),
        Ok(Err(error)) if error.is_disk_full() => disk_full(error),
        Ok(Err(error)) => unready(TroubleKind::StoreUnavailable, error.to_string()),
        Err(_) => {
            let why = format!("the store did not answer within {} seconds", patience.as_secs());
            unready(TroubleKind::StoreUnavailable, why)
        }
    }
}

/// Looks until the office stops.
pub(crate) async fn watch(office: Arc<Office>, stop: CancellationToken) {
    loop {
        let Some(seen) = stop.run_until_cancelled(look(&office, PATIENCE)).await else { return };
        office.health.record(seen.err(), office.now());
        if stop.run_until_cancelled(tokio::time::sleep(EVERY)).await.is_none() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unready(why: &str) -> Option<Unready> {
        Some(Unready { kind: TroubleKind::StoreUnavailable, why: why.to_owned() })
    }

    #[test]
    fn the_beginning_is_kept_while_the_reason_changes_and_forgotten_with_the_recovery() {
        let (health, at) = (Health::default(), |seconds: i64| Timestamp::from_millis(seconds * 1_000));
        health.record(unready("refused"), at(1));
        health.record(unready("no answer"), at(2));
        let (now, since) = health.unready().unwrap();
        assert_eq!((now.why.as_str(), since), ("no answer", at(1)));
        health.record(None, at(3));
        assert_eq!(health.unready(), None);
        health.record(unready("refused"), at(4));
        assert_eq!(health.unready().unwrap().1, at(4));
    }
}
