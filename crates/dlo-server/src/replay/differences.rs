//! What a plan would send otherwise than it was produced, before anything is sent: counted over a sample of its letters.

use std::collections::{BTreeMap, BTreeSet};

use dlo_core::id::LetterId;
use dlo_core::message::{Message, Payload};
use dlo_core::replay::produced::{self, Difference};
use dlo_core::replay::{Replay, Settings};
use dlo_store::{Page, StoreError};
use serde::Serialize;

use super::ReplayTarget;
use crate::office::Office;

/// Letters of a plan that are read.
const SAMPLE: usize = 200;
/// A payload above this is never opened as an envelope, so it is not read.
const LARGEST: u64 = 1024 * 1024;

/// One difference, for a person and for a program.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct DifferenceLine {
    what: Difference,
    /// Of the letters that were read.
    letters: u64,
    /// How many were read: the first ones of the plan.
    read: u64,
    /// The setting that changes it.
    setting: &'static str,
    pub(crate) text: String,
}

/// How the letters of a plan differ, when they are sent, from what was produced. A plan of several parts is read part by
/// part.
pub(crate) async fn differences(
    office: &Office,
    replay: &Replay,
    children: &[Replay],
) -> Result<Vec<DifferenceLine>, StoreError> {
    let parts = if children.is_empty() { std::slice::from_ref(replay) } else { children };
    let mut count = Count::default();
    for part in parts {
        let source = part.source.as_ref().and_then(|source| office.targets.get(source));
        let Some(target) = source else { continue };
        let left = SAMPLE.saturating_sub(count.read);
        if left == 0 {
            break;
        }
        let found = office.store.items(part.id, None, &Page::first(left)).await?;
        for item in &found.items {
            match message(office, item.letter).await {
                Ok(message) => count.add(&message, target, &part.settings),
                // Deleted since the plan was made, or damaged. A damaged one is refused when the replay sends it.
                Err(StoreError::NoLetter(_) | StoreError::Unreadable(_)) => {}
                Err(error) => return Err(error),
            }
        }
    }
    let mut lines = count.lines(replay.counts.total());
    // An exchange is named by a header of the letter.
    for line in &mut lines {
        office.mask.text(&mut line.text);
    }
    Ok(lines)
}

/// A letter as it was captured, without a payload that is too large for an envelope.
async fn message(office: &Office, id: LetterId) -> Result<Message, StoreError> {
    let detail = office.store.letter(id).await?;
    let payload = match detail.letter.payload_size {
        size if size > LARGEST => Payload::default(),
        _ => Payload(office.store.payload(id, None).await?.bytes),
    };
    Ok(Message { key: None, headers: detail.headers, payload })
}

/// Differences of the letters that were read.
#[derive(Debug, Default)]
struct Count {
    read: usize,
    /// Per difference and the setting that changes it.
    letters: BTreeMap<(Difference, &'static str), u64>,
    exchanges: BTreeSet<String>,
    queues: BTreeSet<String>,
}

impl Count {
    fn add(&mut self, message: &Message, target: &ReplayTarget, settings: &Settings) {
        self.read += 1;
        let (differences, exchange) = produced::differences(message, target.place(), settings);
        for one in differences {
            *self.letters.entry((one, one.setting(settings))).or_default() += 1;
        }
        if let Some(exchange) = exchange {
            self.exchanges.insert(exchange);
            self.queues.insert(settings.target.named().unwrap_or(&target.queue).to_owned());
        }
    }

    fn lines(&self, total: u64) -> Vec<DifferenceLine> {
        let read = self.read as u64;
        let of = if total > read { format!(" of the first {read}") } else { String::new() };
        let line = |(&(what, setting), &letters): (&(Difference, &'static str), &u64)| {
            let noun = if letters == 1 { "letter" } else { "letters" };
            let text = format!("{letters} {noun}{of} {} ({setting})", self.words(what, letters == 1));
            DifferenceLine { what, letters, read, setting, text }
        };
        self.letters.iter().map(line).collect()
    }

    /// What happens to one letter, or to several.
    fn words(&self, what: Difference, is_one: bool) -> String {
        let (goes, has) = if is_one { ("goes", "has") } else { ("go", "have") };
        match what {
            Difference::Straight => {
                let queue = named("the queue", "their queues", &self.queues);
                let exchange = named("the exchange", "their exchanges", &self.exchanges);
                format!("{goes} straight to {queue}, not through {exchange}")
            }
            Difference::Copies => format!("{has} a CC: it is not sent, so no other queue gets a copy again"),
            Difference::Expiration => format!("{has} an expiration: it is not sent"),
            Difference::Envelope => format!("{goes} without the envelope around the message"),
            Difference::TakenOff => {
                format!("{goes} without the fields or headers that the failing consumer seems to have added")
            }
        }
    }
}

fn named(one: &str, several: &str, names: &BTreeSet<String>) -> String {
    match names.first() {
        Some(name) if names.len() == 1 => format!("{one} {name}"),
        Some(_) | None => several.to_owned(),
    }
}
