//! What the store promises of replays: plans, frozen members, and the record of every send.
//!
//! The record is the truth. An item is *intended* before it is published and *sent* after the broker confirmed, each in a
//! transaction with its letter's step, counts and audit row. Whoever has a replay in hand holds its lease, and every
//! write of a run names that lease: a server that was paused and comes back writes nothing.

use std::time::Duration;

use async_trait::async_trait;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::message::Message;
use dlo_core::origin::Origin;
use dlo_core::query::Query;
use dlo_core::replay::{Item, ItemState, Replay, ReplayCause, ReplayState, Settings};
use dlo_core::time::Timestamp;

pub use dlo_core::replay::{PlanPolicy, SourcePolicy};

use crate::{Cursor, Deed, Lease, NewRepair, Page, Repair, Repaired, StoreError};

/// The lease of a replay: `replay/<id>`.
pub fn lease_name(id: ReplayId) -> String {
    format!("replay/{id}")
}

/// Everything that is written of replays. Every method has a conformance test that runs on both engines.
#[async_trait]
pub trait Replays: Send + Sync + std::fmt::Debug {
    /// Writes a plan with its members, frozen: the letters that match now and are not excluded, oldest failure first.
    /// What comes later is not part of it. All of it or nothing; capture goes on meanwhile. Members of several causes
    /// (source and error class) become children, run in the order of their oldest letter; then the plan itself has no items.
    async fn plan(&self, plan: NewReplay, now: Timestamp) -> Result<Replay, StoreError>;

    /// One replay with its counts; those of a parent are the sum of its children. [`StoreError::NoReplay`] if missing.
    async fn replay(&self, id: ReplayId) -> Result<Replay, StoreError>;

    /// The children of a replay, in their order.
    async fn children(&self, id: ReplayId) -> Result<Vec<Replay>, StoreError>;

    /// Replays without those that have a parent, newest first; only those in `state`, if given.
    async fn replays(&self, state: Option<ReplayState>, page: &Page) -> Result<ReplayPage, StoreError>;

    /// Replays that a server should have in hand: without children, and active, or over with items that are still
    /// [`ItemState::Sent`], claimed or intended, or halted with items that are intended. Oldest first.
    async fn active(&self) -> Result<Vec<Replay>, StoreError>;

    /// Items in the order of the replay; only those in `state`, if given.
    async fn items(
        &self,
        id: ReplayId,
        state: Option<ItemState>,
        page: &Page,
    ) -> Result<ItemPage, StoreError>;

    /// Moves a replay from one state to another, with an audit row. [`StoreError::Conflict`] with where it stands, if it
    /// does not stand in `from` or the move is not legal.
    async fn turn(&self, id: ReplayId, turn: Turn, deed: &Deed, now: Timestamp)
    -> Result<Replay, StoreError>;

