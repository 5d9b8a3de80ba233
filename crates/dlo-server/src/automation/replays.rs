//! Replays that rules make: routing to another queue, and sending again after a while.
//!
//! A rule has one replay under way at most. One that a guard stopped stays for a person, and until then the rule plans
//! nothing more: an automatism that fails must not go on failing.

use std::time::Duration;

use dlo_core::automation::{AutomationRule, Schedule};
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::Letter;
use dlo_core::replay::family::first_state;
use dlo_core::replay::{Guards, Pace, Replay, ReplayState, Settings, Target};
use dlo_core::time::Timestamp;
use dlo_store::replays::{Members, NewReplay, Turn};
use dlo_store::{Page, StoreError};

use super::health;
use super::{Before, deed, meant};
use crate::office::Office;

/// Replays that are looked through for one of the same rule.
const LOOKED_AT: usize = 200;
/// A plan of a rule is started at once; it is void soon if it could not be.
const EXPIRES: Duration = Duration::from_secs(24 * 3_600);

/// Sends letters to a queue for what can never succeed.
pub(super) async fn route(
    office: &Office,
    rule: &AutomationRule,
    before: &Before<'_>,
    queue: &str,
) -> Result<(), StoreError> {
    if is_busy(office, rule).await? {
        return Ok(());
    }
    let letters = meant(office, rule, before).await?;
    let guards = Guards {
        recurrence: None,
        refill: false,
        failures: None,
        lag: None,
        breaker: false,
        ..Guards::default()
    };
    let settings = Settings {
        // Nobody is expected to handle it there, so nothing is tried first and nobody is spared.
        canary: 0,
        ramp: 1,
        pace: Pace::Rate(500.0),
        target: Target::Queue(queue.to_string()),
        limit: u32::MAX,
        guards,
        ..base(office, &letters)
    };
    send(office, rule, letters.iter().map(|letter| letter.id).collect(), settings).await
}

/// Sends letters again that are due.
pub(super) async fn replay(
    office: &Office,
    rule: &AutomationRule,
    before: &Before<'_>,
    schedule: &Schedule,
) -> Result<(), StoreError> {
    if is_busy(office, rule).await? {
        return Ok(());
    }
    let now = office.now();
    let letters = meant(office, rule, before).await?;
    let dues: Vec<(Option<Timestamp>, &Letter)> =
        letters.iter().map(|letter| (schedule.due(letter.failed_at, letter.replays), letter)).collect();
    let next = dues.iter().filter_map(|(due, _)| *due).filter(|due| *due > now).min();
    let due: Vec<LetterId> = dues
        .iter()
        .filter(|(due, _)| due.is_some_and(|due| due <= now))
        .map(|(_, letter)| letter.id)
        .collect();
    office.automation.plans(&rule.name, next, None);
    if due.is_empty() {
        return Ok(());
    }
    if let Some(url) = &schedule.health
        && let Err(ill) = health::is_well(url).await
    {
        office.automation.plans(&rule.name, next, Some(format!("health: {ill}")));
        return Ok(());
    }
    let settings = Settings { limit: schedule.times, ..base(office, &letters) };
    send(office, rule, due, settings).await
}

/// The settings of the letters' source; of letters of several sources the usual ones.
fn base(office: &Office, letters: &[Letter]) -> Settings {
    let rules = &office.config.replay.sources;
    let first = letters.first().map(|letter| letter.source.as_str());
    let one = letters.iter().all(|letter| Some(letter.source.as_str()) == first);
    let source = first.filter(|_| one).and_then(|source| rules.get(source));
    source.map(|source| source.settings.clone()).unwrap_or_default()
}

/// Whether a replay of this rule is under way, or waits for a person.
async fn is_busy(office: &Office, rule: &AutomationRule) -> Result<bool, StoreError> {
    let author = deed(rule).author;
    let page = office.store.replays(None, &Page::first(LOOKED_AT)).await?;
    let other = page.replays.iter().find(|replay| replay.author == author && !replay.state.is_over());
    let Some(other) = other else { return Ok(false) };
    if other.expires_at <= office.now() && other.started_at.is_none() {
        turn(office, rule, other, ReplayState::Cancelled).await?;
        return Ok(false);
    }
    let waits_for = match other.state {
        ReplayState::Stopped | ReplayState::Paused => Some(format!(
            "a person: replay {} {}",
            other.id,
            other.stop_reason.as_deref().unwrap_or("is not going on")
        )),
        ReplayState::Planned | ReplayState::AwaitingApproval => {
            Some(format!("an approval of replay {}", other.id))
        }
        _ => Some(format!("replay {}", other.id)),
    };
    office.automation.plans(&rule.name, None, waits_for);
    Ok(true)
}

/// Plans, and starts if nobody has to approve.
async fn send(
    office: &Office,
    rule: &AutomationRule,
    ids: Vec<LetterId>,
    settings: Settings,
) -> Result<(), StoreError> {
    if ids.is_empty() {
        return Ok(());
    }
    let now = office.now();
    let by = deed(rule);
    let plan = NewReplay {
        id: ReplayId::new(now, rand::random()),
        members: Members::Ids(ids),
        settings,
        cause: None,
        author: by.author,
        reason: by.reason.unwrap_or_default(),
        expires_at: now.plus(EXPIRES),
        policy: office.config.replay.policy(),
    };
    let replay = office.store.plan(plan, now).await?;
    if replay.counts.total() == 0 {
        return turn(office, rule, &replay, ReplayState::Cancelled).await;
    }
    if replay.approvals_needed > 0 {
        turn(office, rule, &replay, ReplayState::AwaitingApproval).await?;
        office.automation.plans(&rule.name, None, Some(format!("an approval of replay {}", replay.id)));
        return Ok(());
    }
    let first = first_state(&replay);
    turn(office, rule, &replay, first).await?;
    office.automation.did(&rule.name, replay.counts.total());
    office.replays.ring();
    tracing::info!(rule = rule.name, replay = %replay.id, letters = replay.counts.total(), "a rule sends letters on");
    Ok(())
}

async fn turn(
    office: &Office,
    rule: &AutomationRule,
    replay: &Replay,
    to: ReplayState,
) -> Result<(), StoreError> {
    let turn = Turn { from: replay.state, to, stop_reason: None, stop_letters: Vec::new() };
    office.store.turn(replay.id, turn, &deed(rule), office.now()).await.map(drop)
}
