//! Groups: letters with one cause, one owner, one life cycle.
//!
//! `group/life.rs` holds where people stand with a group and which changes are legal, `group/likeness.rs` why letters are
//! one group and which other groups are like it. A group may be merged into another, its *head*: from then on the head
//! speaks for it, and its letters are found, counted and shown as the head's until it is split off again. And letters of a
//! group that match a condition may be split off as a group of their own: `group/split.rs`.

mod life;
mod likeness;
mod split;

use serde::Serialize;

use crate::codes::coded;
use crate::id::GroupId;
use crate::letter::Status;
use crate::time::Timestamp;

pub use life::{Arrival, Change, GroupDeed, GroupStatus, Illegal, Life, Snooze};
pub use likeness::{Part, Similar, similar, why};
pub use split::{Condition, ConditionError, SplitOff};

coded! {
    /// How groups are listed.
    #[derive(Default)]
    pub enum GroupOrder as "order" {
        /// Last seen first.
        #[default]
        LastSeen = 1 => "last_seen",
        /// First seen last of all first: what is new.
        FirstSeen = 2 => "first_seen",
        /// Most open letters first. Numbers move while one pages: a group may be shown twice, or not.
        MostOpen = 3 => "most_open",
        /// Oldest open letter first; groups without open letters are left out.
        OldestOpen = 4 => "oldest_open",
    }
}

/// A group as lists show it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Group {
    pub id: GroupId,
    /// Version of the algorithm that made the fingerprint.
    pub fingerprint_version: u32,
    pub source: String,
    pub queue: String,
    pub consumer: Option<String>,
    pub event_type: Option<String>,
    pub error_class: Option<String>,
    /// The error message without its variable parts.
    pub template: String,
    /// Past the cap of groups per source, everything new goes to one group that says so.
    pub overflow: bool,
    /// Where people stand with it.
    #[serde(flatten)]
    pub life: Life,
    /// The team that is to fix it.
    pub owner: Option<String>,
    /// A person said whose it is: rules do not change it.
    pub owner_by_hand: bool,
    /// The person who has it in hand.
    pub assignee: Option<String>,
    /// The head that speaks for it, if it was merged.
    pub merged_into: Option<GroupId>,
    /// What made it a group of its own, if not its fingerprint alone.
    pub split: Option<SplitOff>,
    /// How many groups were merged into it; their letters are counted here.
    pub members: u64,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    pub counts: StatusCounts,
}

impl Group {
    /// A group that nobody has looked at and that has no letters yet.
    pub fn begun(id: GroupId, version: u32, source: &str, at: Timestamp) -> Self {
        Self {
            id,
            fingerprint_version: version,
            source: source.to_string(),
            queue: String::new(),
            consumer: None,
            event_type: None,
            error_class: None,
            template: String::new(),
            overflow: false,
            life: Life::default(),
            owner: None,
            owner_by_hand: false,
            assignee: None,
            merged_into: None,
            split: None,
            members: 0,
            first_seen: at,
            last_seen: at,
            counts: StatusCounts::default(),
        }
    }

    /// The group that speaks for it: itself, unless it was merged.
    pub fn head(&self) -> GroupId {
        self.merged_into.unwrap_or(self.id)
    }

    /// Takes the letters of a member into account: counts, first and last seen.
    pub fn take_in(&mut self, member: &Self) {
        self.members += 1;
        self.counts.merge(&member.counts);
        self.first_seen = self.first_seen.min(member.first_seen);
        self.last_seen = self.last_seen.max(member.last_seen);
    }

    /// Changes it as a person asked, or says why not; then it is as it was.
    pub fn change(&mut self, change: &Change, now: Timestamp) -> Result<(), Illegal> {
        self.life = change.apply(&self.life, now)?;
        match change {
            Change::Assign { to } => self.assignee.clone_from(to),
            Change::Own { team: Some(team) } => {
                self.owner = Some(team.clone());
                self.owner_by_hand = true;
            }
            // The rules will say whose it is.
            Change::Own { team: None } => self.owner_by_hand = false,
            Change::Acknowledge
            | Change::Fix
            | Change::Resolve { .. }
            | Change::Snooze { .. }
            | Change::Ignore
            | Change::Reopen => {}
        }
        Ok(())
    }

    /// One line that names the cause.
    pub fn title(&self) -> String {
        match &self.split {
            Some(SplitOff { title: Some(title), .. }) => title.clone(),
            Some(SplitOff { condition, .. }) => format!("{}, where {condition}", self.cause()),
            None => self.cause(),
        }
    }

    /// The cause by the words of the fingerprint.
    fn cause(&self) -> String {
        if self.overflow {
            return format!("{}: more kinds of errors than groups are kept for", self.source);
        }
        match (&self.error_class, self.template.is_empty()) {
            (Some(class), false) => format!("{class}: {}", self.template),
            (Some(class), true) => class.clone(),
            (None, false) => self.template.clone(),
            (None, true) => "no error text".to_string(),
        }
    }
}

/// How many letters stand where. Kept at write time, so that reading it costs the same at any size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StatusCounts([u64; Status::ALL.len()]);

impl StatusCounts {
    pub const fn get(&self, status: Status) -> u64 {
        self.0[status as usize - 1]
    }

    pub const fn set(&mut self, status: Status, count: u64) {
        self.0[status as usize - 1] = count;
    }

    pub const fn add(&mut self, status: Status, count: u64) {
        self.0[status as usize - 1] += count;
    }

    /// Adds another one, status by status.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(other.0) {
            *mine += theirs;
        }
    }

    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Every status with its count, zeros included.
    pub fn iter(&self) -> impl Iterator<Item = (Status, u64)> + '_ {
        Status::ALL.iter().map(|status| (*status, self.get(*status)))
    }
}

impl Serialize for StatusCounts {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter().map(|(status, count)| (status.as_str(), count)))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use uuid::Uuid;

    use super::*;

    /// A group without letters, to be filled in.
    pub(crate) fn group(source: &str, number: u128) -> Group {
        let id = GroupId(Uuid::from_u128(number));
        Group { queue: source.into(), ..Group::begun(id, 1, source, Timestamp::EPOCH) }
    }

    #[test]
    fn counts_are_kept_by_status() {
        let mut counts = StatusCounts::default();
        counts.add(Status::Open, 2);
        counts.add(Status::Archived, 1);
        assert_eq!((counts.get(Status::Open), counts.get(Status::Sent), counts.total()), (2, 0, 3));
    }

    #[test]
    fn a_head_counts_the_letters_of_its_members() {
        let seen = |number, first, last| {
            let mut group = group("orders", number);
            (group.first_seen, group.last_seen) =
                (Timestamp::from_millis(first), Timestamp::from_millis(last));
            group.counts.add(Status::Open, 2);
            group
        };
        let mut head = seen(1, 20, 30);
        head.take_in(&seen(2, 10, 25));
        assert_eq!((head.first_seen.as_millis(), head.last_seen.as_millis()), (10, 30));
        assert_eq!((head.counts.get(Status::Open), head.members), (4, 1));
    }
}
