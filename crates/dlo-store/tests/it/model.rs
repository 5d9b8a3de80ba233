//! The simplest store that could keep the promises: letters in a map, questions answered by looking at each.
//!
//! It shares `dlo-core`'s definition of a word with the stores and nothing else: no index, no block, no count.

use std::collections::{BTreeMap, BTreeSet};

use dlo_core::id::LetterId;
use dlo_core::letter::{NewLetter, Status, Step};
use dlo_core::origin::DedupeKey;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::time::Timestamp;
use dlo_core::words;
use dlo_store::{Inserted, Stepped};
use serde_json::Value;

/// One letter as the model keeps it: what it was at first, what it was at its latest death.
#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) first: NewLetter,
    pub(crate) latest: NewLetter,
    pub(crate) status: Status,
    pub(crate) deaths: u32,
    pub(crate) replays: u32,
    pub(crate) captured_at: Timestamp,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    pub(crate) letters: BTreeMap<LetterId, Kept>,
    origins: BTreeMap<DedupeKey, LetterId>,
}

impl Model {
    /// Follows an insert. The store gives the ids of new letters; everything else must be as the model says.
    pub(crate) fn insert(&mut self, letters: &[NewLetter], answers: &[Inserted], now: Timestamp) {
        assert_eq!(letters.len(), answers.len());
        for (letter, answer) in letters.iter().zip(answers) {
            assert_eq!(self.expected(letter, answer.id()), *answer, "{letter:?}");
            match answer {
                Inserted::Duplicate(_) => continue,
                Inserted::Stored(id) => {
                    let (first, latest) = (letter.clone(), letter.clone());
                    let status = letter.status;
                    let kept = Kept { first, latest, status, deaths: 1, replays: 0, captured_at: now };
                    assert!(self.letters.insert(*id, kept).is_none(), "an id was given twice");
                }
                Inserted::DiedAgain(id) => {
                    let kept = self.letters.get_mut(id).expect("a letter that is here");
                    kept.latest = letter.clone();
                    kept.status = Step::DieAgain.apply(kept.status).unwrap_or(kept.status);
                    // It was sent at least as often as it came back.
                    kept.replays = kept.replays.max(kept.deaths);
                    kept.deaths += 1;
                }
            }
            if let Some(key) = &letter.dedupe {
                self.origins.insert(key.clone(), answer.id());
            }
        }
    }

    fn expected(&self, letter: &NewLetter, given: LetterId) -> Inserted {
        if let Some(id) = letter.dedupe.as_ref().and_then(|key| self.origins.get(key)) {
            return Inserted::Duplicate(*id);
        }
        match letter.replay_of {
            Some(id) if self.letters.contains_key(&id) => Inserted::DiedAgain(id),
            _ => Inserted::Stored(given),
        }
    }

    /// Takes a step, and says what the store must answer.
    pub(crate) fn step(&mut self, ids: &[LetterId], step: Step) -> Vec<Stepped> {
        ids.iter()
            .map(|id| {
                let Some(kept) = self.letters.get_mut(id) else { return Stepped::Missing };
                let from = kept.status;
                let Ok(to) = step.apply(from) else { return Stepped::Illegal { from } };
                kept.status = to;
                kept.replays += u32::from(step.is_send());
                Stepped::Moved { from, to }
            })
            .collect()
    }

    /// The letters that match.
    pub(crate) fn find(&self, query: &Query) -> BTreeSet<LetterId> {
        let matches = |(id, kept): &(&LetterId, &Kept)| {
            query.terms.iter().all(|term| has(**id, kept, &term.matcher) != term.negated)
        };
        self.letters.iter().filter(matches).map(|(id, _)| *id).collect()
    }
}

