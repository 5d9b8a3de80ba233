//! Groups: letters with one cause, one owner, one life cycle.

use serde::Serialize;

use crate::codes::coded;
use crate::id::GroupId;
use crate::letter::Status;
use crate::time::Timestamp;

coded! {
    /// Where people stand with a group.
    pub enum GroupStatus as "group status" {
        New = 1 => "new",
        Acknowledged = 2 => "acknowledged",
        Fixing = 3 => "fixing",
        Resolved = 4 => "resolved",
        /// It was resolved and came back (E3).
        Regressed = 5 => "regressed",
        Snoozed = 6 => "snoozed",
        Ignored = 7 => "ignored",
    }
}

impl GroupStatus {
    /// What the arrival of another letter makes of it.
    #[must_use]
    pub const fn after_arrival(self) -> Self {
        match self {
            Self::Resolved => Self::Regressed,
            Self::New
            | Self::Acknowledged
            | Self::Fixing
            | Self::Regressed
            | Self::Snoozed
            | Self::Ignored => self,
        }
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
    pub status: GroupStatus,
    pub owner: Option<String>,
    pub first_seen: Timestamp,
    pub last_seen: Timestamp,
    pub counts: StatusCounts,
}

impl Group {
    /// One line that names the cause.
    pub fn title(&self) -> String {
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
pub struct StatusCounts([u64; 8]);

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
mod tests {
    use super::*;

    #[test]
    fn a_resolved_group_that_gets_a_letter_has_regressed() {
        assert_eq!(GroupStatus::Resolved.after_arrival(), GroupStatus::Regressed);
        assert_eq!(GroupStatus::Ignored.after_arrival(), GroupStatus::Ignored);
    }

    #[test]
    fn counts_are_kept_by_status() {
        let mut counts = StatusCounts::default();
        counts.add(Status::Open, 2);
        counts.add(Status::Archived, 1);
        assert_eq!((counts.get(Status::Open), counts.get(Status::Sent), counts.total()), (2, 0, 3));
    }
}
