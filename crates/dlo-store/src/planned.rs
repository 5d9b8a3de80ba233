//! From a plan that is decided to the replays that are written: one, or a parent with one child for each part.

use dlo_core::id::{LetterId, ReplayId};
use dlo_core::letter::Status;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::replay::planner::{Member, Part, Plan, largest};
use dlo_core::replay::{ItemCounts, ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;

use crate::replays::{Members, NewReplay};

/// A replay with its members, ready to be written.
#[derive(Debug)]
pub(crate) struct Planned {
    pub(crate) replay: Replay,
    pub(crate) members: Vec<Member>,
}

/// The replays of a plan: the plan itself first, then its children in their order.
pub(crate) fn write_up(new: &NewReplay, mut plan: Plan, now: Timestamp) -> Vec<Planned> {
    let mut whole = blank(new, &plan, now);
    if plan.parts.len() <= 1 {
        let members = match plan.parts.pop() {
            Some(part) => describe(new, &mut whole, part),
            None => Vec::new(),
        };
        return vec![Planned { replay: whole, members }];
    }
    whole.source = common(plan.parts.iter().map(|part| Some(part.source.as_str())));
    whole.event_type = common(plan.parts.iter().map(|part| part.event_type.as_deref()));
    whole.error_class = common(plan.parts.iter().map(|part| part.error_class.as_deref()));
    whole.by_class = largest(plan.parts.iter().flat_map(|part| part.by_class.iter().cloned()));
    whole.doubts = plan.parts.iter().flat_map(named_doubts).collect();
    let mut planned = Vec::with_capacity(plan.parts.len() + 1);
    for (at, part) in plan.parts.into_iter().enumerate() {
        let mut child = Replay {
            id: ReplayId::new(now, rand::random()),
            parent: Some(new.id),
            ordinal: at as u32 + 1,
            source: None,
            event_type: None,
            error_class: None,
            by_class: Vec::new(),
            excluded: Vec::new(),
            doubts: Vec::new(),
            ..whole.clone()
        };
        let members = describe(new, &mut child, part);
        whole.counts.merge(&child.counts);
        planned.push(Planned { replay: child, members });
    }
    planned.insert(0, Planned { replay: whole, members: Vec::new() });
    planned
}

/// The plan, if there is nothing in it to write.
pub(crate) fn not_written(new: &NewReplay, planned: &[Planned]) -> Option<Replay> {
    let void = new.policy.unless_empty && planned.iter().all(|planned| planned.members.is_empty());
    planned.first().filter(|_| void).map(|planned| planned.replay.clone())
}

fn blank(new: &NewReplay, plan: &Plan, now: Timestamp) -> Replay {
    Replay {
        id: new.id,
        parent: None,
        ordinal: 1,
        state: ReplayState::Planned,
        query: match &new.members {
            Members::Query { text, .. } => Some(text.clone()),
            Members::Ids(_) => None,
        },
        source: None,
        event_type: None,
        error_class: None,
        cause: new.cause,
        settings: new.settings.clone(),
        author: new.author.clone(),
        reason: new.reason.clone(),
        created_at: now,
        expires_at: new.expires_at,
        started_at: None,
        ended_at: None,
        stop_reason: None,
        stop_letters: Vec::new(),
        approvals: Vec::new(),
        approvals_needed: plan.approvals_needed,
        by_class: Vec::new(),
        excluded: plan.excluded.clone(),
        doubts: Vec::new(),
        counts: ItemCounts::default(),
    }
}

/// Says of a replay what its part is; returns its members.
fn describe(new: &NewReplay, replay: &mut Replay, part: Part) -> Vec<Member> {
    if let Some(settings) = new.policy.settings.get(&part.source) {
        replay.settings = settings.clone();
    }
    replay.source = Some(part.source);
    replay.event_type = part.event_type;
    replay.error_class = part.error_class;
    replay.by_class = part.by_class;
    replay.doubts = part.doubts;
    replay.settings.order = part.order;
    replay.counts.set(ItemState::Frozen, part.members.len() as u64);
    part.members
}

fn common<'a>(mut values: impl Iterator<Item = Option<&'a str>>) -> Option<String> {
    let first = values.next()??;
    values.all(|value| value == Some(first)).then(|| first.to_string())
}

fn named_doubts(part: &Part) -> impl Iterator<Item = String> {
    let class = part.error_class.as_deref().unwrap_or("no class");
    part.doubts.iter().map(move |doubt| format!("{} {class}: {doubt}", part.source))
}

/// What a query is asked in a plan, whatever it says of statuses.
#[derive(Debug)]
pub(crate) struct Asked {
    /// The answers are members.
    pub(crate) open: Query,
    /// The answers are in the hand of another replay.
    pub(crate) held: Query,
    /// The answers are neither.
    pub(crate) others: Query,
}

impl Asked {
    pub(crate) fn of(query: &Query) -> Self {
        let with = |negated: bool, statuses: &[Status]| {
            let mut query = query.clone();
            let terms = statuses.iter().map(|status| Term { negated, matcher: Matcher::Status(*status) });
            query.terms.extend(terms);
            query
        };
        Self {
            open: with(false, &[Status::Open]),
            held: with(false, &[Status::Claimed]),
            others: with(true, &[Status::Open, Status::Claimed]),
        }
    }
}

/// Ids without repetition.
pub(crate) fn distinct(ids: &[LetterId]) -> Vec<LetterId> {
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    ids
}
