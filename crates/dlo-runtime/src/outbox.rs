//! What leaves this consumer: dead letters and retries that are published anew, confirmed before their originals are
//! settled.
//!
//! Each queue has a chute of its own, so one that cannot be written holds up no other. Who hands something over is done:
//! the chute writes it, keeps it, and settles the original when it is confirmed. A crash before that leaves the
//! original unsettled; the death's id is made from the message's place, so a second letter is recognised. What
//! waits in memory is bounded by what may be unsettled; what waits on disk by the spool.

mod chute;
mod disk;
mod graves;
mod keeping;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use dlo_core::broker::{Destination, Publisher, Settlement, Unsettled};
use dlo_core::conventions::emit::Compatibility;
use dlo_core::envelope::{BodyTooLarge, Envelope, RetryHop, aim_at, encode_hop};
use dlo_core::id::DeathId;
use dlo_core::message::Message;
use dlo_core::units::ByteSize;
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinSet;

use crate::events::Watch;
use crate::large::{self, LargeLetters};
use crate::letters;
use crate::room::{Room, Weight};
use crate::settling::Settling;
use chute::Chute;
pub(crate) use graves::Graves;

/// Handed over and not yet looked at, per queue.
const HANDED_OVER: usize = 512;

/// What is to be written.
#[derive(Debug)]
pub(crate) enum Content {
    /// `known`: the death's id stands for one place at the broker, so that the original is known when it comes again.
    /// `file`: its body is in a file of this name, and only a pointer goes to the queue.
    Letter { envelope: Box<Envelope>, known: bool, file: Option<String> },
    /// `aim`: the only group that is meant, where all groups of the queue see it.
    Retry { hop: Box<RetryHop>, aim: Option<String> },
}

/// Somebody who goes on when a parcel is safe, and what is safe enough for them.
#[derive(Debug)]
pub(crate) enum Awaited {
    /// On our disk, where this instance finds it again.
    Kept(oneshot::Sender<()>),
    /// In its queue: another instance, to which the original may go, does not see our disk.
    Confirmed(oneshot::Sender<()>),
}

/// What is known of a message whose letter may have been written already.
#[derive(Debug)]
pub(crate) enum Adopted {
    /// Nothing: it is worked on.
    Unknown(Unsettled),
    /// Its letter is on disk, and settles it. Rings when the letter is confirmed.
    Waits(oneshot::Receiver<()>),
    /// Its letter is where it belongs, and it is settled.
    Settled,
}

/// One message on its way out, with the right to settle its original.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) to: Destination,
    pub(crate) delay: Option<Duration>,
    pub(crate) message: Message,
    pub(crate) content: Content,
    pub(crate) right: Unsettled,
    pub(crate) awaited: Option<Awaited>,
    /// Less than the queue takes by what its client knows: the server refused more.
    pub(crate) limit: Option<usize>,
    /// Where large letters are kept, once it went there: each try has the same name.
    pub(crate) large_name: Option<String>,
    /// Of its body, until that is elsewhere.
    #[expect(dead_code, reason = "held, not read: it weighs as long as it is there")]
    pub(crate) weight: Weight,
}

impl Parcel {
    /// It was published and not confirmed, so it may be there already: the next copy says so.
    fn mark_redelivered(&mut self) {
        let (origin, mark) = match &mut self.content {
            Content::Letter { envelope, .. } => (&envelope.origin, &mut envelope.redelivered),
            Content::Retry { hop, .. } => (&hop.origin, &mut hop.redelivered),
        };
        *mark |= origin.origin().is_none_or(|origin| !origin.has_coordinates());
    }

    /// Its body is on disk now: only a pointer goes to the queue.
    fn point_to(&mut self, file: String) {
        self.limit = None;
        if let Content::Letter { file: body, .. } = &mut self.content {
            *body = Some(file);
        }
    }

    fn write(&self, words: &[Compatibility], limit: usize) -> Result<Message, BodyTooLarge> {
        let limit = self.limit.map_or(limit, |less| less.min(limit));
        match &self.content {
            Content::Letter { envelope, file: Some(file), .. } => {
                large::pointer(&self.message, envelope, file, limit)
            }
            Content::Letter { envelope, file: None, .. } => {
                letters::write(&self.message, envelope, words, limit)
            }
            Content::Retry { hop, aim } => {
                let mut copy = encode_hop(&self.message, hop, limit)?;
                if let Some(group) = aim {
                    aim_at(&mut copy.headers, group);
                }
                Ok(copy)
            }
        }
    }
}

