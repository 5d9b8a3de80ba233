//! One replay: before its start the plan that is read and agreed to, afterwards what became of each letter.
//!
//! Outcomes stay apart and are never added up under one word. What cannot be done now stays visible with the reason.

mod changed;
mod command;
mod evidence;
mod items;
mod onward;
mod plan;
mod steering;

use std::sync::Arc;

use askama::Template;
use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::query::Query;
use dlo_core::replay::{ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;

use super::draw::Svg;
use super::replays::{ReplayLine, about, badge};
use super::show::When;
use super::{Failed, Shell, draw, names, render, scope, words};
use crate::guard::Proven;
use crate::office::Office;
use crate::query_text::{Id, Params};
use crate::replay::{Standing, differences};

use changed::Changed;
pub(crate) use items::ItemParams;
use items::Items;
use onward::Onward;
use plan::Plan;
pub(crate) use plan::settings;
use steering::Steering;

/// How many stand in one state, and what that means.
struct Outcome {
    state: &'static str,
    title: String,
    meaning: &'static str,
    count: String,
}

#[derive(Template)]
#[template(path = "replay.html")]
struct ReplayPage {
    shell: Shell,
    q: String,
    id: String,
    state: &'static str,
    phrase: String,
    meaning: String,
    /// Nothing more is told of it alone; what its letters do is told with everything else.
    over: bool,
    about: String,
    query: Option<String>,
    scope: Vec<String>,
    parent: Option<String>,
    author: String,
    reason: String,
    cause: Option<&'static str>,
    created: When,
    started: Option<When>,
    ended: Option<When>,
    total: String,
    bar: Svg,
    outcomes: Vec<Outcome>,
    /// Of those with an outcome, how many were handled.
    success: Option<String>,
    stop: Option<String>,
    /// Those that caused it.
    stop_letters: Vec<Stopper>,
    changed: Changed,
    onward: Option<Onward>,
    /// It was not started yet: what is doubtful must be read before the button.
    is_plan: bool,
    /// What it waits for now, and how fast it goes, where this server has it in hand.
    waits: Option<String>,
    rate: Option<String>,
    came_back: u64,
    /// What is known around its letters in doubt.
    evidence: Vec<String>,
    plan: Plan,
    steering: Steering,
    children: Vec<ReplayLine>,
    items: Items,
}

pub(crate) async fn page(
    State(office): State<Arc<Office>>,
    shell: Shell,
    Id(id): Id<ReplayId>,
    who: Option<Extension<Proven>>,
    Params(params): Params<ItemParams>,
) -> Result<Response, Failed> {
    let replay = office.shown().replay(id).await?;
    let children = office.shown().children(id).await?;
    let now = office.now();
    let items = Items::read(&office, &replay, !children.is_empty(), params, now).await?;
    // A plan of several parts waits where its part does.
    let mut parts = std::iter::once(&replay).chain(&children);
    let standing = parts.find_map(|part| office.replays.standing(part.id));
    let active = replay.state.is_active();
    let rate = standing.as_ref().filter(|_| active).map(|standing| match standing.rate {
        Some(rate) => format!("{rate:.1} a second"),
        None => "no limit".to_string(),
    });
    let (state, phrase) = badge(&replay, &office.replays);
    let changed = Changed::read(&office, &replay, &items).await?;
    let mut plan = Plan::new(&replay, &office, now);
    if is_plan(replay.state) {
        let differences = differences(&office, &replay, &children).await?;
        plan.differences = differences.into_iter().map(|line| line.text).collect();
    }
    Ok(render(&ReplayPage {
        shell,
        q: String::new(),
        id: id.to_string(),
        state,
        phrase,
        meaning: meaning(&replay, standing.as_ref()),
        over: replay.state.is_over(),
        about: about(&replay),
        scope: in_words(&office, &replay, now).await?,
        query: replay.query.clone(),
        parent: replay.parent.map(|parent| parent.to_string()),
        author: replay.author.clone(),
        reason: replay.reason.clone(),
        cause: replay.cause.map(words::cause),
        created: When::new(replay.created_at, now),
        started: replay.started_at.map(|at| When::new(at, now)),
        ended: replay.ended_at.map(|at| When::new(at, now)),
        total: words::letters(replay.counts.total()),
        bar: draw::progress(&replay.counts),
        outcomes: outcomes(&replay),
        success: success(&replay),
        stop: replay.stop_reason.clone(),
        stop_letters: stoppers(&office, &changed).await?,
        onward: Onward::of(&office, &replay, &items).await?,
        is_plan: is_plan(replay.state),
        changed,
        waits: standing.filter(|_| active).and_then(|standing| standing.waits),
        rate,
        came_back: replay.counts.failed_again(),
        evidence: evidence::read(&office, &replay, now).await?,
        plan,
        steering: Steering::new(&replay, who.as_ref().map(|Extension(proven)| proven), now),
        children: children.iter().map(|child| ReplayLine::new(child, &office.replays, now)).collect(),
        items,
    }))
}

/// What its state means; while it sends nothing, how much is sent and why the rest is not.
fn meaning(replay: &Replay, standing: Option<&Standing>) -> String {
    let stalled = standing.filter(|standing| standing.stalled.is_some());
    let Some(why) = stalled.and_then(|standing| standing.waits.as_deref()) else {
        return words::replay(replay.state).to_owned();
    };
    let (sent, in_doubt) = (replay.counts.sent(), replay.counts.get(ItemState::InDoubt));
    let total = words::letters(replay.counts.total());
    match (sent, in_doubt) {
        (0, 0) => format!("Nothing was sent yet. It waits: {why}."),
        (_, 0) => format!("{} of {total} were sent. It waits: {why}.", words::number(sent)),
        _ => {
            let (sent, in_doubt) = (words::number(sent), words::number(in_doubt));
            format!("{sent} of {total} were sent, {in_doubt} are in doubt. It waits: {why}.")
        }
    }
}

const fn is_plan(state: ReplayState) -> bool {
    matches!(state, ReplayState::Planned | ReplayState::AwaitingApproval)
}

async fn in_words(office: &Office, replay: &Replay, now: Timestamp) -> Result<Vec<String>, Failed> {
    match replay.query.as_deref().and_then(|text| Query::parse(text, now).ok()) {
        Some(query) => scope::named(office, &query).await,
        None => Ok(Vec::new()),
    }
}

/// A letter that stopped it.
struct Stopper {
    id: LetterId,
    name: String,
    /// It went out repaired.
    repaired: bool,
}

async fn stoppers(office: &Office, changed: &Changed) -> Result<Vec<Stopper>, Failed> {
    let mut all = Vec::with_capacity(changed.stop_letters.len());
    for (id, repaired) in &changed.stop_letters {
        all.push(Stopper { id: *id, name: names::letter(office, *id).await?, repaired: *repaired });
    }
    Ok(all)
}

/// Every state that has letters; before the start there is only one, and the plan says it better.
fn outcomes(replay: &Replay) -> Vec<Outcome> {
    let begun = !is_plan(replay.state);
    let told = |state: &ItemState| {
        // These answer "did it work", so they are shown even if they are zero.
        let asked = matches!(
            state,
            ItemState::Confirmed
                | ItemState::Passed
                | ItemState::Presumed
                | ItemState::Sent
                | ItemState::Returned
                | ItemState::SuspectedReturn
                | ItemState::Unknown
                | ItemState::InDoubt
        );
        begun && (asked || replay.counts.get(*state) > 0)
    };
    let outcome = |state: &ItemState| Outcome {
        state: state.as_str(),
        title: words::phrase(state.as_str()),
        meaning: words::item(*state),
        count: words::number(replay.counts.get(*state)),
    };
    draw::OUTCOMES.iter().filter(|state| told(state)).map(outcome).collect()
}

fn success(replay: &Replay) -> Option<String> {
    let handled = replay.counts.handled();
    let known = handled + replay.counts.failed_again();
    (known > 0).then(|| {
        let (handled, known) = (words::number(handled), words::number(known));
        format!("{handled} of {known} whose outcome is known were handled")
    })
}
