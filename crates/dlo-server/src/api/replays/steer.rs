//! Start, pause, resume, cancel, approve, change the pace.
//!
//! Each moves the stored replay from where it stands. Of a replay with children the one whose turn it is is moved, and
//! the parent with it. The desk is rung afterwards, so that a pause is obeyed at once.

use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{Request, StatusCode};
use axum::response::{IntoResponse, Response};
use dlo_core::id::ReplayId;
use dlo_core::replay::family::first_state;
use dlo_core::replay::{PlannerIdentity, Replay, ReplayState, Settings};
use dlo_store::replays::Turn;
use dlo_store::{Deed, StoreError};
use serde::Deserialize;

use super::ReplayOut;
use super::plan::pace;
use crate::api::error::{Answer, Problem};
use crate::automation;
use crate::body;
use crate::guard::Proven;
use crate::office::Office;
use crate::query_text::{Author, Id};

/// How often a family is looked at to see that it stands as asked: it moves on by itself meanwhile.
const ROUNDS: usize = 5;

pub(crate) async fn start(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<ReplayId>,
) -> Answer<Response> {
    let replay = office.store.replay(id).await?;
    let deed = author.looks();
    match replay.state {
        ReplayState::Planned | ReplayState::AwaitingApproval => {}
        found => return Err(not_now(found, "only a plan can be started")),
    }
    if replay.parent.is_some() {
        let detail =
            "this is a part of a larger plan, which starts its parts one after the other; start that one";
        return Err(Problem::new(StatusCode::CONFLICT, "part_of_a_plan", detail));
    }
    if replay.expires_at <= office.now() {
        let detail =
            format!("the plan is void since {}; plan anew, the letters may have changed", replay.expires_at);
        return Err(Problem::new(StatusCode::CONFLICT, "expired", detail));
    }
    if replay.counts.total() == 0 {
        return Err(Problem::new(StatusCode::CONFLICT, "nothing_to_send", "the plan has no letters"));
    }
    allowed(&office, &replay, &office.store.children(id).await?)?;
    approved(&office, &replay, &deed).await?;
    let first = first_state(&replay);
    // The first part of a plan with parts is begun by the desk, as every further one is.
    turn(&office, &replay, first, &deed).await?;
    answer(&office, id).await
}

/// What a plan was refused for when it was made is refused again: settings of the office may have changed since.
fn allowed(office: &Office, replay: &Replay, children: &[Replay]) -> Answer<()> {
    let is_person = office.config.tokens.iter().any(|(name, _)| *name == replay.author);
    let planner = match is_person || automation::is_rule(office, &replay.author) {
        true => PlannerIdentity::Proven,
        false => PlannerIdentity::Claimed,
    };
    planner.check(replay.approvals_needed)?;
    let policy = office.config.replay.policy();
    for one in std::iter::once(replay).chain(children) {
        if let Some(source) = &one.source {
            policy.check(source, &one.settings)?;
        }
    }
    Ok(())
}

/// Refuses a start that still needs somebody's approval, and says so in the record. The one place of this check.
async fn approved(office: &Office, replay: &Replay, deed: &Deed) -> Answer<()> {
    let given = replay.approvals.len();
    let needed = usize::from(replay.approvals_needed);
    if given >= needed {
        return as_approved(office, replay).await;
    }
    if replay.state == ReplayState::Planned {
        turn(office, replay, ReplayState::AwaitingApproval, deed).await?;
    }
    let detail = format!(
        "{needed} approval{} needed, {given} given: somebody else runs `dlo replay approve {}`",
        if needed == 1 { " is" } else { "s are" },
        replay.id
    );
    Err(Problem::new(StatusCode::FORBIDDEN, "approval_needed", detail))
}

/// Letters stay open until the start, and a repair changes what is sent: nobody approved that.
async fn as_approved(office: &Office, replay: &Replay) -> Answer<()> {
    let Some(first) = replay.approvals.iter().map(|approval| approval.at).min() else { return Ok(()) };
    match office.store.last_repaired(replay.id).await? {
        Some(at) if at >= first => {
            let detail = format!(
                "letters of the plan were repaired at {at}, after it was approved at {first}: plan anew, and have that approved"
            );
            Err(Problem::new(StatusCode::CONFLICT, "repaired_since", detail))
        }
        Some(_) | None => Ok(()),
    }
}

pub(crate) async fn approve(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<ReplayId>,
    request: Request<Body>,
) -> Answer<Response> {
    let replay = office.store.replay(id).await?;
    may_approve(&replay, request.extensions().get())?;
    office.store.approve(id, &author.looks(), office.now()).await?;
    answer(&office, id).await
}

/// Whose approval counts: somebody who proves who it is by a token of their own, and who did not make the plan.
fn may_approve(replay: &Replay, who: Option<&Proven>) -> Answer<()> {
    let forbidden = |code, detail: String| Err(Problem::new(StatusCode::FORBIDDEN, code, detail));
    match who {
        None => forbidden(
            "unproven_approver",
            "an approval needs a token with a name; give people their own under [server.tokens]".to_string(),
        ),
        Some(Proven(name)) if *name == replay.author => forbidden(
            "own_plan",
            format!("`{name}` made this plan; somebody else must approve it, with a token of their own"),
        ),
        Some(_) => match replay.state {
            ReplayState::Planned | ReplayState::AwaitingApproval => Ok(()),
            found => Err(not_now(found, "only a plan can be approved")),
        },
    }
}