    /// Replaces the settings of a replay that is not over (its pace, its guards), with an audit row.
    async fn adjust(
        &self,
        id: ReplayId,
        settings: Settings,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Replay, StoreError>;

    /// Notes that the author approves. The same author twice counts once.
    async fn approve(&self, id: ReplayId, deed: &Deed, now: Timestamp) -> Result<Replay, StoreError>;

    /// Claims up to `most` letters of the plan that are frozen, in order: those that are open become claimed, the others
    /// are short. One audit row says how many were claimed; every later step of a letter has a row of its own.
    async fn claim(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<Claimed, StoreError>;

    /// Marks up to `most` claimed items as intended and returns them whole, in order: from here on they may be published.
    /// Once they have [`BYTES_AT_ONCE`] of payload no further one is taken.
    /// Where the replay keeps order, an item is passed over while an earlier one of its key has no good end.
    /// None unless the replay is in canary or running: a pause is obeyed by the next call.
    async fn intend(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<Vec<ToSend>, StoreError>;

    /// Marks items in doubt as intended again and returns them whole, in order: sending them once more is safe, or is what
    /// the policy says. They keep the time of their first intent in [`Item::at`], by which a window of deduplication is
    /// judged. Items that are not in doubt are left. None unless the replay is in canary or running.
    async fn intend_again(
        &self,
        run: &Run<'_>,
        numbers: &[u64],
        now: Timestamp,
    ) -> Result<Vec<ToSend>, StoreError>;

    /// Records what became of intended items. An item that is no longer intended is left as it is (its letter came back
    /// before it was recorded).
    async fn record(
        &self,
        run: &Run<'_>,
        ends: Vec<(u64, SendEnd)>,
        now: Timestamp,
    ) -> Result<(), StoreError>;

    /// What a former holder had intended and not recorded is in doubt from now on; how many. What is in doubt, by this or by
    /// [`SendEnd::Doubtful`], keeps the time of its first intent in [`Item::at`].
    async fn doubt(&self, run: &Run<'_>, now: Timestamp) -> Result<u64, StoreError>;

    /// Settles items in doubt, or sent ones by a person's word; others are left. How many changed.
    async fn settle(
        &self,
        id: ReplayId,
        numbers: &[u64],
        how: Settling,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Keeps a note of the run with the replay (positions of the queue before its sends), replaced by the next.
    async fn mark(&self, run: &Run<'_>, mark: String, now: Timestamp) -> Result<(), StoreError>;

    /// The note that [`Replays::mark`] kept.
    async fn marked(&self, id: ReplayId) -> Result<Option<String>, StoreError>;

    /// Items that are sent, by the time of their send up to `before`, oldest first: what an outcome is looked for.
    async fn waiting(&self, id: ReplayId, before: Timestamp, most: usize) -> Result<Vec<Item>, StoreError>;

    /// Items that came back after `since`, with the class and time of the new death, oldest first.
    async fn returns(&self, id: ReplayId, since: Timestamp, most: usize) -> Result<Vec<Return>, StoreError>;

    /// Ends sent items as passed (the letter is recovered), routed (the letter is routed), presumed or unknown (it stays
    /// sent). Others are left.
    async fn conclude(
        &self,
        run: &Run<'_>,
        numbers: &[u64],
        how: Conclusion,
        now: Timestamp,
    ) -> Result<u64, StoreError>;

    /// Gives claimed items back, up to `most`: their letters are open again. How many; zero when none is left.
    async fn give_back(&self, run: &Run<'_>, most: usize, now: Timestamp) -> Result<u64, StoreError>;

    /// Receipts of the runtime: each item that was intended, sent, in doubt, passed, presumed or unknown is confirmed and its
    /// letter recovered. One answer each: whether there is such an item.
    async fn receipts(
        &self,
        receipts: &[(ReplayId, u64)],
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<bool>, StoreError>;

    /// The 99th percentile, over up to a thousand members, of the time from first failure to death.
    async fn usual_death(&self, id: ReplayId) -> Result<Option<Duration>, StoreError>;

    /// Stores a repair beside the original and makes it the active one, with an audit row. [`StoreError::NotOpen`] when
    /// the letter is not open.
    async fn repair(
        &self,
        letter: LetterId,
        repair: NewRepair,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        match self.repair_many(vec![(letter, repair)], deed, now).await?.first() {
            None | Some(Repaired::Stored) => Ok(()),
            Some(Repaired::NotOpen(found)) => Err(StoreError::NotOpen { letter, found: *found }),
            Some(Repaired::Missing) => Err(StoreError::NoLetter(letter)),
        }
    }

    /// The same for many letters in one transaction, each for itself; one answer each, in the order given. Callers keep
    /// to some thousands a call, so that capture is not held up.
    async fn repair_many(
        &self,
        repairs: Vec<(LetterId, NewRepair)>,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<Repaired>, StoreError>;

    /// When a member of a plan, or of its children, was last repaired; `None` if none ever was.
    async fn last_repaired(&self, id: ReplayId) -> Result<Option<Timestamp>, StoreError>;

    /// How many members of a plan, or of its children, that were not sent yet would not go out as they were captured: their
    /// active repair changes them.
    async fn changed_members(&self, id: ReplayId) -> Result<u64, StoreError>;

    /// Those of some letters that would not be sent as they were captured, with the time of the repair.
    async fn changed(&self, letters: &[LetterId]) -> Result<Vec<(LetterId, Timestamp)>, StoreError>;

    /// The replay that has the letter in hand: it is claimed there, on its way, sent or in doubt.
    async fn holder(&self, letter: LetterId) -> Result<Option<ReplayId>, StoreError>;

    /// The repairs of a letter, oldest first. None is not an error.
    async fn repairs(&self, letter: LetterId) -> Result<Vec<Repair>, StoreError>;
}

/// A replay in hand: under which lease its record is written.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    pub id: ReplayId,
    pub lease: &'a Lease,
}

/// Which letters are meant.
#[derive(Debug, Clone)]
pub enum Members {
    Query { query: Query, text: String },
    Ids(Vec<LetterId>),
}

/// A plan to write.
#[derive(Debug, Clone)]
pub struct NewReplay {
    pub id: ReplayId,
    pub members: Members,
    pub settings: Settings,
    pub cause: Option<ReplayCause>,
    pub author: String,
    pub reason: String,
    pub expires_at: Timestamp,
    pub policy: PlanPolicy,
}

/// A move of a replay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Turn {
    pub from: ReplayState,
    pub to: ReplayState,
    /// Why it is paused or stopped; taken away by any other move.
    pub stop_reason: Option<String>,
    pub stop_letters: Vec<LetterId>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Claimed {
    pub claimed: u64,
    /// Not open any more.
    pub short: u64,
    /// Still frozen.
    pub left: u64,
}

/// An item with everything that is sent.
#[derive(Debug, Clone, PartialEq)]
pub struct ToSend {
    pub number: u64,
    pub letter: LetterId,
    pub source: String,
    /// Where it came from.
    pub origin: Origin,
    pub consumer: Option<String>,
    /// As the letter has it, which may have come beside the message and not in it.
    pub event_type: Option<String>,
    pub error_class: Option<String>,
    /// Its stored repair where there is one, otherwise byte for byte as captured.
    pub message: Message,
    pub repaired: bool,
    /// How often it was replayed before.
    pub replays: u32,
}

/// What became of an intended item. If it was not sent and a letter made it a suspected return meanwhile, it is released
/// and its letter is open again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendEnd {
    Sent {
        partition: Option<i32>,
        offset: Option<i64>,
    },
    /// Certainly not published: it is claimed again.
    Unsent,
    /// It can never be sent; its letter is open again.
    Refused(String),
    /// The broker did not confirm: in doubt.
    Doubtful,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settling {
    /// Read back: it is there.
    FoundSent,
    /// Read back: it is not there, or sending it again is safe. Claimed again.
    FoundUnsent,
    /// A person says that it was handled; in doubt, sent, presumed or unknown.
    Recovered,
    /// A person says that it was not; in doubt, sent, presumed or unknown. The letter is open again.
    Open,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// The position of the consumer group is behind it. The letter is recovered.
    Passed,
    /// The queue was seen empty after it was sent. The letter stays sent.
    Presumed,
    /// It was sent for good to a queue that the broker confirmed. The letter is routed.
    Routed,
    /// Nothing is known. The letter stays sent.
    Unknown,
}

/// A letter that came back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Return {
    pub number: u64,
    pub letter: LetterId,
    pub sent_at: Option<Timestamp>,
    pub at: Timestamp,
    pub error_class: Option<String>,
    /// The class that it had when the plan was made.
    pub former_class: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ReplayPage {
    pub replays: Vec<Replay>,
    pub next: Option<Cursor>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct ItemPage {
    pub items: Vec<Item>,
    pub next: Option<Cursor>,
}

/// Bytes of payloads after which no further letter is handed out to be sent: what one call may take of memory, but for one
/// letter more.
pub const BYTES_AT_ONCE: u64 = 32 * 1024 * 1024;

/// Where an item stands while its letter is in the hand of its replay.
pub(crate) const IN_HAND: [ItemState; 4] =
    [ItemState::Claimed, ItemState::Intended, ItemState::Sent, ItemState::InDoubt];

/// Where an item stands before it is sent.
pub(crate) const NOT_SENT: [ItemState; 3] = [ItemState::Frozen, ItemState::Claimed, ItemState::Intended];

/// Members that are looked at to know how long a death takes.
pub(crate) const SAMPLE: u64 = 1_000;

/// The 99th percentile of some microseconds; those below zero are clocks that disagree.
pub(crate) fn percentile_99(mut micros: Vec<i64>) -> Option<Duration> {
    micros.retain(|micros| *micros >= 0);
    micros.sort_unstable();
    let at = (micros.len() * 99).div_ceil(100).checked_sub(1)?;
    micros.get(at).map(|micros| Duration::from_micros(micros.unsigned_abs()))
}
