//! The closed vocabularies of the office as sentences, for people who meet them for the first time.
//!
//! The words themselves stay as they are everywhere; here stands what each means. "Sent" is never called success.

use std::time::Duration;

use dlo_core::letter::{Status, Step};
use dlo_core::reason::Reason;
use dlo_core::replay::{Exclusion, ItemState, Pace, ReplayCause, ReplayState};
use dlo_core::teams::Standing;
use dlo_core::units::HumanDuration;
use dlo_store::Event;

/// `41,000`.
pub(crate) fn number(count: u64) -> String {
    let digits = count.to_string();
    let mut shown = String::with_capacity(digits.len() + digits.len() / 3);
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

/// `1 letter`, `41,000 letters`.
pub(crate) fn letters(count: u64) -> String {
    format!("{} letter{}", number(count), if count == 1 { "" } else { "s" })
}

/// A code as a phrase: `in_doubt` is `in doubt`.
pub(crate) fn phrase(code: &str) -> String {
    code.replace('_', " ")
}

/// Where a letter stands, and what that means.
pub(crate) const fn status(status: Status) -> &'static str {
    match status {
        Status::Open => "it waits for somebody to decide",
        Status::Claimed => "a replay has it in hand",
        Status::Sent => "a replay sent it, and its outcome is not known yet",
        Status::InDoubt => "nobody knows whether a replay sent it",
        Status::Recovered => "it was handled after a replay",
        Status::Discarded => "somebody decided that nothing more is needed",
        Status::Compensated => "its effect was made good in another way",
        Status::Archived => "it was put into the archive",
        Status::Routed => "it is in the queue for permanent failures",
    }
}

/// Why a letter was parked.
pub(crate) const fn reason(reason: Reason) -> &'static str {
    match reason {
        Reason::MaxRetriesExceeded => "it was tried as often as allowed, and failed each time",
        Reason::DeserializationError => "it could not be parsed",
        Reason::ValidationError => "it was parsed, and is not valid",
        Reason::ProcessingError => "it was parsed, and its handler failed",
        Reason::Timeout => "its handler took too long",
        Reason::CircuitOpen => "what its handler needs was down",
        Reason::Poison => "its consumer did not survive it",
        Reason::Rejected => "its consumer refused it",
        Reason::Expired => "it waited longer than it may",
        Reason::QueueOverflow => "its queue was full",
        Reason::DeliveryLimit => "the broker had delivered it as often as it does",
        Reason::UnknownVersion => "its event has a version that the consumer does not know",
    }
}

pub(crate) const fn replay(state: ReplayState) -> &'static str {
    match state {
        ReplayState::Planned => {
            "Nothing was sent yet. The letters below are frozen: what comes in later is not part of it."
        }
        ReplayState::AwaitingApproval => "Nothing was sent yet. Somebody else must approve it first.",
        ReplayState::Canary => "A few letters were sent, and the rest waits for their outcome.",
        ReplayState::Running => "Letters are being sent, or their outcomes are waited for.",
        ReplayState::Paused => "Nothing more is sent until somebody resumes it.",
        ReplayState::Stopped => {
            "A guard stopped it, because going on would do harm. Somebody must look, and resume or cancel it."
        }
        ReplayState::Completed => {
            "Everything was sent and every window is over. What came of it stands below."
        }
        ReplayState::Cancelled => "Somebody ended it. What was not sent is open again.",
    }
}

/// Where an item of a replay stands, and what that means.
pub(crate) const fn item(state: ItemState) -> &'static str {
    match state {
        ItemState::Frozen => "part of the plan, and still anybody's",
        ItemState::Claimed => "in the hand of this replay, not sent yet",
        ItemState::Intended => "on its way to the broker right now",
        ItemState::Sent => "the broker has it; what the consumer makes of it is waited for",
        ItemState::Confirmed => "a receipt says that it was handled",
        ItemState::Passed => "the consumer group is past it, and it did not come back",
        ItemState::Presumed => "probably handled: no failure seen within the wait time",
        ItemState::Returned => "it died again, and its letter is open with one more death",
        ItemState::SuspectedReturn => {
            "it probably died again: a new letter has its payload and its key, and its own stays sent"
        }
        ItemState::Routed => "it is in the queue for permanent failures",
        ItemState::Unknown => "its window is over, and nothing is known of it",
        ItemState::InDoubt => "whether it was sent at all is not known; somebody must find out",
        ItemState::Short => "somebody else had taken the letter before; it was not sent",
        ItemState::Released => "given back without being sent",
        ItemState::Refused => "it cannot be sent; its letter is open again",
    }
}

