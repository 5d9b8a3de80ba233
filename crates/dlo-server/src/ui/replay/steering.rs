//! What a person can do with a replay now. What cannot be done stays visible, with the reason beside it.
//!
//! The same checks stand in the API, which decides; here they are told before somebody presses.

use dlo_core::replay::{ItemState, Replay, ReplayState};
use dlo_core::time::Timestamp;

use crate::guard::Proven;
use crate::ui::words;

/// Letters from which on a start asks for the number to be typed.
const TYPED: u64 = 1_000;

/// A button.
pub(super) struct Action {
    pub(super) name: &'static str,
    pub(super) label: String,
    /// What it does, or why it cannot be done.
    pub(super) words: String,
    pub(super) allowed: bool,
    /// The count that is to be typed first.
    pub(super) confirm: Option<u64>,
    pub(super) primary: bool,
}

pub(super) struct Steering {
    pub(super) actions: Vec<Action>,
    /// Whether the rate can still be changed.
    pub(super) pace: bool,
    /// Items in doubt that a person can settle.
    pub(super) doubtful: u64,
}

impl Steering {
    pub(super) fn new(replay: &Replay, who: Option<&Proven>, now: Timestamp) -> Self {
        let mut actions = vec![start(replay, now)];
        if replay.approvals_needed > 0 {
            actions.push(approve(replay, who));
        }
        actions.extend([pause(replay), resume(replay), cancel(replay)]);
        Self { actions, pace: !replay.state.is_over(), doubtful: replay.counts.get(ItemState::InDoubt) }
    }
}

fn action(name: &'static str, label: &str, does: &str, refused: Option<String>) -> Action {
    Action {
        name,
        label: label.to_string(),
        allowed: refused.is_none(),
        words: refused.unwrap_or_else(|| does.to_string()),
        confirm: None,
        primary: false,
    }
}

/// `it is paused: only a plan can be started`.
fn not_now(state: ReplayState, only: &str) -> String {
    let stands = match state {
        ReplayState::Canary => "It sends its sample".to_string(),
        ReplayState::Planned
        | ReplayState::AwaitingApproval
        | ReplayState::Running
        | ReplayState::Paused
        | ReplayState::Stopped
        | ReplayState::Completed
        | ReplayState::Cancelled => format!("It is {}", words::phrase(state.as_str())),
    };
    format!("{stands}: {only}.")
}

fn start(replay: &Replay, now: Timestamp) -> Action {
    let total = replay.counts.total();
    let given = replay.approvals.len();
    let needed = usize::from(replay.approvals_needed);
    let refused = match replay.state {
        ReplayState::Planned | ReplayState::AwaitingApproval if replay.parent.is_some() => {
            Some("It is a part of a larger plan, which starts its parts one after the other.".to_string())
        }
        ReplayState::Planned | ReplayState::AwaitingApproval if replay.expires_at <= now => {
            Some("The plan is void: it was not started in time. Plan anew.".to_string())
        }
        ReplayState::Planned | ReplayState::AwaitingApproval if total == 0 => {
            Some("The plan has no letters: everything that matches is left out, as said below.".to_string())
        }
        ReplayState::Planned | ReplayState::AwaitingApproval if given < needed => Some(format!(
            "{needed} approval{} needed, {given} given. Somebody else must approve it first.",
            if needed == 1 { " is" } else { "s are" }
        )),
        ReplayState::Planned | ReplayState::AwaitingApproval => None,
        state => Some(not_now(state, "only a plan can be started")),
    };
    let allowed = refused.is_none();
    Action {
        confirm: (allowed && total >= TYPED).then_some(total),
        primary: allowed,
        ..action(
            "start",
            &format!("Start: send {}", words::letters(total)),
            "A few go first, then the rest.",
            refused,
        )
    }
}

fn approve(replay: &Replay, who: Option<&Proven>) -> Action {
    let open = matches!(replay.state, ReplayState::Planned | ReplayState::AwaitingApproval);
    let refused = match who {
        _ if !open => Some(not_now(replay.state, "only a plan can be approved")),
        None => Some(
            "An approval needs a token with a name of your own, from [server.tokens] in the config."
                .to_string(),
        ),
        Some(Proven(name)) if *name == replay.author => {
            Some(format!("{name} made this plan: somebody else must approve it."))
        }
        Some(Proven(name)) if replay.approvals.iter().any(|one| one.author == *name) => {
            Some(format!("{name} has approved it already."))
        }
        Some(_) => None,
    };
    action("approve", "Approve", "Says that somebody else has looked at this plan.", refused)
}

fn pause(replay: &Replay) -> Action {
    let refused = (!replay.state.is_active()).then(|| not_now(replay.state, "only what sends can be paused"));
    action("pause", "Pause", "Nothing more is sent until it is resumed.", refused)
}

fn resume(replay: &Replay) -> Action {
    let resumable = matches!(replay.state, ReplayState::Paused | ReplayState::Stopped);
    let refused =
        (!resumable).then(|| not_now(replay.state, "only what is paused or stopped can be resumed"));
    action("resume", "Resume", "It goes on, with a few letters first again.", refused)
}

fn cancel(replay: &Replay) -> Action {
    let refused = (!replay.state.may_become(ReplayState::Cancelled))
        .then(|| not_now(replay.state, "there is nothing left to cancel"));
    action("cancel", "Cancel", "What was not sent is open again. What was sent stays sent.", refused)
}
