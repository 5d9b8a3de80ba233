//! Where to go from a replay that is over: to the group whose letters it sent, which is to be resolved if nothing of it is
//! open any more.

use dlo_core::group::GroupStatus;
use dlo_core::letter::Status;
use dlo_core::replay::{Replay, ReplayState};
use dlo_store::StoreError;

use super::items::Items;
use crate::office::Office;

pub(super) struct Onward {
    pub(super) group: String,
    pub(super) title: String,
    pub(super) open: u64,
    /// Nothing of it is open or on its way, and nobody has said that it is over.
    pub(super) can_resolve: bool,
}

impl Onward {
    /// `None` while it is not over, and for a plan with parts, whose parts have groups of their own.
    pub(super) async fn of(
        office: &Office,
        replay: &Replay,
        items: &Items,
    ) -> Result<Option<Self>, StoreError> {
        let Some(first) = items.lines.first().filter(|_| replay.state == ReplayState::Completed) else {
            return Ok(None);
        };
        let letter = office.shown().letter(first.letter).await?.letter;
        let group = office.shown().group(letter.group_id).await?;
        let of = |status| group.counts.get(status);
        let under_way = of(Status::Open) + of(Status::Claimed) + of(Status::Sent) + of(Status::InDoubt);
        let closed = matches!(group.life.status, GroupStatus::Resolved | GroupStatus::Ignored);
        Ok(Some(Self {
            group: group.id.to_string(),
            title: group.title(),
            open: of(Status::Open),
            can_resolve: under_way == 0 && !closed,
        }))
    }
}
