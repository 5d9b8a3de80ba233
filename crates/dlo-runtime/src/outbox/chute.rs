//! The way to one queue: in order, in batches, confirmed; on disk while it cannot be written.
//!
//! The ladder when it cannot: try again with growing pauses; after a few tries put letters on disk, up to the spool's
//! bound; then take no more, so that whoever hands over waits and the consumer stops receiving. When the queue can be
//! written again the disk goes first, so that the order stays. Retries are not put on disk: they wait in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::broker::{Outgoing, PublishError, Settlement};
use dlo_core::envelope::{Envelope, replay_mark};
use dlo_core::id::DeathId;
use dlo_core::message::Message;
use dlo_core::reason::Reason;
use dlo_core::verdict::VerdictKind;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::graves::Name;
use super::keeping::Keeping;
use super::{Awaited, Content, Parcel, Ways};
use crate::events::{DeadLettered, Event};
use crate::spool::Spool;

/// Published at once: messages, and bytes.
pub(super) const BATCH: usize = 512;
pub(super) const BATCH_BYTES: usize = 8 * 1024 * 1024;
/// Pauses while the queue cannot be written: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LAST_PAUSE: Duration = Duration::from_secs(30);
/// Bytes that are cut off a letter at least, where nobody says how many are too much.
const LEAST_CUT: usize = 256;
/// Tries before letters go to disk.
const PATIENCE: u32 = 3;

pub(super) struct Chute {
    pub(super) ways: Arc<Ways>,
    pub(super) queue: String,
    /// Oldest first. With something on disk, all of it is younger than that.
    pub(super) waiting: VecDeque<Parcel>,
    /// Larger than the queue takes, with nothing left to cut: tried again now and then.
    aside: Vec<Parcel>,
    aside_due: Instant,
    /// Larger than the queue takes, on their way to the office or to disk.
    pub(super) keeping: Keeping,
    pub(super) spool: Option<Spool>,
    /// By which the letters on disk are known, in their order.
    pub(super) on_disk: VecDeque<(DeathId, Name)>,
    /// What is known of the letters at the front of the disk. One that is confirmed waits for those before it.
    pub(super) ahead: VecDeque<Sent>,
    pub(super) names: u64,
    pub(super) limit: usize,
    /// The queue has fewer partitions than the one the messages come from.
    pub(super) any_partition: bool,
    /// So many of those that wait are sent one by one: the server refused them together as too large.
    one_by_one: usize,
}

/// What is known of a letter on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    No,
    /// It was published and not confirmed, maybe by an earlier life of the consumer.
    Maybe,
    Confirmed,
}

/// How a try to write went.
pub(super) enum Tried {
    Well,
    /// Not confirmed: the same again, later.
    Not(String),
}

impl Chute {
    pub(super) fn new(ways: Arc<Ways>, queue: String) -> Self {
        let limit = ways.publisher.capabilities().max_message;
        Self {
            ways,
            queue,
            waiting: VecDeque::new(),
            aside: Vec::new(),
            aside_due: Instant::now(),
            keeping: Keeping::default(),
            spool: None,
            on_disk: VecDeque::new(),
            ahead: VecDeque::new(),
            names: 0,
            limit,
            any_partition: false,
            one_by_one: 0,
        }
    }

    pub(super) async fn run(mut self, mut parcels: mpsc::Receiver<Parcel>) {
        if self.spool.is_none() {
            self.open_spool().await;
        }
        let mut pause = FIRST_PAUSE;
        let mut failures = 0;
        loop {
            if !self.fill(&mut parcels).await {
                return;
            }
            let tried =
                if self.on_disk.is_empty() { self.send_waiting().await } else { self.send_disk().await };
            let Tried::Not(problem) = tried else {
                (pause, failures) = (FIRST_PAUSE, 0);
                continue;
            };
            self.ways.watch.saw(&Event::NotWritten { queue: &self.queue, problem: &problem });
            failures += 1;
            if !self.sit_out(pause, failures >= PATIENCE, &mut parcels).await {
                return self.finish_keeping().await;
            }
            pause = (pause * 2).min(LAST_PAUSE);
        }
    }

    /// Waits for something to write. `false`: nobody hands over any more, and nothing is left.
    async fn fill(&mut self, parcels: &mut mpsc::Receiver<Parcel>) -> bool {
        while let Some(outcome) = self.keeping.finished() {
            self.on_kept(Some(outcome));
        }
        self.retry_aside();
        let mut is_closed = false;
        while self.waiting.is_empty() && self.on_disk.is_empty() {
            let due = self.aside_due;
            tokio::select! {
                biased;
                kept = self.keeping.next(), if !self.keeping.is_empty() => self.on_kept(kept),
                parcel = parcels.recv(), if !is_closed => match parcel {
                    Some(parcel) => self.waiting.push_back(parcel),
                    None => is_closed = true,
                },
                () = tokio::time::sleep_until(due), if !is_closed && !self.aside.is_empty() => self.retry_aside(),
                else => return false,
            }
        }
        while self.waiting.len() < BATCH
            && let Ok(parcel) = parcels.try_recv()
        {
            self.waiting.push_back(parcel);
        }
        true
    }

    fn retry_aside(&mut self) {
        if !self.aside.is_empty() && Instant::now() >= self.aside_due {
            self.waiting.extend(self.aside.drain(..));
            self.aside_due = Instant::now() + LAST_PAUSE;
        }
    }

