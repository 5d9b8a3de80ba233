//! What the store promises of groups that are split by a condition.
//!
//! A split has two halves. The condition is remembered, and every letter that comes later is held against it in the transaction
//! that stores it. The letters that are here already are moved behind, a batch at a time, and where that stands is
//! kept in the store, so that it goes on after a crash. Meanwhile every letter is in exactly one of the two groups, and
//! counted there: what is not moved yet is still shown with the group it came from.

use async_trait::async_trait;
use dlo_core::group::{Condition, Group};
use dlo_core::id::GroupId;
use dlo_core::limits;
use dlo_core::time::Timestamp;

use super::too_many;
use crate::{Deed, StoreError};

/// Letters looked at in one transaction of a move: few enough that capture hardly waits behind it.
pub(crate) const BATCH: usize = 500;

/// Splitting groups by conditions. Every method has a conformance test that runs on both engines.
#[async_trait]
pub trait Splits: Send + Sync + std::fmt::Debug {
    /// Makes a group of the letters of `id` that match the condition, those that are here and those that come later.
    /// Returns it: it stands where the group it came from stands, with the same owner, and has no letters yet;
    /// [`Splits::move_split_letters`] brings them.
    ///
    /// Of several conditions of a group the one that was made first decides. Refused as [`StoreError::Unsupported`]: more
    /// than `limits::SPLITS` conditions a group, an overflow group, a group that was split off itself, one into which
    /// others were merged, and a source that has as many groups as it may have.
    async fn split_by(
        &self,
        id: GroupId,
        split: &NewSplit,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Group, StoreError>;

    /// Forgets the condition that made this group, and merges it into the group that it came from; whatever is not moved yet
    /// stays there. A group that was merged into another one meanwhile stays with that one. Returns the group that
    /// speaks for the letters now. Refused as [`StoreError::Unsupported`] where no condition leads to the group.
    async fn unsplit(&self, split: GroupId, deed: &Deed, now: Timestamp) -> Result<Group, StoreError>;

    /// The conditions of a group and of those merged into it, in the order of their making.
    async fn splits(&self, id: GroupId) -> Result<Vec<Split>, StoreError>;

    /// Holds the next letters of a group that was split against its conditions and moves those that match: counts, trends,
    /// first and last seen in the same transaction. Says whether there may be more to do; `false` also while another
    /// server has it in hand. Called by every server until it says so, and now and then.
    async fn move_split_letters(&self, now: Timestamp) -> Result<bool, StoreError>;
}

/// A split to make.
#[derive(Debug, Clone, PartialEq)]
pub struct NewSplit {
    pub condition: Condition,
    /// What to call the new group; without it, it is called by the condition.
    pub title: Option<String>,
}

impl NewSplit {
    /// The title within its bounds; one of blanks is none.
    pub(crate) fn title(&self) -> Result<Option<String>, StoreError> {
        let title = self.title.as_deref().map(str::trim).filter(|title| !title.is_empty());
        if title.is_some_and(|title| title.chars().count() > limits::NAME) {
            return Err(StoreError::Unsupported(format!("a title has at most {} characters", limits::NAME)));
        }
        Ok(title.map(String::from))
    }
}

/// A condition that is remembered.
#[derive(Debug, Clone, PartialEq)]
pub struct Split {
    /// Grows with every split.
    pub number: i64,
    pub at: Timestamp,
    pub author: String,
    /// The group that it made, with its own numbers.
    pub group: Group,
    /// Letters that were here before are still being looked at.
    pub moving: bool,
}

/// Whether a head with these members, from which `made` conditions lead away, can be split once more.
pub(crate) fn splittable<'g>(
    head: &Group,
    mut members: impl Iterator<Item = &'g Group>,
    made: usize,
) -> Result<(), StoreError> {
    let refused = |why: String| Err(StoreError::Unsupported(why));
    if head.overflow {
        return refused(
            "a group that holds what is past the cap of groups stands for many causes; raise the cap instead of splitting it"
                .into(),
        );
    }
    if let Some(split) = &head.split {
        return refused(format!("this group was split off itself; split {}, from which it came", split.from));
    }
    if members.any(|member| member.split.as_ref().is_none_or(|split| split.from != head.id)) {
        return refused(
            "other groups were merged into this one; split them off first, and merge what is left again"
                .into(),
        );
    }
    if made >= limits::SPLITS {
        return Err(too_many("conditions of a group", limits::SPLITS));
    }
    Ok(())
}

pub(crate) fn no_room(source: &str, cap: usize) -> StoreError {
    StoreError::Unsupported(format!(
        "the source `{source}` has {cap} groups, as many as are kept for one; raise `groups_per_source` to split further"
    ))
}

pub(crate) fn not_split(id: GroupId) -> StoreError {
    StoreError::Unsupported(format!("no condition leads to the group {id}; there is nothing to join again"))
}
