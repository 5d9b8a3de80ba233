//! Automation: what the rules decide without a person, a little at a time, each deed audited under the rule's name.
//!
//! Every few seconds each rule looks for open letters that it means. Discarding and archiving are steps of letters;
//! routing and replaying are replays like any other, planned, frozen, guarded, and subject to the same approvals: what
//! needs a person waits for one. Only one server of several does this, by a lease. `board.rs` is what is shown of it.

mod board;
mod health;
mod leaving;
mod replays;
#[cfg(test)]
mod tests;
mod trial;

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use dlo_core::automation::{Action, AutomationRule};
use dlo_core::id::LetterId;
use dlo_core::letter::{Letter, Status, Step};
use dlo_core::query::{Compare, Matcher, Op, Query, Term};
use dlo_store::{Deed, Page, Stepped, StoreError};
use tokio_util::sync::CancellationToken;

use crate::office::Office;

pub(crate) use board::{AutomationBoard, RuleStatus};
pub(crate) use leaving::{Leaving, leaving};
pub(crate) use trial::try_out;

/// How often the rules look.
const TICK: Duration = Duration::from_secs(10);
/// Letters that one rule moves at one look: the rest comes next time, and people are not crowded out.
const AT_ONCE: usize = 5_000;
const LEASE: &str = "automation";

/// Runs the rules until `stop`.
pub(crate) async fn run(office: Arc<Office>, stop: CancellationToken) {
    if office.config.automation.is_empty() {
        return;
    }
    let mut tick = tokio::time::interval(TICK);
    tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    while stop.run_until_cancelled(tick.tick()).await.is_some() {
        if stop.run_until_cancelled(look(&office)).await.is_none() {
            break;
        }
    }
    if let Err(error) = office.store.release(LEASE, &office.holder).await {
        tracing::debug!(%error, "the lease of the automation runs out by itself");
    }
}

/// One look of every rule, in their order.
async fn look(office: &Office) {
    match office.store.lease(LEASE, &office.holder, 3 * TICK, office.now()).await {
        Ok(Some(_)) => {}
        Ok(None) => return,
        Err(error) => return tracing::warn!(%error, "automation waits for the store"),
    }
    let rules = &office.config.automation;
    for (at, rule) in rules.iter().enumerate() {
        let held = Before { rules: &rules[..at], values: Values::Real };
        let done = match &rule.action {
            Action::Hold => Ok(()),
            Action::Discard => step(office, rule, &held, Step::Discard).await,
            Action::Archive => step(office, rule, &held, Step::Archive).await,
            Action::Route(queue) => replays::route(office, rule, &held, queue).await,
            Action::Replay(schedule) => replays::replay(office, rule, &held, schedule).await,
        };
        office.automation.looked(&rule.name, office.now(), done.as_ref().err());
        if let Err(error) = done {
            tracing::warn!(rule = rule.name, %error, "a rule could not be carried out; it is tried again");
        }
    }
}

/// The rules that stand before one: a letter that one of them means is not its business, whatever keeps that rule from
/// acting. It may wait for its time, for an approval, for a replay that is under way, or for its next look.
struct Before<'a> {
    rules: &'a [AutomationRule],
    values: Values,
}

/// Which values a rule sees: rules of the config act on real values, a trial by a person on shown ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Values {
    Real,
    Shown,
}

impl Before<'_> {
    /// Takes out the letters that a rule in front means, all of which `query` found. One question for each rule: what both
    /// mean, between the first and the last of them.
    async fn take_out(
        &self,
        office: &Office,
        query: &Query,
        letters: &mut Vec<Letter>,
    ) -> Result<(), StoreError> {
        for rule in self.rules {
            let failed = || letters.iter().map(|letter| letter.failed_at);
            let (Some(first), Some(last)) = (failed().min(), failed().max()) else { return Ok(()) };
            let Some(mut both) = meaning(office, rule, self.values) else { continue };
            both.terms.extend(query.terms.iter().cloned());
            let between = [Compare { op: Op::Ge, value: first }, Compare { op: Op::Le, value: last }];
            both.terms.extend(between.map(|edge| term(Matcher::Failed(edge))));
            let theirs: HashSet<LetterId> =
                all(office, &both, usize::MAX).await?.iter().map(|letter| letter.id).collect();
            letters.retain(|letter| !theirs.contains(&letter.id));
        }
        Ok(())
    }
}