/// What all chutes share.
pub(crate) struct Ways {
    pub(crate) publisher: Arc<dyn Publisher>,
    pub(crate) settling: Settling,
    pub(crate) watch: Arc<dyn Watch>,
    pub(crate) words: Vec<Compatibility>,
    /// Keeps letters that are too large for their queue.
    pub(crate) large: Option<Arc<dyn LargeLetters>>,
    /// Where letters wait while their queue cannot be written; `None`: nothing is kept on disk.
    pub(crate) spool: Option<PathBuf>,
    pub(crate) spool_bytes: ByteSize,
    pub(crate) room: Arc<Room>,
    pub(crate) graves: Graves,
}

pub(crate) struct Outbox {
    ways: Arc<Ways>,
    chutes: Mutex<Chutes>,
}

#[derive(Default)]
struct Chutes {
    by_queue: HashMap<String, mpsc::Sender<Parcel>>,
    workers: JoinSet<()>,
}

impl Outbox {
    pub(crate) fn new(ways: Ways) -> Self {
        Self { ways: Arc::new(ways), chutes: Mutex::default() }
    }

    /// Opens the chutes for which letters of an earlier life wait on disk, before anything is received: their originals
    /// must be known when they come.
    pub(crate) async fn take_up(&self) {
        let Some(directory) = &self.ways.spool else { return };
        for queue in disk::left_behind(directory) {
            let mut chute = Chute::new(Arc::clone(&self.ways), queue);
            chute.open_spool().await;
            let mut chutes = self.chutes.lock().unwrap_or_else(PoisonError::into_inner);
            chutes.start(chute);
        }
    }

    /// Hands it over. Waits only when its queue has not been writable for so long that nothing more is taken.
    pub(crate) async fn send(&self, parcel: Parcel) {
        let chute = self.chute(&parcel.to.queue);
        // A chute ends only with its consumer: then the original is delivered again.
        let _ = chute.send(parcel).await;
    }

    /// A message whose letter waits on disk already, or was confirmed since the start, is not handled again: it is
    /// settled with its letter.
    pub(crate) fn adopt(&self, death: DeathId, right: Unsettled) -> Adopted {
        match self.ways.graves.adopt(death, right) {
            // Either way there is one delivery more in hand than the broker will be told of, or one letter more on disk.
            graves::Adoption::Waits { again, confirmed } => {
                if again {
                    self.ways.room.settled(1)
                } else {
                    self.ways.room.spooled(1)
                }
                Adopted::Waits(confirmed)
            }
            graves::Adoption::Confirmed(right) => {
                self.ways.settling.settle(right.settle(Settlement::Done));
                Adopted::Settled
            }
            graves::Adoption::Unknown(right) => Adopted::Unknown(right),
        }
    }

    /// Whether anything is kept that a message might be recognised by.
    pub(crate) fn has_graves(&self) -> bool {
        !self.ways.graves.is_empty()
    }

    /// Writes what was handed over, as long as it can be written; then no more.
    pub(crate) async fn close(&self) {
        let mut workers = {
            let mut chutes = self.chutes.lock().unwrap_or_else(PoisonError::into_inner);
            chutes.by_queue.clear();
            std::mem::take(&mut chutes.workers)
        };
        while workers.join_next().await.is_some() {}
    }

    fn chute(&self, queue: &str) -> mpsc::Sender<Parcel> {
        let mut chutes = self.chutes.lock().unwrap_or_else(PoisonError::into_inner);
        match chutes.by_queue.get(queue) {
            Some(known) => known.clone(),
            None => chutes.start(Chute::new(Arc::clone(&self.ways), queue.to_owned())),
        }
    }
}

impl Chutes {
    fn start(&mut self, chute: Chute) -> mpsc::Sender<Parcel> {
        let (sender, parcels) = mpsc::channel(HANDED_OVER);
        self.by_queue.insert(chute.queue.clone(), sender.clone());
        self.workers.spawn(chute.run(parcels));
        sender
    }
}
