//! Letters, their states, and the legal steps between states.
//!
//! `Step::apply` is the one table of the house: stores ask it before they write, and refuse every other change.
//! A letter that is replayed and dies again is the same letter with one more [`Death`].

use serde::Serialize;

use crate::attempt::History;
use crate::codes::coded;
use crate::fingerprint::Fingerprint;
use crate::id::{GroupId, LetterId};
use crate::message::{Headers, Message};
use crate::origin::{DedupeKey, Origin};
use crate::reason::Reason;
use crate::suspect::{DeathMark, Suspect};
use crate::time::Timestamp;
use crate::verdict::VerdictKind;

coded! {
    /// Where a letter stands. For every source: captured = the sum over all of these.
    pub enum Status as "status" {
        Open = 1 => "open",
        Claimed = 2 => "claimed",
        Sent = 3 => "sent",
        InDoubt = 4 => "in_doubt",
        Recovered = 5 => "recovered",
        Discarded = 6 => "discarded",
        Compensated = 7 => "compensated",
        Archived = 8 => "archived",
        /// In the queue for permanent failures: closed, and not handled.
        Routed = 9 => "routed",
    }
}

coded! {
    /// What can happen to a letter. The word is the verb in timelines and the audit log.
    pub enum Step as "step" {
        /// A replay that starts takes it.
        Claim = 1 => "claim",
        /// The replay was cancelled before it was sent.
        Release = 2 => "release",
        /// Published and confirmed.
        Send = 3 => "send",
        /// A crash between publish and record.
        Doubt = 4 => "doubt",
        /// Read back: it had been sent.
        FoundSent = 5 => "found_sent",
        /// Read back: it had not been sent.
        FoundUnsent = 6 => "found_unsent",
        /// A receipt says that it was handled.
        Confirm = 7 => "confirm",
        /// Of former versions: the consumer passed it, or its queue was empty, and the window is over.
        Presume = 8 => "presume",
        /// It came back with a new death.
        DieAgain = 9 => "die_again",
        Discard = 10 => "discard",
        Compensate = 11 => "compensate",
        Archive = 12 => "archive",
        /// Brought back from the archive.
        Restore = 13 => "restore",
        /// A person says that it was handled.
        SettleRecovered = 14 => "settle_recovered",
        /// A person says that it was not handled.
        SettleOpen = 15 => "settle_open",
        /// The position of the consumer group is behind it and the window is over.
        Pass = 16 => "pass",
        /// Its destination confirmed it, and nobody is expected to handle it there.
        Route = 17 => "route",
    }
}

/// A step that is not legal from where the letter stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a letter that is {from} cannot take the step {step}")]
pub struct IllegalStep {
    pub from: Status,
    pub step: Step,
}

impl Step {
    /// Where the step leads from `from`, if it is legal there.
    pub const fn apply(self, from: Status) -> Result<Status, IllegalStep> {
        use Status::{Archived, Claimed, Compensated, Discarded, InDoubt, Open, Recovered, Routed, Sent};
        let to = match (self, from) {
            (Self::Claim, Open) | (Self::FoundUnsent, InDoubt) => Claimed,
            (Self::Release, Claimed) | (Self::Restore, Archived) => Open,
            (Self::Send, Claimed) | (Self::FoundSent, InDoubt) => Sent,
            (Self::Doubt, Claimed) => InDoubt,
            (Self::Confirm, Sent | InDoubt | Claimed) | (Self::Presume | Self::Pass, Sent) => Recovered,
            // Claimed and in doubt too: the new death can arrive before the record that it was sent.
            (Self::DieAgain, Claimed | Sent | InDoubt | Recovered | Routed) => Open,
            (Self::Route, Sent) => Routed,
            (Self::Discard, Open) => Discarded,
            (Self::Compensate, Open) => Compensated,
            (Self::Archive, Open) => Archived,
            (Self::SettleRecovered, Sent | InDoubt) => Recovered,
            (Self::SettleOpen, Sent | InDoubt) => Open,
            _ => return Err(IllegalStep { from, step: self }),
        };
        Ok(to)
    }

    /// Whether the step is the record of a send, which counts as a replay.
    pub const fn is_send(self) -> bool {
        matches!(self, Self::Send | Self::FoundSent)
    }
}

/// A letter on its way in: complete, bounded, not yet stored.
#[derive(Debug, Clone, PartialEq)]
pub struct NewLetter {
    pub source: String,
    pub origin: Origin,
    /// Byte for byte as received; never changed afterwards.
    pub message: Message,
    pub content_type: Option<String>,
    pub event_type: Option<String>,
    pub event_version: Option<String>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    /// The consumer group that failed.
    pub consumer: Option<String>,
    pub consumer_id: Option<String>,
    pub consumer_version: Option<String>,
    pub attempts: u32,
    pub history: History,
    pub error_class: Option<String>,
    pub error_message: String,
    pub error_code: Option<String>,
    pub error_stack: Option<String>,
    pub reason: Reason,
    pub verdict: VerdictKind,
    /// The rule that decided.
    pub rule: Option<String>,
    /// The producer's or broker's clock.
    pub published_at: Option<Timestamp>,
    /// The consumer's clock, as the next two.
    pub received_at: Option<Timestamp>,
    pub first_failed_at: Option<Timestamp>,
    pub failed_at: Timestamp,
    /// Set on a message that was replayed before it died: the id of that send.
    pub replay_id: Option<String>,
    /// Set on a message that was replayed before it died: the letter it was.
    pub replay_of: Option<LetterId>,
    /// `None` where the broker gave no coordinates: then each is a new letter.
    pub dedupe: Option<DedupeKey>,
    /// Only of a letter without coordinates.
    pub death: Option<DeathMark>,
    pub fingerprint: Fingerprint,
    pub owner: Option<String>,
    /// `Open`, or `Discarded` for what the runtime discarded (A6).
    pub status: Status,
}

