//! What goes into a store and what comes out, beside the words of `dlo-core`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use dlo_core::group::{Group, GroupDeed, GroupStatus, StatusCounts};
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::{Letter, NewLetter, Status, Step};
use dlo_core::query::ShownBy;
use dlo_core::replay::ReplayState;
use dlo_core::time::Timestamp;
use serde::Serialize;

use crate::triage::GroupOrder;

/// Letters that become durable together.
#[derive(Debug, Default)]
pub struct Batch {
    /// Shared, so that whoever may have to hand them over again needs no copy.
    pub letters: Arc<Vec<NewLetter>>,
    /// How far the source was read, stored in the same transaction.
    pub checkpoints: Vec<Checkpoint>,
    /// The leases under which this was read. Nothing is written unless each of them is still held.
    pub leases: Vec<Lease>,
}

/// How far one partition of a source was read: everything below `next` is stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    pub source: String,
    pub incarnation: String,
    pub partition: i32,
    pub next: i64,
    /// What belongs to `next` and is no number: an adapter's own word for the position, or what a broker without
    /// coordinates still has to be told of. Replaced together with `next`, and also by an equal one.
    pub mark: Option<String>,
}

impl Checkpoint {
    /// Bytes of the longest mark that is taken.
    pub const MARK: usize = 128 * 1024;

    pub(crate) fn mark_len(&self) -> usize {
        self.mark.as_ref().map_or(0, String::len)
    }
}

/// What became of one letter of a batch, in the order given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inserted {
    Stored(LetterId),
    /// The same death is here already; its letter.
    Duplicate(LetterId),
    /// A replayed letter came back: one more chapter of this one.
    DiedAgain(LetterId),
}

impl Inserted {
    pub const fn id(self) -> LetterId {
        match self {
            Self::Stored(id) | Self::Duplicate(id) | Self::DiedAgain(id) => id,
        }
    }
}

/// A page to ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// 1 to [`Page::MOST`].
    pub limit: usize,
    pub cursor: Option<Cursor>,
}

impl Page {
    pub const DEFAULT: usize = 50;
    pub const MOST: usize = 500;

    pub const fn first(limit: usize) -> Self {
        Self { limit, cursor: None }
    }
}

/// Where the next page begins. Opaque outside the store that gave it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Cursor(pub String);

/// A page of letters, newest failure first.
///
/// Work per page is bounded: a page may hold fewer letters than asked, even none, and still have a `next`.
#[derive(Debug, Clone, PartialEq)]
pub struct LetterPage {
    pub letters: Vec<Letter>,
    pub next: Option<Cursor>,
}

/// What a short look says of how many there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glimpse {
    pub letters: u64,
    /// It saw all of them; else there are at least so many.
    pub whole: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct GroupPage {
    pub groups: Vec<Group>,
    pub next: Option<Cursor>,
}

/// Which groups to list. Empty: all. What names a group (source, type, class, consumer, text) may be said of a head or of one
/// of its members; the rest is asked of the head.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct GroupFilter {
    pub source: Option<String>,
    pub event_type: Option<String>,
    pub error_class: Option<String>,
    pub consumer: Option<String>,
    /// `Some(None)`: those without an owner.
    pub owner: Option<Option<String>>,
    /// Only groups that have letters in this status.
    pub holding: Option<Status>,
    /// Only groups of which every letter has ended: recovered, routed, discarded, compensated or archived.
    pub handled: bool,
    /// Only groups that stand there. Empty: wherever they stand.
    pub statuses: Vec<GroupStatus>,
    /// `Some(None)`: those that nobody has in hand.
    pub assignee: Option<Option<String>>,
    /// Words that stand in what names the group, each somewhere, whatever its case.
    pub text: Option<String>,
    /// Only groups with an open letter that failed before.
    pub open_since: Option<Timestamp>,
    pub order: GroupOrder,
    /// Names and words are compared with what these rules show.
    pub shown_by: Option<ShownBy>,
}

/// A payload with what is needed to show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPayload {
    pub bytes: Bytes,
    pub content_type: Option<String>,
}

/// Who does something, and why. Stored in the same transaction as the deed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Deed {
    pub author: String,
    pub reason: Option<String>,
    /// A ticket, a refund, a booking: what compensates.
    pub reference: Option<String>,
}

/// What became of one letter of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stepped {
    Moved {
        from: Status,
        to: Status,
    },
    /// Not legal from where it stood; it stays there.
    Illegal {
        from: Status,
    },
    Missing,
}

/// One entry of a letter's timeline, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TimelineEntry {
    pub at: Timestamp,
    pub what: Event,
    pub author: String,
    pub reason: Option<String>,
    pub reference: Option<String>,
}

/// What an audit row or a timeline entry is about. Shown by one word, stored as one number; neither is ever reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Captured,
    DiedAgain,
    PayloadRead,
    Exported,
    Restored,
    Repaired,
    /// Of a replay, as the next one.
    Approved,
    Adjusted,
    DeployMarked,
    ViewSaved,
    ViewRemoved,
    /// A replay was planned, or went on to this state.
    Replay(ReplayState),
    Group(GroupDeed),
    Step(Step),
}

