//! Which letters of a replay go out changed. A repair is stored on one letter and sent by a plan of many, so whoever reads
//! the plan is told; and what came back changed says something about its repair, not about the fix of the cause.
//!
//! A letter that came back may be repaired after it was sent: then it was not the repair that came back.

use std::collections::HashMap;

use dlo_core::id::LetterId;
use dlo_core::replay::Replay;
use dlo_core::time::Timestamp;
use dlo_store::StoreError;

use super::items::{ItemLine, Items};
use crate::office::Office;
use crate::ui::words;

pub(super) struct Changed {
    /// How many are still to go out changed, in words; `None`: none.
    pub(super) told: Option<String>,
    /// The letters that made it stop, and whether each was sent repaired.
    pub(super) stop_letters: Vec<(LetterId, bool)>,
    /// Everything that made it stop had been repaired.
    pub(super) stopped_it: bool,
    /// Of the letters that are listed: since when.
    listed: HashMap<LetterId, Timestamp>,
}

impl Changed {
    pub(super) async fn read(office: &Office, replay: &Replay, items: &Items) -> Result<Self, StoreError> {
        let letters: Vec<LetterId> = items.lines.iter().map(|line| line.letter).collect();
        let mut stop_letters = Vec::new();
        for (letter, since) in since(office, &replay.stop_letters).await? {
            let failed_at = office.shown().letter(letter).await?.letter.failed_at;
            stop_letters.push((letter, since.is_some_and(|since| since <= failed_at)));
        }
        let count = office.store.changed_members(replay.id).await?;
        Ok(Self {
            told: (count > 0).then(|| told(count, replay.counts.total())),
            stopped_it: !stop_letters.is_empty() && stop_letters.iter().all(|(_, repaired)| *repaired),
            stop_letters,
            listed: office.store.changed(&letters).await?.into_iter().collect(),
        })
    }

    /// Whether what was sent, or is still to be, is a repair.
    pub(super) fn has(&self, line: &ItemLine) -> bool {
        let since = self.listed.get(&line.letter);
        since.is_some_and(|since| line.sent_at.map_or(line.is_to_come, |sent| *since <= sent))
    }
}

async fn since(
    office: &Office,
    letters: &[LetterId],
) -> Result<Vec<(LetterId, Option<Timestamp>)>, StoreError> {
    let known: HashMap<_, _> = office.store.changed(letters).await?.into_iter().collect();
    Ok(letters.iter().map(|letter| (*letter, known.get(letter).copied())).collect())
}

fn told(count: u64, total: u64) -> String {
    let (count, goes) = match count {
        1 => ("1".to_string(), "goes out changed: its repair is sent in place of the original"),
        many => (words::number(many), "go out changed: their repairs are sent in place of the originals"),
    };
    format!("{count} of {} {goes}", words::letters(total))
}
