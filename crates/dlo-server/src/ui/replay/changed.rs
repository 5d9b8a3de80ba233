//! Which letters of a replay go out changed. A repair is stored on one letter and sent by a plan of many, so whoever reads the
//! plan is told; and what came back changed says something about its repair, not about the fix of the cause.

use std::collections::HashSet;

use dlo_core::id::LetterId;
use dlo_core::replay::Replay;
use dlo_store::StoreError;

use super::items::Items;
use crate::office::Office;
use crate::ui::words;

pub(super) struct Changed {
    /// How many, in words; `None`: all go out as they were captured.
    pub(super) told: Option<String>,
    /// Everything that made it stop had been repaired.
    pub(super) stopped_it: bool,
    /// Of those that are named on the page.
    named: HashSet<LetterId>,
}

impl Changed {
    pub(super) async fn read(office: &Office, replay: &Replay, items: &Items) -> Result<Self, StoreError> {
        let count = office.store.changed_members(replay.id).await?;
        if count == 0 {
            return Ok(Self { told: None, stopped_it: false, named: HashSet::new() });
        }
        let lines = items.lines.iter().map(|line| line.letter);
        let asked: Vec<LetterId> = lines.chain(replay.stop_letters.iter().copied()).collect();
        let named: HashSet<LetterId> = office.store.changed(&asked).await?.into_iter().collect();
        let stop = &replay.stop_letters;
        let total = replay.counts.total();
        let goes = if count == 1 { "has a repair, which goes" } else { "have a repair, which goes" };
        Ok(Self {
            told: Some(format!(
                "{} of {} {goes} out in place of the original",
                words::number(count),
                words::letters(total)
            )),
            stopped_it: !stop.is_empty() && stop.iter().all(|letter| named.contains(letter)),
            named,
        })
    }

    pub(super) fn has(&self, letter: &LetterId) -> bool {
        self.named.contains(letter)
    }
}
