//! The answers on top of a group: where people stand with it, whether a replay can help, which deployment it began after,
//! and whether there is anything left to do.

use dlo_core::deploy::{BeganAfter, Beginning};
use dlo_core::group::{Group, GroupStatus};
use dlo_core::known::{Known, ReplayHelps};
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;

use crate::ui::show::{self, When};
use crate::ui::words;

/// A time that lies ahead: by the clock, and how far.
pub(in crate::ui) struct Ahead {
    pub(in crate::ui) clock: String,
    pub(in crate::ui) when: When,
}

/// When a snooze ends, where a time was named.
pub(super) fn wakes(group: &Group, now: Timestamp) -> Option<Ahead> {
    let until = group.life.snooze.filter(|_| group.life.status == GroupStatus::Snoozed)?.until?;
    let clock = format!("{} UTC", show::clock(until));
    Some(Ahead { clock, when: When { exact: until.to_string(), ago: show::ahead(until, now) } })
}

/// How its letters ended, when none is left to be sent, waited for or decided: `12 recovered, 1 discarded`.
pub(super) fn handled(group: &Group) -> Option<String> {
    use Status::{Archived, Compensated, Discarded, Recovered, Routed};
    let ended = [Recovered, Routed, Discarded, Compensated, Archived];
    let counts = ended.map(|status| (status, group.counts.get(status)));
    let all: u64 = counts.iter().map(|(_, count)| count).sum();
    let told = counts.iter().filter(|(_, count)| *count > 0);
    let told = told.map(|(status, count)| format!("{} {status}", words::number(*count)));
    (all > 0 && all == group.counts.total()).then(|| told.collect::<Vec<_>>().join(", "))
}

/// Where people stand with it, in a sentence. When a snooze ends is told beside it.
pub(super) fn standing(group: &Group, now: Timestamp) -> String {
    let since = group.life.since.map(|since| format!(", {}", show::ago(since, now))).unwrap_or_default();
    let version = group.life.resolved_in.as_deref();
    match group.life.status {
        GroupStatus::New if handled(group).is_some() => "Nobody has said yet that it is over".to_string(),
        GroupStatus::New => "Nobody has looked at it yet".to_string(),
        GroupStatus::Acknowledged => format!("Somebody has seen it{since}"),
        GroupStatus::Fixing => format!("It is being fixed{since}"),
        GroupStatus::Resolved => {
            format!("Resolved{}{since}", version.map(|v| format!(" in {v}")).unwrap_or_default())
        }
        GroupStatus::Regressed => {
            let although = version.map(|v| format!(", although it was said to be fixed in {v}"));
            format!("It came back{since}{}", although.unwrap_or_default())
        }
        GroupStatus::Snoozed => {
            let letters = group.life.snooze.and_then(|snooze| snooze.letters);
            let letters = letters.map(|letters| format!(" until {letters} more letters came"));
            format!("Snoozed{}", letters.unwrap_or_default())
        }
        GroupStatus::Ignored => format!("Ignored{since}"),
    }
}

/// How the answer looks, and whether sending the letters on can help and why.
pub(super) fn replayable(group: &Group, known: Option<&Known>) -> (&'static str, String) {
    if let Some(how) = handled(group) {
        return ("yes", format!("Nothing is left to send: every letter is handled ({how})."));
    }
    if group.counts.get(Status::Open) == 0 {
        let told = match group.counts.get(Status::Claimed) {
            0 => "Nothing is open, so there is nothing to send.",
            _ => "Nothing more: a replay has the rest in hand.",
        };
        return ("", told.to_string());
    }
    let (class, told) = match known.map(|known| known.replay_helps) {
        Some(ReplayHelps::Unchanged) => {
            ("yes", "Yes, when whatever was away is back. A few go first, and it stops if they fail again.")
        }
        Some(ReplayHelps::AfterAFix) => {
            ("yes", "Yes, once the cause is fixed. A few go first, and it stops if they fail again.")
        }
        Some(ReplayHelps::AfterARepair) => (
            "no",
            "After a repair: the message itself is wrong. Open a letter, or repair on the way in the plan.",
        ),
        Some(ReplayHelps::Never) => {
            ("no", "Sending them again will not help. Discard or compensate them, with a reason.")
        }
        Some(ReplayHelps::Unknown) | None => {
            ("yes", "It can be tried: a few go first, and it stops by itself if they fail again.")
        }
    };
    (class, told.to_string())
}

/// After which deployment it began. Where the message itself is wrong, the consumer that stumbled over it is not blamed.
pub(super) fn began(found: &BeganAfter<'_>, known: Option<&Known>, now: Timestamp) -> Option<String> {
    let wrong = known.is_some_and(|known| known.replay_helps == ReplayHelps::AfterARepair);
    if wrong && found.deploy.what.consumer.is_some() {
        return None;
    }
    let what = match found.what {
        Beginning::FirstSeen => "It began",
        Beginning::Regressed => "It came back",
    };
    let of = found.deploy.what.consumer.as_deref().or(found.deploy.what.source.as_deref());
    let of = of.map(|name| format!(" of {name}")).unwrap_or_default();
    let when = show::ago(found.deploy.at, now);
    Some(format!("{what} after deployment {}{of} ({when}).", found.deploy.what.version))
}
