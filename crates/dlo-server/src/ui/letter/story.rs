//! The story of a letter, oldest first: attempts and deaths as its consumers told them, and what the office and its people
//! did, on one line of time. Looks at the payload are all in the audit log; here they are one for each person and sitting.

use std::time::Duration;

use dlo_core::attempt::AttemptRecord;
use dlo_core::letter::{Death, LetterDetail};
use dlo_core::replay::parse_send_id;
use dlo_core::time::Timestamp;
use dlo_core::units::HumanDuration;
use dlo_store::{Event, TimelineEntry};

use crate::ui::show::When;
use crate::ui::words;

/// Looks of one person that are less than this apart are one sitting: a preview looks at every pause of the fingers.
const SITTING: Duration = Duration::from_secs(30 * 60);

/// Who tells it. In this order at one moment: what caused comes before what followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Attempt,
    Death,
    Office,
    Person,
}

impl Kind {
    const fn class(self) -> &'static str {
        match self {
            Self::Attempt => "attempt",
            Self::Death => "death",
            Self::Office => "office",
            Self::Person => "person",
        }
    }
}

/// One thing that happened.
pub(super) struct Chapter {
    pub(super) at: When,
    pub(super) class: &'static str,
    pub(super) what: String,
    pub(super) detail: String,
    pub(super) by: String,
    pub(super) replay: Option<String>,
}

/// `withdrawn`: when repairs were taken back.
pub(super) fn tell(
    detail: &LetterDetail,
    timeline: &[TimelineEntry],
    withdrawn: &[Timestamp],
    now: Timestamp,
) -> Vec<Chapter> {
    let mut all: Vec<(Timestamp, Kind, Chapter)> = Vec::new();
    for death in &detail.deaths {
        let tries = death.history.records().iter();
        all.extend(tries.map(|record| (record.at, Kind::Attempt, attempt(death, record, now))));
        all.push((death.at, Kind::Death, died(death, now)));
    }
    // A death and its arrival here are two things; the office's own word is of the arrival.
    for (entry, times) in by_sitting(timeline) {
        let (kind, mut chapter) = deed(entry, now);
        if entry.what == Event::Repaired && withdrawn.contains(&entry.at) {
            chapter.what = "Its repair was withdrawn: the original is sent again".to_string();
        }
        if times > 1 {
            chapter.what = format!("{}, {times} times in one sitting", chapter.what);
        }
        all.push((entry.at, kind, chapter));
    }
    all.sort_by_key(|(at, kind, _)| (*at, *kind));
    all.into_iter().map(|(_, kind, chapter)| Chapter { class: kind.class(), ..chapter }).collect()
}

/// Every entry with how often it happened: looks of one sitting are told once, where they began.
fn by_sitting(timeline: &[TimelineEntry]) -> Vec<(&TimelineEntry, usize)> {
    let mut all: Vec<(&TimelineEntry, usize)> = Vec::new();
    // Of each person: where their sitting is told, and when they looked last.
    let mut sittings: Vec<(&str, usize, Timestamp)> = Vec::new();
    for entry in timeline {
        if entry.what != Event::PayloadRead {
            all.push((entry, 1));
            continue;
        }
        let here = all.len();
        match sittings.iter_mut().find(|(author, ..)| *author == entry.author) {
            Some((_, told, last)) if entry.at.since(*last) < SITTING => {
                all[*told].1 += 1;
                *last = entry.at;
                continue;
            }
            Some(sitting) => *sitting = (&entry.author, here, entry.at),
            None => sittings.push((&entry.author, here, entry.at)),
        }
        all.push((entry, 1));
    }
    all
}

fn attempt(death: &Death, record: &AttemptRecord, now: Timestamp) -> Chapter {
    let verdict = match (record.verdict, record.delay()) {
        (Some(verdict), Some(delay)) => {
            format!(" → {} after {}", words::phrase(verdict.as_str()), HumanDuration(delay))
        }
        (Some(verdict), None) => format!(" → {}", words::phrase(verdict.as_str())),
        (None, _) => String::new(),
    };
    let error = error(record.error_class.as_deref(), record.message.as_deref().unwrap_or_default());
    Chapter {
        at: When::new(record.at, now),
        class: "",
        what: format!("Attempt {} failed", record.number),
        detail: format!("{error}{verdict}"),
        by: death.consumer.clone().unwrap_or_default(),
        replay: None,
    }
}

fn died(death: &Death, now: Timestamp) -> Chapter {
    Chapter {
        at: When::new(death.at, now),
        class: "",
        what: match death.number {
            1 => "Died".to_string(),
            number => format!("Died again, for the {} time", ordinal(number)),
        },
        detail: error(death.error_class.as_deref(), &death.error_message),
        by: death.consumer.clone().unwrap_or_default(),
        replay: death.replay_id.as_deref().and_then(parse_send_id).map(|(id, _)| id.to_string()),
    }
}

fn deed(entry: &TimelineEntry, now: Timestamp) -> (Kind, Chapter) {
    let replay = entry.reference.as_deref().and_then(parse_send_id);
    let mut detail = entry.reason.clone().unwrap_or_default();
    if let (Some(reference), None) = (&entry.reference, replay) {
        let joint = if detail.is_empty() { "" } else { " · " };
        detail = format!("{detail}{joint}{reference}");
    }
    let by_itself = replay.is_some() || matches!(entry.what, Event::Captured | Event::DiedAgain);
    let chapter = Chapter {
        at: When::new(entry.at, now),
        class: "",
        what: words::event(entry.what),
        detail,
        by: entry.author.clone(),
        replay: replay.map(|(id, _)| id.to_string()),
    };
    (if by_itself { Kind::Office } else { Kind::Person }, chapter)
}

fn error(class: Option<&str>, message: &str) -> String {
    match (class, message.is_empty()) {
        (Some(class), false) => format!("{class}: {message}"),
        (Some(class), true) => class.to_string(),
        (None, _) => message.to_string(),
    }
}

fn ordinal(number: u32) -> String {
    let end = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    format!("{number}{end}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_at_the_payload_are_told_once_for_each_person_and_sitting() {
        let entry = |minute: u64, author: &str, what| TimelineEntry {
            at: Timestamp::from_millis(0).plus(Duration::from_secs(minute * 60)),
            what,
            author: author.to_string(),
            reason: None,
            reference: None,
        };
        let look = |minute, author| entry(minute, author, Event::PayloadRead);
        let timeline = [
            entry(0, "office", Event::Captured),
            look(1, "ada"),
            look(2, "ben"),
            look(3, "ada"),
            entry(4, "ada", Event::Repaired),
            look(5, "ada"),
            look(60, "ada"),
        ];
        let told: Vec<_> = by_sitting(&timeline)
            .into_iter()
            .map(|(entry, times)| (entry.author.as_str(), entry.what.as_str(), times))
            .collect();
        assert_eq!(
            told,
            [
                ("office", "captured", 1),
                ("ada", "payload_read", 3),
                ("ben", "payload_read", 1),
                ("ada", "repaired", 1),
                ("ada", "payload_read", 1)
            ]
        );
    }

    #[test]
    fn times_are_counted_as_people_do() {
        let said: Vec<String> = [1, 2, 3, 4, 11, 12, 21, 102, 111].into_iter().map(ordinal).collect();
        assert_eq!(said, ["1st", "2nd", "3rd", "4th", "11th", "12th", "21st", "102nd", "111th"]);
    }
}
