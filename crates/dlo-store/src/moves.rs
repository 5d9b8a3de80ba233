//! What may become of a replay and of its items, and which step a letter takes with its item: one table for both stores.
//!
//! An item that stands elsewhere is left as it is. Where the letter's step is not legal (somebody else moved it), the item
//! tells what the replay did, and the letter stays where it is.

use dlo_core::letter::Step;
use dlo_core::replay::{ItemState, Replay, ReplayState, Settings};
use dlo_core::time::Timestamp;

use crate::StoreError;
use crate::replays::{Conclusion, SendEnd, Settling, Turn};

/// One move of items.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Move {
    pub(crate) from: &'static [ItemState],
    pub(crate) to: ItemState,
    pub(crate) step: Option<Step>,
}

use ItemState::{
    Claimed, Confirmed, Frozen, InDoubt, Intended, Passed, Presumed, Refused, Released, Returned, Routed,
    Sent, Short, SuspectedReturn, Unknown,
};

impl Move {
    const fn new(from: &'static [ItemState], to: ItemState, step: Option<Step>) -> Self {
        Self { from, to, step }
    }

    pub(crate) const CLAIM: Self = Self::new(&[Frozen], Claimed, Some(Step::Claim));
    /// Its letter is not ours to take, or not ours any more.
    pub(crate) const SHORT: Self = Self::new(&[Frozen, Claimed], Short, None);
    pub(crate) const INTEND: Self = Self::new(&[Claimed], Intended, None);
    pub(crate) const INTEND_AGAIN: Self = Self::new(&[InDoubt], Intended, Some(Step::FoundUnsent));
    /// Its payload is damaged: it must not hold up the others.
    pub(crate) const UNREADABLE: Self = Self::new(&[Claimed], Refused, Some(Step::Release));
    pub(crate) const DOUBT: Self = Self::new(&[Intended], InDoubt, Some(Step::Doubt));
    pub(crate) const GIVE_BACK: Self = Self::new(&[Claimed], Released, Some(Step::Release));
    pub(crate) const RECEIPT: Self = Self::new(
        &[Intended, Sent, InDoubt, Passed, Presumed, SuspectedReturn, Unknown],
        Confirmed,
        Some(Step::Confirm),
    );
    /// Claimed too: the death proves that it was published, whatever a reading back found. The letter's step is part of
    /// the death.
    pub(crate) const COME_BACK: Self = Self::new(
        &[Claimed, Intended, Sent, InDoubt, Passed, Presumed, SuspectedReturn, Routed, Unknown, Confirmed],
        Returned,
        None,
    );
    /// A letter that may be its message arrived. Of what is in doubt this decides nothing.
    pub(crate) const SUSPECT: Self = Self::new(&[Sent, Presumed, Unknown], SuspectedReturn, None);
    pub(crate) const SUSPECT_UNRECORDED: Self = Self::new(&[Intended], SuspectedReturn, Some(Step::Send));
    /// It was suspected before its end was known, and was not sent: the letter that arrived is another one.
    pub(crate) const UNSENT_AFTER_ALL: Self = Self::new(&[SuspectedReturn], Released, Some(Step::SettleOpen));

    /// How an item in `state` becomes a suspected return. A letter that was passed is recovered and stays so.
    pub(crate) fn suspect(state: ItemState) -> Self {
        if state == Intended { Self::SUSPECT_UNRECORDED } else { Self::SUSPECT }
    }

    pub(crate) fn takes(&self, state: ItemState) -> bool {
        self.from.contains(&state)
    }

    /// Whether the time of the first intent stays.
    pub(crate) fn keeps_time(&self) -> bool {
        match self.to {
            InDoubt => true,
            Intended => self.from == [InDoubt],
            Frozen | Claimed | Sent | Confirmed | Passed | Presumed | Routed | Returned | SuspectedReturn
            | Unknown | Short | Released | Refused => false,
        }
    }
}

impl SendEnd {
    /// The move of an item in `state`. A letter may arrive before the end is recorded, and make the item a suspected return.
    pub(crate) fn as_move(&self, state: ItemState) -> Move {
        match self {
            Self::Unsent | Self::Refused(_) if state == SuspectedReturn => Move::UNSENT_AFTER_ALL,
            Self::Sent { .. } => Move::new(&[Intended], Sent, Some(Step::Send)),
            Self::Unsent => Move::new(&[Intended], Claimed, None),
            Self::Refused(_) => Move::new(&[Intended], Refused, Some(Step::Release)),
            Self::Doubtful => Move::DOUBT,
        }
    }
}

impl Settling {
    /// The letter of an item that is presumed or unknown is still sent, so that a person may settle it too.
    pub(crate) fn as_move(self) -> Move {
        match self {
            Self::FoundSent => Move::new(&[InDoubt], Sent, Some(Step::FoundSent)),
            Self::FoundUnsent => Move::new(&[InDoubt], Claimed, Some(Step::FoundUnsent)),
            Self::Recovered => {
                let from = &[InDoubt, Sent, Presumed, SuspectedReturn, Unknown];
                Move::new(from, Confirmed, Some(Step::SettleRecovered))
            }
            Self::Open => {
                let from = &[InDoubt, Sent, Presumed, SuspectedReturn, Unknown];
                Move::new(from, Released, Some(Step::SettleOpen))
            }
        }
    }
}

impl Conclusion {
    pub(crate) fn as_move(self) -> Move {
        match self {
            Self::Passed => Move::new(&[Sent], Passed, Some(Step::Pass)),
            Self::Presumed => Move::new(&[Sent], Presumed, None),
            Self::Routed => Move::new(&[Sent], Routed, Some(Step::Route)),
            Self::Unknown => Move::new(&[Sent], Unknown, None),
        }
    }
}

/// The replay after a move that is legal.
pub(crate) fn turned(mut replay: Replay, turn: &Turn, now: Timestamp) -> Result<Replay, StoreError> {
    let found = replay.state;
    if found != turn.from {
        let what = format!("it was thought to be {}", turn.from);
        return Err(StoreError::Conflict { found, what });
    }
    if !found.may_become(turn.to) {
        return Err(StoreError::Conflict { found, what: format!("from there it cannot become {}", turn.to) });
    }
    replay.state = turn.to;
    if turn.to.is_active() {
        replay.started_at = replay.started_at.or(Some(now));
    }
    if turn.to.is_over() {
        replay.ended_at = Some(now);
    }
    let stops = matches!(turn.to, ReplayState::Paused | ReplayState::Stopped);
    replay.stop_reason = turn.stop_reason.clone().filter(|_| stops);
    replay.stop_letters = if stops { turn.stop_letters.clone() } else { Vec::new() };
    Ok(replay)
}

/// Whether its settings may be replaced by these. The order of a plan is frozen with its members.
pub(crate) fn adjustable(replay: &Replay, settings: &Settings) -> Result<(), StoreError> {
    let found = replay.state;
    if found.is_over() {
        return Err(StoreError::Conflict { found, what: "nothing is left to adjust".into() });
    }
    if replay.settings.order != settings.order {
        return Err(StoreError::Conflict {
            found,
            what: "its order was decided by its plan; plan anew".into(),
        });
    }
    Ok(())
}

pub(crate) fn approvable(replay: &Replay) -> Result<(), StoreError> {
    match replay.state {
        found if found.is_over() => {
            Err(StoreError::Conflict { found, what: "nothing is left to approve".into() })
        }
        _ => Ok(()),
    }
}