impl Event {
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Captured => "captured",
            Self::DiedAgain => "died_again",
            Self::PayloadRead => "payload_read",
            Self::Exported => "exported",
            Self::Restored => "restored",
            Self::Repaired => "repaired",
            Self::Approved => "replay_approved",
            Self::Adjusted => "replay_adjusted",
            Self::DeployMarked => "deploy_marked",
            Self::ViewSaved => "view_saved",
            Self::ViewRemoved => "view_removed",
            Self::Group(deed) => deed.as_str(),
            Self::Replay(state) => match state {
                ReplayState::Planned => "replay_planned",
                ReplayState::AwaitingApproval => "replay_awaiting_approval",
                ReplayState::Canary => "replay_canary",
                ReplayState::Running => "replay_running",
                ReplayState::Paused => "replay_paused",
                ReplayState::Stopped => "replay_stopped",
                ReplayState::Completed => "replay_completed",
                ReplayState::Cancelled => "replay_cancelled",
            },
            Self::Step(step) => step.as_str(),
        }
    }

    /// Steps follow from 101, states of a replay from 201 and deeds with groups from 301, so that each vocabulary can grow.
    pub(crate) const fn number(self) -> i16 {
        match self {
            Self::Captured => 1,
            Self::DiedAgain => 2,
            Self::PayloadRead => 3,
            Self::Exported => 4,
            Self::Restored => 5,
            Self::Repaired => 6,
            Self::Approved => 7,
            Self::Adjusted => 8,
            Self::DeployMarked => 9,
            Self::ViewSaved => 10,
            Self::ViewRemoved => 11,
            Self::Group(deed) => 300 + deed.number() as i16,
            Self::Replay(state) => 200 + state.number() as i16,
            Self::Step(step) => 100 + step.number() as i16,
        }
    }

    pub(crate) fn from_number(number: i16) -> Option<Self> {
        match number {
            1 => Some(Self::Captured),
            2 => Some(Self::DiedAgain),
            3 => Some(Self::PayloadRead),
            4 => Some(Self::Exported),
            5 => Some(Self::Restored),
            6 => Some(Self::Repaired),
            7 => Some(Self::Approved),
            8 => Some(Self::Adjusted),
            9 => Some(Self::DeployMarked),
            10 => Some(Self::ViewSaved),
            11 => Some(Self::ViewRemoved),
            301.. => u8::try_from(number - 300).ok().and_then(GroupDeed::from_number).map(Self::Group),
            201..=300 => u8::try_from(number - 200).ok().and_then(ReplayState::from_number).map(Self::Replay),
            step => u8::try_from(step - 100).ok().and_then(Step::from_number).map(Self::Step),
        }
    }
}

impl Serialize for Event {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

/// A row of the audit log. Append-only. A captured batch is one row per source, with how many.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct AuditEntry {
    pub seq: i64,
    pub at: Timestamp,
    pub what: Event,
    pub author: String,
    pub reason: Option<String>,
    pub reference: Option<String>,
    pub source: Option<String>,
    pub letter: Option<LetterId>,
    pub group: Option<GroupId>,
    pub count: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditPage {
    pub entries: Vec<AuditEntry>,
    pub next: Option<Cursor>,
}

/// The whole office in numbers. Costs the same at any number of letters.
#[derive(Debug, Clone, PartialEq)]
pub struct Stats {
    pub letters: StatusCounts,
    pub groups: u64,
    /// Open letters of groups without an owner.
    pub unowned: u64,
    /// Letters whose payload is not in the text index yet (they are scanned).
    pub unindexed: u64,
    pub sources: Vec<SourceStats>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct SourceStats {
    pub source: String,
    /// Ever captured: must equal the sum of `counts`.
    pub captured: u64,
    pub deaths: u64,
    pub counts: StatusCounts,
    pub groups: u64,
    /// Failure time of the oldest open letter.
    pub oldest_open: Option<Timestamp>,
    pub last_captured: Option<Timestamp>,
}

/// Letters by event type, error class and status, over all sources or one.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct CauseCount {
    pub event_type: Option<String>,
    pub error_class: Option<String>,
    pub counts: StatusCounts,
}

/// What `dlo audit verify` found: counted anew from the letters, beside what is kept at write time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Verification {
    pub letters: u64,
    pub sources: Vec<SourceVerification>,
    /// What does not hold, in sentences; empty when conservation holds.
    pub problems: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SourceVerification {
    pub source: String,
    pub captured: u64,
    pub counted: StatusCounts,
}

/// A lease that was got or kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    pub name: String,
    pub holder: String,
    pub until: Timestamp,
    /// Grows with every change of holder: what a former holder still writes can be refused by it.
    pub fence: i64,
}

impl Lease {
    /// Nobody asks for more. A lease that would hold for longer was given before a clock was set back.
    pub const LONGEST: Duration = Duration::from_secs(600);
}

/// How a store is kept within bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreLimits {
    /// Groups of one source; what is new past that goes to its overflow group.
    pub groups_per_source: usize,
    /// Bytes of letters waiting to be written; past that [`crate::StoreError::Overloaded`].
    pub waiting_bytes: usize,
    /// Letters in one transaction.
    pub batch: usize,
    /// How long the first letter of a transaction may wait for company.
    pub linger: Duration,
    /// Whether the embedded store indexes texts by itself, behind the rows. Otherwise only [`crate::Store::index_payloads`]
    /// does: for filling a store, and for measuring what the index costs.
    pub index_behind: bool,
    /// The deadline of a call. A call whose work grows with the store (a count, a verification, a plan, a backup) has it
    /// between two steps of progress.
    pub deadline: Duration,
}

impl Default for StoreLimits {
    fn default() -> Self {
        Self {
            groups_per_source: 5_000,
            waiting_bytes: 24 * 1024 * 1024,
            batch: 5_000,
            linger: Duration::ZERO,
            index_behind: true,
            deadline: Duration::from_secs(10),
        }
    }
}