pub(crate) async fn pause(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<ReplayId>,
) -> Answer<Response> {
    let because = format!("paused by {}", author.0);
    steer(&office, id, author.looks(), ReplayState::Paused, Some(because)).await
}

pub(crate) async fn cancel(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<ReplayId>,
) -> Answer<Response> {
    steer(&office, id, author.looks(), ReplayState::Cancelled, None).await
}

pub(crate) async fn resume(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<ReplayId>,
) -> Answer<Response> {
    let replay = office.store.replay(id).await?;
    if !matches!(replay.state, ReplayState::Paused | ReplayState::Stopped) {
        return Err(not_now(replay.state, "only a paused or stopped replay can be resumed"));
    }
    // It begins with a canary again: what stopped it may not be over.
    let next = first_state(&replay);
    steer(&office, id, author.looks(), next, None).await
}

/// Moves a replay, and of one with children also those that are meant. The desk moves families as well, and a part may end
/// and the next begin meanwhile: it is looked at again until everything stands where it was asked to.
async fn steer(
    office: &Office,
    id: ReplayId,
    deed: Deed,
    to: ReplayState,
    because: Option<String>,
) -> Answer<Response> {
    // What goes on again may be halted by a guard at once, and that is not undone by a second look.
    let rounds = if to.is_active() { 1 } else { ROUNDS };
    for round in 0..rounds {
        let replay = office.store.replay(id).await?;
        // A cancelled plan takes all its parts along; otherwise it is the one whose turn it is.
        let meant = |child: &Replay| {
            let begun = to == ReplayState::Cancelled || child.state != ReplayState::Planned;
            begun && !is_as_asked(child.state, to) && child.state.may_become(to)
        };
        let children = office.store.children(id).await?;
        let behind: Vec<&Replay> = children.iter().filter(|child| meant(child)).collect();
        if round > 0 && behind.is_empty() && is_as_asked(replay.state, to) {
            break;
        }
        if behind.is_empty() && !replay.state.may_become(to) {
            return Err(not_now(replay.state, &format!("it cannot become {to}")));
        }
        for child in behind {
            nudge(office, child, to, because.as_ref(), &deed).await?;
        }
        nudge(office, &replay, to, because.as_ref(), &deed).await?;
    }
    answer(office, id).await
}

/// Whether a replay stands where it was asked to go: canary and running are both going on.
fn is_as_asked(found: ReplayState, to: ReplayState) -> bool {
    found == to || (found.is_active() && to.is_active())
}

async fn turn(office: &Office, replay: &Replay, to: ReplayState, deed: &Deed) -> Answer<()> {
    match turn_because(office, replay, to, None, deed).await {
        // The desk lets a plan follow its part, and was faster.
        Err(StoreError::Conflict { found, .. }) if is_as_asked(found, to) => Ok(()),
        turned => Ok(turned?),
    }
}

/// The same for what is looked at again: a part may have come to its end, and whatever can still be turned is turned then.
async fn nudge(
    office: &Office,
    replay: &Replay,
    to: ReplayState,
    because: Option<&String>,
    deed: &Deed,
) -> Answer<()> {
    if is_as_asked(replay.state, to) {
        return Ok(());
    }
    match turn_because(office, replay, to, because.cloned(), deed).await {
        Err(StoreError::Conflict { found, .. })
            if is_as_asked(found, to) || found.may_become(to) || replay.parent.is_some() =>
        {
            Ok(())
        }
        turned => Ok(turned?),
    }
}

async fn turn_because(
    office: &Office,
    replay: &Replay,
    to: ReplayState,
    stop_reason: Option<String>,
    deed: &Deed,
) -> Result<(), StoreError> {
    let turn = Turn { from: replay.state, to, stop_reason, stop_letters: Vec::new() };
    let turned = office.store.turn(replay.id, turn, deed, office.now()).await;
    office.replays.ring();
    turned.map(drop)
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Adjust {
    rate: Option<f64>,
    share: Option<f64>,
    #[serde(default)]
    max: bool,
}

pub(crate) async fn adjust(
    State(office): State<Arc<Office>>,
    author: Author,
    Id(id): Id<ReplayId>,
    request: Request<Body>,
) -> Answer<Response> {
    let asked: Adjust = body::json(request, &office).await?;
    let missing = || Problem::unprocessable("bad_pace", "say one of `rate`, `share` and `max`").field("rate");
    let pace = pace(asked.rate, asked.share, asked.max)?.ok_or_else(missing)?;
    let replay = office.store.replay(id).await?;
    let deed = author.looks();
    let mut family = vec![replay];
    family.extend(office.store.children(id).await?);
    family.retain(|one| !one.state.is_over());
    // Refused for one is refused for all: nothing is changed before each was looked at.
    let policy = office.config.replay.policy();
    for source in family.iter().filter_map(|one| one.source.as_deref()) {
        policy.check(source, &Settings { pace, ..Settings::default() })?;
    }
    for one in family {
        let settings = Settings { pace, ..one.settings };
        office.store.adjust(one.id, settings, &deed, office.now()).await?;
    }
    office.replays.ring();
    answer(&office, id).await
}

fn not_now(found: ReplayState, what: &str) -> Problem {
    Problem::new(StatusCode::CONFLICT, "conflict", format!("the replay is {found}: {what}"))
}

/// The replay as it stands now.
async fn answer(office: &Office, id: ReplayId) -> Answer<Response> {
    let replay = office.shown().replay(id).await?;
    let children = office.shown().children(id).await?;
    Ok(Json(ReplayOut::new(&replay, &children, &office.replays)).into_response())
}

#[cfg(test)]
mod tests;
