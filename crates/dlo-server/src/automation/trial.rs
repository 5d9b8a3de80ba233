//! Rules tried on what is here: how many open letters each would find, and a few of them. Nothing is changed.

use dlo_core::automation::{Action, AutomationRule};
use dlo_core::id::LetterId;
use dlo_store::{Page, StoreError};
use serde::Serialize;

use super::{Before, Values, open_letters};
use crate::office::Office;

/// A count goes up to here.
const COUNTED: u64 = 1_000_000;
/// Letters named for each rule.
const SAMPLES: usize = 5;

#[derive(Debug, Serialize)]
pub(crate) struct Tried<'a> {
    name: &'a str,
    action: &'a Action,
    /// Open letters that the rule finds by itself; one that a rule in front finds as well is that one's.
    letters: u64,
    samples: Vec<LetterId>,
}

pub(crate) async fn try_out<'a>(
    office: &Office,
    rules: &'a [AutomationRule],
) -> Result<Vec<Tried<'a>>, StoreError> {
    let mut tried = Vec::with_capacity(rules.len());
    for (at, rule) in rules.iter().enumerate() {
        let before = Before { rules: &rules[..at], values: Values::Shown };
        let (mut letters, mut samples) = (0, Vec::new());
        if let Some(query) = open_letters(office, rule, Values::Shown) {
            letters = office.store.count(&query, COUNTED).await?;
            let mut found = office.store.letters(&query, &Page::first(SAMPLES)).await?.letters;
            before.take_out(office, &query, &mut found).await?;
            samples.extend(found.iter().map(|letter| letter.id));
        }
        tried.push(Tried { name: &rule.name, action: &rule.action, letters, samples });
    }
    Ok(tried)
}