pub(crate) const fn exclusion(why: Exclusion) -> &'static str {
    match why {
        Exclusion::NotOpen => "not open: sent, in doubt, or closed by a decision",
        Exclusion::Exhausted => "replayed as often as a letter may be",
        Exclusion::PointerOnly => "only a pointer; the message itself is not here",
        Exclusion::TooLarge => "larger than is sent",
        Exclusion::Superseded => {
            "a later message of the same key was sent or handled already, and order matters"
        }
        Exclusion::KeySpansClasses => "another failure of the same key must go first, and order matters",
        Exclusion::NoTarget => "its source has no queue to send to",
        Exclusion::Held => "in the hand of a replay that has not ended",
        Exclusion::Suspected => "suspected to repeat another letter; a plan can include them",
    }
}

pub(crate) const fn cause(cause: ReplayCause) -> &'static str {
    match cause {
        ReplayCause::Data => "the data was wrong",
        ReplayCause::ConsumerBug => "the consumer had a bug",
        ReplayCause::Dependency => "something that the consumer needs was down",
        ReplayCause::Stale => "the message had become stale",
        ReplayCause::Configuration => "reference data or a setting was missing or wrong",
    }
}

/// What happened, as the office says it.
pub(crate) fn event(event: Event) -> String {
    let said = match event {
        Event::Captured => "Captured by the office",
        Event::DiedAgain => "Came back to the office, and is open again",
        Event::PayloadRead => "Its payload was looked at",
        Event::Exported => "Exported",
        Event::Restored => "Restored from a backup",
        Event::Repaired => "Repaired: a corrected message stands beside the original",
        Event::Step(step) => self::step(step),
        other => return phrase(other.as_str()),
    };
    said.to_string()
}

const fn step(step: Step) -> &'static str {
    match step {
        Step::Claim => "Taken in hand by a replay",
        Step::Release => "Given back by the replay without being sent",
        Step::Send => "Sent: the broker has it",
        Step::Doubt => "In doubt: nobody knows whether it was sent",
        Step::FoundSent => "Found in the queue: it had been sent",
        Step::FoundUnsent => "Not found in the queue: it had not been sent",
        Step::Confirm => "Confirmed: a receipt says that it was handled",
        Step::Route => "Routed: it is in the queue for permanent failures",
        Step::Pass => "Handled: the consumer group is past it, and it did not come back",
        Step::Presume => "Presumed to be handled: it did not come back",
        Step::DieAgain => "Died again",
        Step::Discard => "Discarded",
        Step::Compensate => "Compensated",
        Step::Archive => "Archived",
        Step::Restore => "Brought back from the archive",
        Step::SettleRecovered => "Settled: somebody found that it was handled",
        Step::SettleOpen => "Settled: somebody found that it was not handled",
    }
}

/// How the oldest open letter stands against what its team promised.
pub(crate) fn standing(standing: Standing) -> String {
    let minutes = |span: Duration| HumanDuration(Duration::from_secs(span.as_secs() / 60 * 60));
    match standing {
        Standing::Within { left } => format!("{} left of its time", minutes(left)),
        Standing::Over { by } => format!("over its time by {}", minutes(by)),
    }
}

pub(crate) fn pace(pace: Pace) -> String {
    match pace {
        Pace::Rate(rate) => format!("{rate} a second"),
        Pace::Share(share) => format!("{} % of the normal traffic", share * 100.0),
        Pace::Max => "as fast as it can be recorded and confirmed".to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        assert_eq!([number(0), number(999), number(1_000)], ["0", "999", "1,000"]);
        assert_eq!([number(41_000), number(1_234_567)], ["41,000", "1,234,567"]);
        assert_eq!([letters(1), letters(2)], ["1 letter", "2 letters"]);
    }
}
