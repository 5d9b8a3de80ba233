//! Replays that rules make: routing to another queue, and sending again after a while.
//!
//! A rule has one replay under way at most. One that a guard stopped stays for a person, and until then the rule plans
//! nothing more: an automatism that fails must not go on failing.

use std::time::Duration;

use dlo_core::automation::{AutomationRule, Schedule};
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::Letter;
use dlo_core::query::{Compare, Matcher, Op, Query};
use dlo_core::replay::family::first_state;
use dlo_core::replay::{Guards, ItemState, Pace, PlannerIdentity, Replay, ReplayState, Settings, Target};
use dlo_core::time::Timestamp;
use dlo_store::replays::{Members, NewReplay, PlanPolicy, Turn};
use dlo_store::{Page, StoreError};

use super::health;
use super::{AT_ONCE, Before, all, deed, meaning, meant, term};
use crate::office::Office;

/// Numbers of replays that are told apart when letters are looked for that are due.
const TOLD_APART: u32 = 32;
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
    let Some(query) = meaning(office, rule, before.values) else { return Ok(()) };
    let letters = meant(office, &query, before, AT_ONCE).await?;
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
        target: Target::Route(queue.to_string()),
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
    let Some(query) = meaning(office, rule, before.values) else { return Ok(()) };
    let letters = due(office, &query, before, schedule).await?;
    let due: Vec<LetterId> = letters.iter().map(|letter| letter.id).collect();
    let next = next(office, &query, schedule).await?;
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

/// The letters whose time has come. Each number of replays has a wait of its own, and is asked for by itself: so many that
/// are not due never stand before one that is.
async fn due(
    office: &Office,
    query: &Query,
    before: &Before<'_>,
    schedule: &Schedule,
) -> Result<Vec<Letter>, StoreError> {
    let now = office.now();
    let mut due = Vec::new();
    for replays in 0..schedule.times.min(TOLD_APART) {
        let Some(wait) = schedule.wait(replays) else { break };
        let op = if replays + 1 == TOLD_APART { Op::Ge } else { Op::Eq };
        let mut query = query.clone();
        query.terms.push(term(Matcher::Replays(Compare { op, value: i64::from(replays) })));
        query.terms.push(term(Matcher::Failed(Compare { op: Op::Le, value: now.minus(wait) })));
        due.extend(meant(office, &query, before, AT_ONCE.saturating_sub(due.len())).await?);
        if due.len() >= AT_ONCE {
            break;
        }
    }
    due.retain(|letter| schedule.due(letter.failed_at, letter.replays).is_some_and(|due| due <= now));
    due.truncate(AT_ONCE);
    Ok(due)
}

/// When the next one is due, as far as a look at the newest tells: it is shown, and decides nothing.
async fn next(office: &Office, query: &Query, schedule: &Schedule) -> Result<Option<Timestamp>, StoreError> {
    let now = office.now();
    let mut waiting = query.clone();
    let since = Compare { op: Op::Gt, value: now.minus(schedule.cap.0) };
    waiting.terms.push(term(Matcher::Failed(since)));
    let letters = all(office, &waiting, AT_ONCE).await?;
    let dues = letters.iter().filter_map(|letter| schedule.due(letter.failed_at, letter.replays));
    Ok(dues.filter(|due| *due > now).min())
}

/// The settings of the letters' source; of letters of several sources the usual ones.
fn base(office: &Office, letters: &[Letter]) -> Settings {
    let rules = &office.config.replay.sources;
    let first = letters.first().map(|letter| letter.source.as_str());
    let one = letters.iter().all(|letter| Some(letter.source.as_str()) == first);
    let source = first.filter(|_| one).and_then(|source| rules.get(source));
    source.map(|source| source.settings.clone()).unwrap_or_default()
}

/// The replay of this rule that is not over, if there is one.
async fn under_way(office: &Office, rule: &AutomationRule) -> Result<Option<Replay>, StoreError> {
    let author = deed(rule).author;
    for state in ReplayState::ALL.iter().filter(|state| !state.is_over()) {
        let mut page = Page::first(Page::MOST);
        loop {
            let found = office.store.replays(Some(*state), &page).await?;
            let ours = found.replays.into_iter().find(|replay| replay.author == author);
            match (ours, found.next) {
                (Some(ours), _) => return Ok(Some(ours)),
                (None, Some(next)) => page.cursor = Some(next),
                (None, None) => break,
            }
        }
    }
    Ok(None)
}

/// Whether it was stopped when everything of it was sent. The counts of a plan of several parts are those of its parts.
fn is_spent(replay: &Replay) -> bool {
    use ItemState::{Claimed, Frozen, InDoubt, Intended};
    let left: u64 = [Frozen, Claimed, Intended, InDoubt].map(|state| replay.counts.get(state)).iter().sum();
    replay.state == ReplayState::Stopped && replay.counts.total() > 0 && left == 0
}

/// Whether a replay of this rule is under way, or waits for a person.
async fn is_busy(office: &Office, rule: &AutomationRule) -> Result<bool, StoreError> {
    let Some(other) = &under_way(office, rule).await? else { return Ok(false) };
    // Expired before it began, or stopped by its canary with nothing behind that a person could let go on: what came back
    // has its next time, as the schedule says.
    if (other.expires_at <= office.now() && other.started_at.is_none()) || is_spent(other) {
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
        // Letters that a plan leaves out are found again at every look: of them nothing is written.
        policy: PlanPolicy {
            unless_empty: true,
            planner: PlannerIdentity::Proven,
            ..office.config.replay.policy()
        },
    };
    let replay = office.store.plan(plan, now).await?;
    if replay.counts.total() == 0 {
        return Ok(());
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
