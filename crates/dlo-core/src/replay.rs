//! A replay: a plan and its run over a frozen list of letters. Words, settings and the decisions of a run; no I/O.
//!
//! ```text
//!  planned ─┬▶ awaiting_approval ─▶ canary ─▶ running ─▶ completed
//!           └──────────────────────▶ │  ▲      │  ▲
//!                                    ▼  │      ▼  │
//!                                    paused ◀──┘  stopped (by a guard; a person resumes it)     cancelled (from any)
//! ```
//!
//! Items are the frozen letters, each with a state of its own; what a store may write follows from [`ItemState`].

pub mod family;
pub mod guard;
pub mod pace;
pub mod planner;
pub mod produced;
pub mod returns;
pub mod run;
mod settings;

use serde::Serialize;

use crate::codes::coded;
use crate::id::{LetterId, ReplayId};
use crate::time::Timestamp;

pub use planner::{PlanPolicy, PlanRefusal, PlannerIdentity, SourcePolicy};
pub use settings::{DoubtPolicy, Guards, Pace, Repairing, Settings, Target, Via};

coded! {
    /// Where a replay stands.
    pub enum ReplayState as "state of a replay" {
        Planned = 1 => "planned",
        AwaitingApproval = 2 => "awaiting_approval",
        /// Started: members are claimed, the first few are sent, and their outcome is waited for.
        Canary = 3 => "canary",
        Running = 4 => "running",
        /// By a person, or by a guard that a person should look at.
        Paused = 5 => "paused",
        /// By a guard: it would do harm to go on.
        Stopped = 6 => "stopped",
        /// Everything is sent and the windows of the outcomes are over.
        Completed = 7 => "completed",
        Cancelled = 8 => "cancelled",
    }
}

impl ReplayState {
    /// Whether a server should have it in hand.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::Canary | Self::Running)
    }

    pub const fn is_over(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }

    /// Where it may go from here. A replay goes back to canary when it is resumed before its canary was over.
    pub const fn may_become(self, next: Self) -> bool {
        use ReplayState::{
            AwaitingApproval, Canary, Cancelled, Completed, Paused, Planned, Running, Stopped,
        };
        matches!(
            (self, next),
            (Planned, AwaitingApproval | Canary | Running | Cancelled)
                | (AwaitingApproval, Planned | Canary | Running | Cancelled)
                | (Canary, Running | Paused | Stopped | Completed | Cancelled)
                | (Running, Paused | Stopped | Completed | Cancelled)
                | (Paused | Stopped, Canary | Running | Completed | Cancelled)
        )
    }
}

coded! {
    /// Where one letter of a replay stands.
    pub enum ItemState as "state of an item" {
        /// Part of the plan; the letter is still anybody's.
        Frozen = 1 => "frozen",
        /// The letter is ours.
        Claimed = 2 => "claimed",
        /// It may be published from here on: the record that comes before the send.
        Intended = 3 => "intended",
        /// The broker confirmed.
        Sent = 4 => "sent",
        /// A receipt says that it was handled.
        Confirmed = 5 => "confirmed",
        /// The queue was seen empty, and it did not come back within the window: probably handled. Before [`Self::Passed`] was
        /// told apart, this was also what the position of the consumer had passed.
        Presumed = 6 => "presumed",
        /// It died again.
        Returned = 7 => "returned",
        /// The window is over and nothing is known.
        Unknown = 8 => "unknown",
        /// Whoever intended it is gone, and whether it was published is not known.
        InDoubt = 9 => "in_doubt",
        /// Not open any more when the replay wanted to claim it.
        Short = 10 => "short",
        /// Given back: the replay was cancelled before it was sent, or a person said that it was not handled.
        Released = 11 => "released",
        /// It cannot be sent (too large, repair failed, queue refuses it); the letter is open again.
        Refused = 12 => "refused",
        /// The position of the consumer group is behind it, and it did not come back within the window.
        Passed = 13 => "passed",
        /// Sent for good to the queue for permanent failures, and the broker confirmed.
        Routed = 14 => "routed",
        /// A letter with its payload and key arrived within the window: it probably died again. Its letter stays sent.
        SuspectedReturn = 15 => "suspected_return",
    }
}

