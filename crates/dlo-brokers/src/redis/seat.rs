//! The seat of one consumer in its group: who it is, what it holds, and how far it is.
//!
//! Shared by the source, its settler, its keeper and the read that is under way.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use dlo_core::broker::{BrokerError, DeliveryTag};
use tokio::time::Instant;

use super::connection::Link;
use super::id::EntryId;
use super::{Names, Shared};

#[derive(Debug)]
pub(super) struct Seat {
    pub(super) shared: Arc<Shared>,
    pub(super) names: Names,
    /// The consumer's name. Never used twice, so what lies under it is this seat's.
    pub(super) me: String,
    /// What is done is deleted as well.
    pub(super) drain: bool,
    /// For reads, which block.
    pub(super) link: Link,
    pub(super) progress: tokio::sync::Mutex<Progress>,
    hands: Mutex<Hands>,
    left: AtomicBool,
}

/// What is handed out and not settled, and what was settled without an answer. Bounded by what the server gave us.
#[derive(Debug, Default)]
struct Hands {
    next: u64,
    held: HashMap<u64, EntryId>,
    doubtful: Vec<EntryId>,
}

/// How far reading is. Behind an asynchronous lock: one read at a time.
#[derive(Debug)]
pub(super) struct Progress {
    /// The number of the connection that was used last.
    pub(super) opened: u64,
    /// From where on my own pending entries are delivered again, after a connection was lost.
    pub(super) own: String,
    /// From where on idle entries of others are looked for, and when.
    pub(super) idling: String,
    pub(super) idle_look: Instant,
}

impl Seat {
    pub(super) fn new(shared: Arc<Shared>, names: Names, drain: bool) -> Self {
        let link = shared.link.another();
        let me = format!("dlo-{}-{:016x}", std::process::id(), rand::random::<u64>());
        let progress =
            Progress { opened: 0, own: String::new(), idling: "-".to_owned(), idle_look: Instant::now() };
        Self {
            shared,
            names,
            me,
            drain,
            link,
            progress: tokio::sync::Mutex::new(progress),
            hands: Mutex::default(),
            left: AtomicBool::new(false),
        }
    }

    /// Creates the group, from the oldest entry on, if it is not there. Never creates the stream.
    pub(super) async fn take_place(&self) -> Result<(), BrokerError> {
        let mut create = redis::cmd("XGROUP");
        create.arg("CREATE").arg(&self.names.stream).arg(&self.names.group).arg("0");
        match self.shared.link.command::<redis::Value>(&create).await {
            Ok(_) => Ok(()),
            Err(failure) if failure.code() == Some("BUSYGROUP") => Ok(()),
            Err(failure) => match failure.into() {
                // Redis says it in a sentence without a code of its own.
                BrokerError::Refused(why) if why.contains("requires the key to exist") => {
                    Err(BrokerError::Missing(self.names.stream.clone()))
                }
                other => Err(other),
            },
        }
    }

    fn hands(&self) -> MutexGuard<'_, Hands> {
        self.hands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn hand_out(&self, ids: impl Iterator<Item = EntryId>) -> Vec<DeliveryTag> {
        let mut hands = self.hands();
        ids.map(|id| {
            hands.next += 1;
            let tag = hands.next;
            hands.held.insert(tag, id);
            DeliveryTag(tag)
        })
        .collect()
    }

    /// The entry of a tag, which is not held any more. `None` for a tag that is not of this seat.
    pub(super) fn let_go(&self, tags: impl Iterator<Item = DeliveryTag>) -> Vec<Option<EntryId>> {
        let mut hands = self.hands();
        tags.map(|tag| hands.held.remove(&tag.0)).collect()
    }

    /// Remembers entries whose settlement was not answered: if they are still held, they are delivered again.
    pub(super) fn doubt(&self, ids: impl Iterator<Item = EntryId>) {
        self.hands().doubtful.extend(ids);
    }

    pub(super) fn doubtful(&self) -> Vec<EntryId> {
        std::mem::take(&mut self.hands().doubtful)
    }

    /// From here on nothing is settled any more: what was held is being handed to others.
    pub(super) fn leave(&self) {
        self.left.store(true, Ordering::Release);
    }

    pub(super) fn has_left(&self) -> bool {
        self.left.load(Ordering::Acquire)
    }
}
