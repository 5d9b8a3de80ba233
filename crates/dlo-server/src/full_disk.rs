//! Remembers that letters were refused because a disk is full, for stores that only notice it when they write.
//!
//! The memory ends with the next letters that are stored, or after half a minute: probes keep traffic away from an office that
//! is not ready, so that without an end no letters would come to show that there is space again.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use dlo_store::StoreError;

/// How long a refusal is believed.
const BELIEVED: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(crate) struct FullDisk {
    /// Whether there is something to forget: all that a batch looks at while nothing is wrong.
    is_known: AtomicBool,
    last: Mutex<Option<(Instant, StoreError)>>,
}

impl FullDisk {
    /// Takes note of the outcome of an insert.
    pub(crate) fn note(&self, error: Option<&StoreError>) {
        let now = match error {
            Some(error) if error.is_disk_full() => Some((Instant::now(), error.clone())),
            // What else goes wrong says nothing of the disk.
            Some(_) => return,
            None if !self.is_known.load(Ordering::Relaxed) => return,
            None => None,
        };
        self.is_known.store(now.is_some(), Ordering::Relaxed);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Why letters were refused a moment ago.
    pub(crate) fn error(&self) -> Option<StoreError> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        last.as_ref().filter(|(at, _)| at.elapsed() < BELIEVED).map(|(_, error)| error.clone())
    }
}

#[cfg(test)]
mod tests {
    use dlo_store::Disk;

    use super::*;

    #[test]
    fn a_full_disk_is_known_until_letters_are_stored() {
        let (known, full) = (FullDisk::default(), StoreError::DiskFull(Disk::Database));
        known.note(None);
        assert!(known.error().is_none());
        known.note(Some(&full));
        known.note(Some(&StoreError::Overloaded));
        assert!(known.error().is_some_and(|error| error.to_string().contains("PostgreSQL")));
        known.note(None);
        assert!(known.error().is_none());
    }
}