impl ItemState {
    /// Whether nothing more will be done with it by this replay.
    pub const fn is_over(self) -> bool {
        matches!(
            self,
            Self::Confirmed
                | Self::Presumed
                | Self::Passed
                | Self::Routed
                | Self::Returned
                | Self::SuspectedReturn
                | Self::Unknown
                | Self::Short
                | Self::Released
                | Self::Refused
        )
    }

    /// Whether a later letter of its key may go, where order matters. What is unknown did not come back within its window;
    /// what was short is in other hands. What came back, was refused or is open again holds up those behind it.
    pub const fn clears_key(self) -> bool {
        matches!(
            self,
            Self::Confirmed | Self::Passed | Self::Presumed | Self::Routed | Self::Unknown | Self::Short
        )
    }

    /// Whether it was certainly handed to the broker by this replay.
    pub const fn was_sent(self) -> bool {
        use ItemState::{Confirmed, Passed, Presumed, Returned, Routed, Sent, SuspectedReturn, Unknown};
        matches!(self, Sent | Confirmed | Passed | Presumed | Routed | Returned | SuspectedReturn | Unknown)
    }
}

/// Items of a replay by state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ItemCounts([u64; ItemState::ALL.len()]);

impl ItemCounts {
    pub const fn get(&self, state: ItemState) -> u64 {
        self.0[state as usize - 1]
    }