/// Whether a letter has what the matcher names.
fn has(id: LetterId, kept: &Kept, matcher: &Matcher) -> bool {
    let (first, latest) = (&kept.first, &kept.latest);
    let is = |found: &Option<String>, wanted: &String| found.as_ref() == Some(wanted);
    match matcher {
        Matcher::Source(wanted) => latest.source == *wanted,
        Matcher::Queue(wanted) => latest.origin.queue == *wanted,
        Matcher::Group(wanted) => latest.fingerprint.group == *wanted,
        Matcher::Type(wanted) => is(&latest.event_type, wanted),
        Matcher::Class(wanted) => is(&latest.error_class, wanted),
        Matcher::Consumer(wanted) => is(&latest.consumer, wanted),
        Matcher::Owner(wanted) => latest.owner == *wanted,
        Matcher::Status(wanted) => kept.status == *wanted,
        Matcher::Id(wanted) => id == *wanted,
        Matcher::Broker(wanted) => first.origin.broker == *wanted,
        Matcher::Partition(wanted) => first.origin.partition.map(i64::from) == Some(*wanted),
        Matcher::Offset(wanted) => first.origin.offset.is_some_and(|found| wanted.holds(found)),
        Matcher::Version(wanted) => is(&first.event_version, wanted),
        Matcher::Reason(wanted) => latest.reason == *wanted,
        Matcher::Verdict(wanted) => latest.verdict == *wanted,
        Matcher::Rule(wanted) => is(&latest.rule, wanted),
        Matcher::Code(wanted) => is(&latest.error_code, wanted),
        Matcher::ConsumerId(wanted) => is(&latest.consumer_id, wanted),
        Matcher::Attempts(wanted) => wanted.holds(i64::from(latest.attempts)),
        Matcher::Replays(wanted) => wanted.holds(i64::from(kept.replays)),
        // No letter of the model is suspected.
        Matcher::Suspected(_) => false,
        Matcher::Exhausted(limits) => limits.is_reached(&kept.first.source, kept.replays),
        Matcher::Expiring(expiry) => {
            let holds = |term: &Term| has(id, kept, &term.matcher) != term.negated;
            kept.status == Status::Open
                && expiry.is_soon(latest.failed_at, |rule| rule.terms.iter().all(holds))
        }
        Matcher::Size(wanted) => wanted.holds(first.message.payload.0.len() as i64),
        Matcher::Failed(wanted) => wanted.holds(latest.failed_at),
        Matcher::Captured(wanted) => wanted.holds(kept.captured_at),
        Matcher::Key(wanted) => first.message.key.as_ref().is_some_and(|key| key.0 == wanted.as_bytes()),
        Matcher::Correlation(wanted) => is(&first.correlation_id, wanted),
        Matcher::Message(wanted) => is(&first.origin.message_id, wanted),
        Matcher::Trace(wanted) => is(&first.trace_id, wanted),
        Matcher::Header { name, value } => first.message.headers.iter().any(|header| {
            header.name.eq_ignore_ascii_case(name) && header.value.as_deref() == Some(value.as_bytes())
        }),
        Matcher::Payload { path, value } => serde_json::from_slice::<Value>(&first.message.payload.0)
            .is_ok_and(|document| stands_at(&document, path, value)),
        Matcher::Text(text) => {
            let folded = words::fold(text);
            let payload = String::from_utf8_lossy(&first.message.payload.0);
            words::contains(&latest.error_message, &folded) || words::contains(&payload, &folded)
        }
        Matcher::Hidden(_) | Matcher::Shown { .. } => panic!("the model masks nothing: {matcher}"),
    }
}

fn stands_at(value: &Value, path: &[String], wanted: &str) -> bool {
    match (value, path) {
        (Value::Array(items), _) => items.iter().any(|item| stands_at(item, path, wanted)),
        (Value::Object(fields), [name, rest @ ..]) => {
            fields.get(name).is_some_and(|inner| stands_at(inner, rest, wanted))
        }
        (Value::Object(_), []) => false,
        (Value::String(text), []) => text == wanted,
        (Value::Number(number), []) => number.to_string() == wanted,
        (Value::Bool(truth), []) => truth.to_string() == wanted,
        (Value::Null, []) => wanted == "null",
        (_, [_, ..]) => false,
    }
}