/// A letter as lists show it: everything but headers, stack, history and payload.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Letter {
    pub id: LetterId,
    pub status: Status,
    pub group_id: GroupId,
    pub owner: Option<String>,
    pub source: String,
    pub origin: Origin,
    pub key: Option<Vec<u8>>,
    pub content_type: Option<String>,
    pub event_type: Option<String>,
    pub event_version: Option<String>,
    pub correlation_id: Option<String>,
    pub trace_id: Option<String>,
    pub consumer: Option<String>,
    pub consumer_id: Option<String>,
    pub consumer_version: Option<String>,
    pub attempts: u32,
    pub error_class: Option<String>,
    pub error_message: String,
    pub error_code: Option<String>,
    pub reason: Reason,
    pub verdict: VerdictKind,
    pub rule: Option<String>,
    pub published_at: Option<Timestamp>,
    pub received_at: Option<Timestamp>,
    pub first_failed_at: Option<Timestamp>,
    pub failed_at: Timestamp,
    /// The office's clock.
    pub captured_at: Timestamp,
    pub payload_size: u64,
    /// How often it was replayed.
    pub replays: u32,
    /// How often it died; one for most.
    pub deaths: u32,
    /// The letter that this one may repeat.
    pub suspect: Option<Suspect>,
}

/// One letter whole, but for its payload, whose reading is audited.
#[derive(Debug, Clone, PartialEq)]
pub struct LetterDetail {
    pub letter: Letter,
    pub headers: Headers,
    pub error_stack: Option<String>,
    pub history: History,
    /// Oldest first. The latest one is also what `letter` shows.
    pub deaths: Vec<Death>,
    /// Letters that may repeat this one, oldest first; at most [`SUSPECTS_SHOWN`].
    pub suspects: Vec<Suspect>,
}

/// Letters that are named with the one that they are suspected to repeat.
pub const SUSPECTS_SHOWN: usize = 20;

/// One time a letter was parked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Death {
    /// Counted from one.
    pub number: u32,
    pub at: Timestamp,
    pub captured_at: Timestamp,
    pub origin: Origin,
    pub consumer: Option<String>,
    pub consumer_id: Option<String>,
    pub consumer_version: Option<String>,
    pub attempts: u32,
    pub error_class: Option<String>,
    pub error_message: String,
    pub error_code: Option<String>,
    pub error_stack: Option<String>,
    pub reason: Reason,
    pub verdict: VerdictKind,
    pub rule: Option<String>,
    pub replay_id: Option<String>,
    pub history: History,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The picture of the design, spelled out: every legal step and nothing else.
    #[test]
    fn the_table_of_legal_steps_is_the_picture() {
        let legal: Vec<String> = Step::ALL
            .iter()
            .flat_map(|step| Status::ALL.iter().map(move |from| (step, from)))
            .filter_map(|(step, from)| step.apply(*from).ok().map(|to| format!("{from} -{step}-> {to}")))
            .collect();
        let picture = [
            "open -claim-> claimed",
            "claimed -release-> open",
            "claimed -send-> sent",
            "claimed -doubt-> in_doubt",
            "in_doubt -found_sent-> sent",
            "in_doubt -found_unsent-> claimed",
            "claimed -confirm-> recovered",
            "sent -confirm-> recovered",
            "in_doubt -confirm-> recovered",
            "sent -presume-> recovered",
            "claimed -die_again-> open",
            "sent -die_again-> open",
            "in_doubt -die_again-> open",
            "recovered -die_again-> open",
            "routed -die_again-> open",
            "open -discard-> discarded",
            "open -compensate-> compensated",
            "open -archive-> archived",
            "archived -restore-> open",
            "sent -settle_recovered-> recovered",
            "in_doubt -settle_recovered-> recovered",
            "sent -settle_open-> open",
            "in_doubt -settle_open-> open",
            "sent -pass-> recovered",
            "sent -route-> routed",
        ];
        assert_eq!(legal, picture);
    }

    #[test]
    fn two_steps_say_that_the_letter_was_sent() {
        let sends: Vec<Step> = Step::ALL.iter().copied().filter(|step| step.is_send()).collect();
        assert_eq!(sends, [Step::Send, Step::FoundSent]);
    }

    #[test]
    fn an_illegal_step_says_from_where_and_which() {
        let refusal = Step::Discard.apply(Status::Sent).unwrap_err();
        assert_eq!(refusal.to_string(), "a letter that is sent cannot take the step discard");
    }
}