    async fn send_waiting(&mut self) -> Tried {
        let mut batch = Vec::new();
        let mut outgoing = Vec::new();
        let mut bytes = 0;
        let most = if self.one_by_one > 0 { 1 } else { BATCH };
        self.one_by_one = self.one_by_one.saturating_sub(1);
        while batch.len() < most && bytes < BATCH_BYTES {
            let Some(parcel) = self.waiting.pop_front() else { break };
            match parcel.write(&self.ways.words, self.limit) {
                Ok(message) => {
                    bytes += message.payload.0.len();
                    outgoing.push(self.outgoing(&parcel, message));
                    batch.push(parcel);
                }
                Err(too_large) => self.does_not_fit(parcel, &too_large.to_string()),
            }
        }
        if batch.is_empty() {
            return Tried::Well;
        }
        let results = self.ways.publisher.publish(outgoing).await;
        let mut unwritten = Vec::new();
        let mut problem = None;
        let mut results = results.into_iter();
        let sent = batch.len();
        for mut parcel in batch {
            let result = results
                .next()
                .unwrap_or_else(|| Err(PublishError::Unconfirmed("the publisher gave no result".to_owned())));
            match result {
                Ok(_) => self.confirmed(parcel),
                Err(error) => {
                    if may_be_there(&error) {
                        parcel.mark_redelivered();
                    }
                    if !self.adapts(&error) && !self.shrinks(&mut parcel, &error, sent) {
                        problem.get_or_insert_with(|| error.to_string());
                    }
                    unwritten.push(parcel);
                }
            }
        }
        for parcel in unwritten.into_iter().rev() {
            self.waiting.push_front(parcel);
        }
        problem.map_or(Tried::Well, Tried::Not)
    }

    fn outgoing(&self, parcel: &Parcel, message: Message) -> Outgoing {
        let mut to = parcel.to.clone();
        if self.any_partition {
            to.partition = None;
        }
        Outgoing { to, message, delay: parcel.delay }
    }

    /// Whether the next try will be another one, and may be made at once.
    pub(super) fn adapts(&mut self, error: &PublishError) -> bool {
        match error {
            // It counts otherwise than we do: cut by what was too much.
            PublishError::TooLarge { size, limit } if size > limit && self.limit > size - limit => {
                self.limit -= size - limit;
                true
            }
            PublishError::Refused(_) if !self.any_partition => {
                self.any_partition = true;
                true
            }
            _ => false,
        }
    }

    /// The server takes less than its client knows, for example because of a limit of the topic. It may have meant all that
    /// was sent together, so they are sent one by one. What is alone is cut by half of its story each time.
    fn shrinks(&mut self, parcel: &mut Parcel, error: &PublishError, sent: usize) -> bool {
        let PublishError::TooLarge { size, .. } = *error else { return false };
        if sent > 1 {
            self.one_by_one = sent;
        } else {
            let story = size.saturating_sub(dlo_core::envelope::size(&parcel.message));
            parcel.limit = Some(size.saturating_sub((story / 2).max(LEAST_CUT)));
        }
        true
    }

    pub(super) fn put_aside(&mut self, mut parcel: Parcel, problem: &str) {
        parcel.limit = None;
        self.ways.watch.saw(&Event::NotWritten { queue: &self.queue, problem });
        if self.aside.is_empty() {
            self.aside_due = Instant::now() + LAST_PAUSE;
        }
        self.aside.push(parcel);
        // The limit may have been cut for another message, by a server that counted its route: begin anew.
        self.limit = self.ways.publisher.capabilities().max_message;
    }

    pub(super) fn confirmed(&self, mut parcel: Parcel) {
        ring(parcel.awaited.take());
        if let Content::Letter { envelope, .. } = &parcel.content {
            self.tell_death(envelope, &parcel.message);
        }
        self.ways.settling.settle(parcel.right.settle(Settlement::Done));
    }

    pub(super) fn tell_death(&self, envelope: &Envelope, message: &Message) {
        let (Some(death), Some(origin)) = (envelope.death_id, envelope.origin.origin()) else { return };
        let replay = replay_mark(&message.headers);
        self.ways.watch.saw(&Event::DeadLettered(DeadLettered {
            death,
            origin: &origin,
            queue: &self.queue,
            consumer: envelope.consumer_group.as_deref().unwrap_or_default(),
            event_type: message.headers.event_type(),
            error_class: envelope.error_class.as_deref().unwrap_or_default(),
            reason: envelope.reason.unwrap_or(Reason::ProcessingError),
            verdict: envelope.verdict.unwrap_or(VerdictKind::DeadLetter),
            rule: envelope.rule.as_deref().unwrap_or_default(),
            attempts: envelope.attempts.unwrap_or_default(),
            replay: replay.as_ref(),
        }));
    }
}

/// Whether the message may be in its queue although the call failed.
pub(super) fn may_be_there(error: &PublishError) -> bool {
    match error {
        PublishError::TooLarge { .. } | PublishError::Refused(_) | PublishError::NotSent(_) => false,
        // `Unconfirmed`, and every error that does not say more.
        _ => true,
    }
}

/// Tells whoever waits for it that a parcel is safe.
pub(super) fn ring(awaited: Option<Awaited>) {
    if let Some(Awaited::Kept(rung) | Awaited::Confirmed(rung)) = awaited {
        // Nobody waits any more when the consumer ends.
        let _ = rung.send(());
    }
}
