//! Letters in the hand of a replay: which one, and whether it goes on with them. What a stopped replay holds waits for a
//! person, and is told so wherever it is shown; otherwise a failed replay would look like progress.

use dlo_core::id::{GroupId, LetterId, ReplayId};
use dlo_core::letter::Status;
use dlo_core::query::{Matcher, Query, Term};
use dlo_core::replay::{Replay, ReplayState};
use dlo_store::{Page, StoreError};

use super::replays::about;
use super::words;
use crate::office::Office;

/// The replay that has them.
pub(crate) struct Held {
    pub(crate) id: ReplayId,
    pub(crate) about: String,
    pub(crate) state: &'static str,
    pub(crate) phrase: String,
    /// It sends nothing before somebody resumes or cancels it.
    pub(crate) stands_still: bool,
    /// What that means for what it has in hand.
    pub(crate) words: &'static str,
}

impl Held {
    pub(crate) fn new(replay: &Replay) -> Self {
        Self {
            id: replay.id,
            about: about(replay),
            state: replay.state.as_str(),
            phrase: words::phrase(replay.state.as_str()),
            stands_still: matches!(replay.state, ReplayState::Paused | ReplayState::Stopped),
            words: told(replay.state),
        }
    }

    /// Who has the letter in hand.
    pub(crate) async fn of(office: &Office, letter: LetterId) -> Result<Option<Self>, StoreError> {
        match office.store.holder(letter).await? {
            Some(id) => Ok(Some(Self::new(&office.shown().replay(id).await?))),
            None => Ok(None),
        }
    }

    /// Who has the newest of a group's claimed letters in hand.
    pub(crate) async fn of_group(office: &Office, group: GroupId) -> Result<Option<Self>, StoreError> {
        let terms = [Matcher::Group(group), Matcher::Status(Status::Claimed)];
        let terms = terms.map(|matcher| Term { negated: false, matcher }).to_vec();
        let claimed = office.shown().letters(&Query { terms }, &Page::first(1)).await?.letters;
        match claimed.first() {
            Some(letter) => Self::of(office, letter.id).await,
            None => Ok(None),
        }
    }
}

const fn told(state: ReplayState) -> &'static str {
    match state {
        ReplayState::Planned | ReplayState::AwaitingApproval => "It was not started yet.",
        ReplayState::Canary | ReplayState::Running => "It is under way.",
        ReplayState::Paused | ReplayState::Stopped => {
            "Resumed, it sends what it has in hand; cancelled, it gives back what it did not send."
        }
        ReplayState::Completed => "It has sent everything, and outcomes may still come in.",
        ReplayState::Cancelled => "It gives back what it did not send.",
    }
}
