//! When a letter goes by itself: the rule that will take it away, if nothing else becomes of it first.

use dlo_core::letter::{Letter, Status};
use dlo_core::query::{Ageing, End, Matcher, Query};
use dlo_core::time::Timestamp;
use dlo_store::StoreError;
use serde::Serialize;

use super::term;
use crate::office::Office;

/// How a letter goes.
#[derive(Debug, Serialize)]
pub(crate) struct Leaving {
    pub(crate) at: Timestamp,
    /// The rule's name.
    pub(crate) rule: String,
    pub(crate) step: End,
}

/// `None`: no rule that is configured takes it away, however old it becomes.
pub(crate) async fn leaving(office: &Office, letter: &Letter) -> Result<Option<Leaving>, StoreError> {
    if letter.status != Status::Open || office.expiry.ends().next().is_none() {
        return Ok(None);
    }
    let expiry = office.expiry.as_of(office.now());
    let mut meant: Vec<&Ageing> = Vec::new();
    for rule in expiry.rules() {
        let mut terms = rule.terms.clone();
        terms.push(term(Matcher::Id(letter.id)));
        if office.store.count(&Query { terms }, 1).await? > 0 {
            meant.push(rule);
        }
    }
    let means = |rule: &Ageing| meant.iter().any(|one| std::ptr::eq(*one, rule));
    let end = expiry.end_of(letter.failed_at, Timestamp::from_micros(i64::MAX), means);
    Ok(end.and_then(|(at, rule)| Some(Leaving { at, rule: rule.name.clone(), step: rule.end? })))
}
