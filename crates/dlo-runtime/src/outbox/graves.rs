//! Letters that wait on disk, by the id of their death, and the right to settle their originals.
//!
//! A spooled letter's original stays unsettled. When the broker delivers it once more (after a lost connection, a lease that
//! ran out, a crash of ours) its new right takes the place of the old one. What an earlier life left has no right until
//! its original comes; its id is kept when the letter is confirmed, so that the original is settled and not handled.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use dlo_core::broker::Unsettled;
use dlo_core::id::DeathId;
use tokio::sync::oneshot;

/// One letter on disk.
#[derive(Debug)]
enum Grave {
    /// With the newest right, if its original was seen, and whoever goes on when the letter is confirmed.
    Waits(Option<Unsettled>, Option<oneshot::Sender<()>>),
    /// Confirmed before its original came.
    Confirmed,
}

/// By which a letter on disk is known: the id of its death, or where that may be shared, a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Name {
    Known(DeathId),
    Nameless(u64),
}

#[derive(Debug, Default)]
pub(crate) struct Graves(Mutex<HashMap<Name, Grave>>);

/// What is known of a message that came.
#[derive(Debug)]
pub(super) enum Adoption {
    /// Its letter waits on disk; it is settled with it. `again`: it had been delivered before, and that delivery is void.
    Waits {
        again: bool,
        confirmed: oneshot::Receiver<()>,
    },
    /// Its letter is where it belongs: settle it.
    Confirmed(Unsettled),
    Unknown(Unsettled),
}

impl Graves {
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// A letter was written to disk; `right`: unless an earlier life wrote it.
    pub(super) fn dig(&self, name: Name, right: Option<Unsettled>, confirmed: Option<oneshot::Sender<()>>) {
        self.lock().insert(name, Grave::Waits(right, confirmed));
    }

    pub(super) fn adopt(&self, death: DeathId, right: Unsettled) -> Adoption {
        let name = Name::Known(death);
        let mut graves = self.lock();
        match graves.get_mut(&name) {
            None => Adoption::Unknown(right),
            Some(Grave::Waits(kept, waiting)) => {
                // The older right is void: the broker gave the message out anew. So is the wait of who had it.
                let again = kept.replace(right).is_some();
                let (rung, confirmed) = oneshot::channel();
                *waiting = Some(rung);
                Adoption::Waits { again, confirmed }
            }
            Some(Grave::Confirmed) => {
                graves.remove(&name);
                Adoption::Confirmed(right)
            }
        }
    }

    /// The letter was confirmed: the right to settle its original, if that was seen.
    pub(super) fn confirmed(&self, name: Name) -> Option<Unsettled> {
        let mut graves = self.lock();
        match graves.remove(&name) {
            Some(Grave::Waits(Some(right), waiting)) => {
                if let Some(waiting) = waiting {
                    // Nobody waits any more when the consumer ends.
                    let _ = waiting.send(());
                }
                Some(right)
            }
            Some(Grave::Waits(None, _) | Grave::Confirmed) => {
                graves.insert(name, Grave::Confirmed);
                None
            }
            None => None,
        }
    }

    /// The letter is not there any more, and was not confirmed.
    pub(super) fn forget(&self, name: Name) {
        self.lock().remove(&name);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Name, Grave>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
