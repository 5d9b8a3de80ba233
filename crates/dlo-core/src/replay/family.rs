//! A plan over several causes: its children run one after the other, and its own state follows theirs.
//!
//! What a person asks of the parent (pause, resume) is done to [`current`]; the parent then mirrors it. A child that is
//! stopped holds up those behind it; one that is cancelled or completed lets the next begin.

use super::run::Turning;
use super::{Replay, ReplayState};

/// What is to be done for a parent now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FamilyStep {
    /// The child at this place begins.
    Begin(usize),
    /// The parent itself moves.
    Parent(Turning),
}

/// The child whose turn it is: the first that is not over.
pub fn current(children: &[Replay]) -> Option<usize> {
    children.iter().position(|child| !child.state.is_over())
}

/// Where a replay begins: with its canary, if it has one.
pub fn first_state(replay: &Replay) -> ReplayState {
    if replay.settings.canary == 0 { ReplayState::Running } else { ReplayState::Canary }
}

/// The next step of a family, if there is one to take.
pub fn next(parent: &Replay, children: &[Replay]) -> Option<FamilyStep> {
    let begun = matches!(
        parent.state,
        ReplayState::Canary | ReplayState::Running | ReplayState::Paused | ReplayState::Stopped
    );
    if !begun || children.is_empty() {
        return None;
    }
    let Some(at) = current(children) else {
        let done = children.iter().any(|child| child.state == ReplayState::Completed);
        let to = if done { ReplayState::Completed } else { ReplayState::Cancelled };
        return Some(FamilyStep::Parent(Turning { to, reason: None, letters: Vec::new() }));
    };
    let child = &children[at];
    match child.state {
        ReplayState::Planned | ReplayState::AwaitingApproval => {
            parent.state.is_active().then_some(FamilyStep::Begin(at))
        }
        ReplayState::Canary | ReplayState::Running => (!parent.state.is_active()).then(|| {
            FamilyStep::Parent(Turning { to: ReplayState::Running, reason: None, letters: Vec::new() })
        }),
        ReplayState::Paused | ReplayState::Stopped => parent.state.is_active().then(|| {
            let why = child.stop_reason.as_deref().unwrap_or("no reason was given");
            let reason = format!("part {} of {}: {why}", at + 1, children.len());
            FamilyStep::Parent(Turning {
                to: child.state,
                reason: Some(reason),
                letters: child.stop_letters.clone(),
            })
        }),
        ReplayState::Completed | ReplayState::Cancelled => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::ReplayId;
    use crate::replay::{ItemCounts, Settings};
    use crate::time::Timestamp;

    fn replay(state: ReplayState) -> Replay {
        Replay {
            id: ReplayId(uuid::Uuid::from_u128(1)),
            parent: None,
            ordinal: 1,
            state,
            query: None,
            source: None,
            event_type: None,
            error_class: None,
            cause: None,
            settings: Settings::default(),
            author: String::new(),
            reason: String::new(),
            created_at: Timestamp::EPOCH,
            expires_at: Timestamp::EPOCH,
            started_at: None,
            ended_at: None,
            stop_reason: Some("it rains".to_owned()),
            stop_letters: Vec::new(),
            approvals: Vec::new(),
            approvals_needed: 0,
            by_class: Vec::new(),
            excluded: Vec::new(),
            doubts: Vec::new(),
            counts: ItemCounts::default(),
        }
    }

    fn step(parent: ReplayState, children: &[ReplayState]) -> Option<FamilyStep> {
        let children: Vec<Replay> = children.iter().map(|state| replay(*state)).collect();
        next(&replay(parent), &children)
    }

    fn moved(step: Option<FamilyStep>) -> Option<ReplayState> {
        match step? {
            FamilyStep::Parent(turning) => Some(turning.to),
            FamilyStep::Begin(_) => None,
        }
    }

    #[test]
    fn children_begin_one_after_the_other() {
        use ReplayState::{Canary, Completed, Planned, Running, Stopped};
        assert_eq!(step(Canary, &[Planned, Planned]), Some(FamilyStep::Begin(0)));
        assert_eq!(step(Running, &[Running, Planned]), None);
        assert_eq!(step(Running, &[Completed, Planned]), Some(FamilyStep::Begin(1)));
        assert_eq!(step(Stopped, &[Completed, Planned]), None);
        assert_eq!(moved(step(Running, &[Completed, Completed])), Some(Completed));
    }

    #[test]
    fn a_parent_is_what_its_child_is() {
        use ReplayState::{Cancelled, Completed, Paused, Planned, Running, Stopped};
        assert_eq!(moved(step(Running, &[Stopped, Planned])), Some(Stopped));
        assert_eq!(moved(step(Stopped, &[Running, Planned])), Some(Running));
        assert_eq!(step(Paused, &[Paused]), None);
        assert_eq!(step(Planned, &[Planned]), None);
        assert_eq!(moved(step(Paused, &[Cancelled, Completed])), Some(Completed));
        assert_eq!(moved(step(Paused, &[Cancelled])), Some(Cancelled));
        let Some(FamilyStep::Parent(turning)) = step(Running, &[Completed, Stopped]) else { panic!() };
        assert_eq!(turning.reason.as_deref(), Some("part 2 of 2: it rains"));
    }
}