    pub const fn set(&mut self, state: ItemState, count: u64) {
        self.0[state as usize - 1] = count;
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Known to be handled. What is only presumed is not in it.
    pub const fn handled(&self) -> u64 {
        self.get(ItemState::Confirmed) + self.get(ItemState::Passed)
    }

    /// Died again, or probably so.
    pub const fn failed_again(&self) -> u64 {
        self.get(ItemState::Returned) + self.get(ItemState::SuspectedReturn)
    }

    /// Of those that were handled or came back, the share that was handled; `None` without such items.
    pub fn success(&self) -> Option<f64> {
        let known = self.handled() + self.failed_again();
        (known > 0).then(|| self.handled() as f64 / known as f64)
    }

    /// Handed to the broker, whatever came of it.
    pub fn sent(&self) -> u64 {
        ItemState::ALL.iter().filter(|state| state.was_sent()).map(|state| self.get(*state)).sum()
    }
}

coded! {
    /// What is believed to be behind the failures (F1).
    pub enum ReplayCause as "cause" {
        Data = 1 => "data",
        ConsumerBug = 2 => "consumer_bug",
        Dependency = 3 => "dependency",
        Stale = 4 => "stale",
        /// Reference data or a setting.
        Configuration = 5 => "configuration",
    }
}

/// One replay as it is stored. A plan over several causes has children, which run one after the other; only a replay
/// without children has items.
#[derive(Debug, Clone, PartialEq)]
pub struct Replay {
    pub id: ReplayId,
    pub parent: Option<ReplayId>,
    /// Its place among the children, from one.
    pub ordinal: u32,
    pub state: ReplayState,
    /// As it was asked; `None` where ids were named.
    pub query: Option<String>,
    /// `None` for a parent of children of several sources.
    pub source: Option<String>,
    /// What the members have in common, where they do.
    pub event_type: Option<String>,
    pub error_class: Option<String>,
    pub cause: Option<ReplayCause>,
    pub settings: Settings,
    pub author: String,
    pub reason: String,
    pub created_at: Timestamp,
    /// A plan that was not started by then is void.
    pub expires_at: Timestamp,
    pub started_at: Option<Timestamp>,
    pub ended_at: Option<Timestamp>,
    /// Set while paused or stopped: why, for a person.
    pub stop_reason: Option<String>,
    /// Letters that caused the stop.
    pub stop_letters: Vec<LetterId>,
    pub approvals: Vec<Approval>,
    pub approvals_needed: u8,
    /// What the members are, as it was shown: at most [`MOST_KINDS`], the largest first.
    pub by_class: Vec<PlannedKind>,
    /// What was left out of the plan, and what is doubtful, as it was shown.
    pub excluded: Vec<Excluded>,
    pub doubts: Vec<String>,
    pub counts: ItemCounts,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Approval {
    pub author: String,
    pub at: Timestamp,
}

/// Kinds of letters that a plan tells apart at most; the rest is counted in the total only.
pub const MOST_KINDS: usize = 200;

/// Members of a plan that are alike.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct PlannedKind {
    pub source: String,
    pub event_type: Option<String>,
    pub error_class: Option<String>,
    pub owner: Option<String>,
    /// The consumer group that failed.
    pub consumer: Option<String>,
    pub count: u64,
    /// When the first and the last of them failed.
    pub oldest: Timestamp,
    pub newest: Timestamp,
}

/// Why letters that match are not part of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, serde::Deserialize)]
pub struct Excluded {
    pub why: Exclusion,
    pub count: u64,
    /// A replay that has some of them in hand, of those that are [`Exclusion::Held`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held_by: Option<ReplayId>,
}

coded! {
    /// Why a letter that matches is left out.
    pub enum Exclusion as "exclusion" {
        /// Sent, in doubt, or closed by a decision.
        NotOpen = 1 => "not_open",
        /// Past its replay limit: marked exhausted (F13).
        Exhausted = 2 => "exhausted",
        /// Only a pointer to a record that could not be fetched.
        PointerOnly = 3 => "pointer_only",
        TooLarge = 4 => "too_large",
        /// A later message of the same key was replayed with success, or is open and newer while order matters.
        Superseded = 5 => "superseded",
        /// Its key is part of another class of the same plan, and order matters.
        KeySpansClasses = 6 => "key_spans_classes",
        /// Its source has no queue to send to.
        NoTarget = 7 => "no_target",
        /// In the hand of a replay that has not ended: it runs, waits or was stopped. Resumed it sends them, cancelled it
        /// gives them back.
        Held = 8 => "held",
        /// It may repeat another letter, and nobody asked for it.
        Suspected = 9 => "suspected",
    }
}

/// One letter of a replay.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its place in the order of the replay, from zero: oldest failure first.
    pub number: u64,
    pub letter: LetterId,
    pub state: ItemState,
    /// When it was first intended, while it is intended or in doubt; afterwards, when it came to where it stands.
    pub at: Option<Timestamp>,
    pub sent_at: Option<Timestamp>,
    /// Where the broker put it, where it says so.
    pub partition: Option<i32>,
    pub offset: Option<i64>,
    /// Why it was refused, or with which class it came back.
    pub note: Option<String>,
}

/// The id that a sent message carries: the same over every retry of one send.
pub fn send_id(replay: ReplayId, number: u64) -> String {
    format!("{}{number}", send_prefix(replay))
}

/// What stands before the number in every [`send_id`] of a replay.
pub fn send_prefix(replay: ReplayId) -> String {
    format!("{replay}/")
}

/// Reads [`send_id`].
pub fn parse_send_id(text: &str) -> Option<(ReplayId, u64)> {
    let (replay, number) = text.split_once('/')?;
    Some((replay.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_send_id_is_read_as_it_was_written_and_others_are_not() {
        let replay = ReplayId(uuid::Uuid::from_u128(7));
        assert_eq!(parse_send_id(&send_id(replay, 41)), Some((replay, 41)));
        for other in ["", "r-1/7", "r-1", "/", &format!("{replay}/"), &format!("{replay}/x")] {
            assert_eq!(parse_send_id(other), None, "{other}");
        }
    }

    #[test]
    fn what_is_over_stays_over() {
        for from in ReplayState::ALL.iter().filter(|state| state.is_over()) {
            assert!(ReplayState::ALL.iter().all(|next| !from.may_become(*next)));
        }
    }
}