/// What a rule decides about: the open letters that it finds, without those that it has sent often enough.
fn meaning(office: &Office, rule: &AutomationRule, values: Values) -> Option<Query> {
    let mut query = open_letters(office, rule, values)?;
    if let Action::Replay(schedule) = &rule.action {
        let often = Compare { op: Op::Lt, value: i64::from(schedule.times) };
        query.terms.push(term(Matcher::Replays(often)));
    }
    Some(query)
}

fn term(matcher: Matcher) -> Term {
    Term { negated: false, matcher }
}

/// The letters that a query finds, newest first, up to `most` and a page more.
async fn all(office: &Office, query: &Query, most: usize) -> Result<Vec<Letter>, StoreError> {
    let mut letters = Vec::new();
    let mut page = Page::first(Page::MOST);
    loop {
        let found = office.store.letters(query, &page).await?;
        letters.extend(found.letters);
        match found.next {
            Some(next) if letters.len() < most => page.cursor = Some(next),
            _ => return Ok(letters),
        }
    }
}

/// The open letters that a rule means. `None`: the query is not understood, which the config does not let in.
fn open_letters(office: &Office, rule: &AutomationRule, values: Values) -> Option<Query> {
    let query = match values {
        Values::Real => office.real_query(&rule.query),
        Values::Shown => office.query(&rule.query),
    };
    let mut query = query.ok()?;
    query.terms.push(term(Matcher::Status(Status::Open)));
    Some(query)
}

/// Who does it, for the audit log.
/// Whether a rule of this office acts under this name.
pub(crate) fn is_rule(office: &Office, author: &str) -> bool {
    office.config.automation.iter().any(|rule| author_of(rule) == author)
}

fn author_of(rule: &AutomationRule) -> String {
    format!("rule {}", rule.name)
}

fn deed(rule: &AutomationRule) -> Deed {
    Deed {
        author: author_of(rule),
        reason: Some(format!("the rule `{}` means it: {}", rule.name, rule.query)),
        reference: None,
    }
}

/// Letters that `query` finds and no rule in front means, up to `most` and a page more.
async fn meant(
    office: &Office,
    query: &Query,
    before: &Before<'_>,
    most: usize,
) -> Result<Vec<Letter>, StoreError> {
    let mut meant = Vec::new();
    let mut page = Page::first(Page::MOST);
    loop {
        let mut found = office.store.letters(query, &page).await?;
        before.take_out(office, query, &mut found.letters).await?;
        meant.extend(found.letters);
        match found.next {
            Some(next) if meant.len() < most => page.cursor = Some(next),
            _ => return Ok(meant),
        }
    }
}

/// Discards or archives.
async fn step(
    office: &Office,
    rule: &AutomationRule,
    before: &Before<'_>,
    step: Step,
) -> Result<(), StoreError> {
    let Some(query) = meaning(office, rule, before.values) else { return Ok(()) };
    let letters = meant(office, &query, before, AT_ONCE).await?;
    let ids: Vec<LetterId> = letters.iter().map(|letter| letter.id).collect();
    for batch in ids.chunks(Page::MOST) {
        let stepped = office.store.step(batch, step, &deed(rule), office.now()).await?;
        let moved = stepped.iter().filter(|one| matches!(one, Stepped::Moved { .. })).count() as u64;
        office.automation.did(&rule.name, moved);
        if moved > 0 {
            tracing::info!(rule = rule.name, letters = moved, step = step.as_str(), "a rule decided");
        }
    }
    Ok(())
}
