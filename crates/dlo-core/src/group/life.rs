//! Where people stand with a group: which change is legal, and what the arrival of another letter makes of it.
//!
//! Decided here for both stores, which only keep it. Nothing here knows the time; whoever asks hands it in.

use serde::{Deserialize, Serialize};

use crate::codes::coded;
use crate::time::Timestamp;
use crate::version;

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
    /// Somebody is still to do something: neither closed nor put off.
    pub const ACTIVE: [Self; 4] = [Self::New, Self::Regressed, Self::Acknowledged, Self::Fixing];

    pub fn is_active(self) -> bool {
        Self::ACTIVE.contains(&self)
    }
}

coded! {
    /// What was done with a group, as the audit log tells it.
    pub enum GroupDeed as "deed with a group" {
        Acknowledged = 1 => "group_acknowledged",
        Fixing = 2 => "group_fixing",
        Resolved = 3 => "group_resolved",
        /// By the office: a letter came although it was resolved.
        Regressed = 4 => "group_regressed",
        Snoozed = 5 => "group_snoozed",
        /// By the office: the date or the number of letters was reached.
        Woken = 6 => "group_woken",
        Ignored = 7 => "group_ignored",
        Reopened = 8 => "group_reopened",
        Assigned = 9 => "group_assigned",
        Owned = 10 => "group_owned",
        Noted = 11 => "group_noted",
        Linked = 12 => "group_linked",
        Unlinked = 13 => "group_unlinked",
        RunbookWritten = 14 => "group_runbook_written",
        Merged = 15 => "group_merged",
        Split = 16 => "group_split",
        /// Letters that match a condition became a group of their own.
        SplitBy = 17 => "group_split_by",
        /// The condition is forgotten, and the letters are those of the group they came from again.
        Unsplit = 18 => "group_unsplit",
    }
}

/// Where people stand with a group, and since when.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Life {
    pub status: GroupStatus,
    /// When it came to stand there; `None` for a new group.
    pub since: Option<Timestamp>,
    /// The version of the consumer in which it is said to be fixed.
    pub resolved_in: Option<String>,
    /// When it came back last.
    pub regressed_at: Option<Timestamp>,
    pub snooze: Option<Snooze>,
}

/// Out of sight until a date, until more letters came, or whichever is first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Snooze {
    pub until: Option<Timestamp>,
    /// Letters that may still come.
    pub letters: Option<u64>,
    /// Where it stood before, and stands again when it wakes.
    pub from: GroupStatus,
}

/// What a person may do with a group.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case", deny_unknown_fields)]
pub enum Change {
    Acknowledge,
    Fix,
    /// Fixed, optionally from a version of the consumer on: letters of older versions do not bring it back.
    Resolve {
        #[serde(default)]
        in_version: Option<String>,
    },
    /// Until a date, until that many more letters came, or whichever is first.
    Snooze {
        #[serde(default)]
        until: Option<Timestamp>,
        #[serde(default)]
        letters: Option<u64>,
    },
    Ignore,
    Reopen,
    /// To a person, or to nobody.
    Assign {
        to: Option<String>,
    },
    /// To a team, whatever the rules say; without a team the rules decide again.
    Own {
        team: Option<String>,
    },
}

/// Why a change cannot be made.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Illegal {
    #[error("it is {0} already")]
    Already(GroupStatus),
    #[error("it is {0}; reopen it first")]
    Closed(GroupStatus),
    #[error("it is {0}; only what is resolved, ignored or snoozed is reopened")]
    NotClosed(GroupStatus),
    #[error("a snooze needs a date that lies ahead, or how many more letters may come")]
    NeverWakes,
}

impl Default for Life {
    fn default() -> Self {
        Self { status: GroupStatus::New, since: None, resolved_in: None, regressed_at: None, snooze: None }
    }
}

impl Change {
    /// The row of the audit log that tells it.
    pub const fn deed(&self) -> GroupDeed {
        match self {
            Self::Acknowledge => GroupDeed::Acknowledged,
            Self::Fix => GroupDeed::Fixing,
            Self::Resolve { .. } => GroupDeed::Resolved,
            Self::Snooze { .. } => GroupDeed::Snoozed,
            Self::Ignore => GroupDeed::Ignored,
            Self::Reopen => GroupDeed::Reopened,
            Self::Assign { .. } => GroupDeed::Assigned,
            Self::Own { .. } => GroupDeed::Owned,
        }
    }

    /// What the audit log says beside the deed: the version, the date, the person, the team.
    pub fn detail(&self) -> Option<String> {
        match self {
            Self::Acknowledge | Self::Fix | Self::Ignore | Self::Reopen => None,
            Self::Resolve { in_version } => in_version.clone(),
            Self::Snooze { until, letters } => {
                let until = until.map(|until| format!("until {until}"));
                let letters = letters.map(|letters| format!("for {letters} letters"));
                Some(until.into_iter().chain(letters).collect::<Vec<_>>().join(", "))
            }
            Self::Assign { to } => Some(to.clone().unwrap_or_else(|| "nobody".into())),
            Self::Own { team } => Some(team.clone().unwrap_or_else(|| "by the rules".into())),
        }
    }

    /// Where the group stands after it. Assigning and owning leave it where it is.
    pub fn apply(&self, life: &Life, now: Timestamp) -> Result<Life, Illegal> {
        use GroupStatus::{Acknowledged, Fixing, Ignored, New, Regressed, Resolved, Snoozed};
        let at = life.status;
        let to = |status| Life {
            status,
            since: Some(now),
            resolved_in: None,
            regressed_at: life.regressed_at,
            snooze: None,
        };
        match self {
            Self::Acknowledge => match at {
                New | Fixing | Regressed | Snoozed => Ok(to(Acknowledged)),
                Acknowledged => Err(Illegal::Already(at)),
                Resolved | Ignored => Err(Illegal::Closed(at)),
            },
            Self::Fix => match at {
                New | Acknowledged | Regressed | Snoozed => Ok(to(Fixing)),
                Fixing => Err(Illegal::Already(at)),
                Resolved | Ignored => Err(Illegal::Closed(at)),
            },
            Self::Resolve { in_version } if at == Resolved && *in_version == life.resolved_in => {
                Err(Illegal::Already(at))
            }
            Self::Resolve { in_version } => Ok(Life { resolved_in: in_version.clone(), ..to(Resolved) }),
            Self::Snooze { until, letters } => {
                if until.is_none_or(|until| until <= now) && letters.is_none_or(|letters| letters == 0) {
                    return Err(Illegal::NeverWakes);
                }
                let from = match at {
                    New | Acknowledged | Fixing | Regressed => at,
                    Snoozed => life.snooze.map_or(Acknowledged, |snooze| snooze.from),
                    Resolved | Ignored => return Err(Illegal::Closed(at)),
                };
                let snooze = Some(Snooze { until: *until, letters: *letters, from });
                Ok(Life { snooze, ..to(Snoozed) })
            }
            Self::Ignore => match at {
                New | Acknowledged | Fixing | Resolved | Regressed | Snoozed => Ok(to(Ignored)),
                Ignored => Err(Illegal::Already(at)),
            },
            Self::Reopen => match at {
                Resolved | Ignored | Snoozed => Ok(to(Acknowledged)),
                New | Acknowledged | Fixing | Regressed => Err(Illegal::NotClosed(at)),
            },
            Self::Assign { .. } | Self::Own { .. } => Ok(life.clone()),
        }
    }
}

/// What of a letter that arrives may change where its group stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Arrival<'l> {
    /// The version of the consumer that failed, if the letter names it.
    pub version: Option<&'l str>,
    pub failed_at: Timestamp,
}

impl Life {
    /// A letter arrived. Says what the office did because of it.
    ///
    /// What is resolved has come back, unless the letter failed before it was resolved, as those of a backlog did, or its
    /// version is known to be older than the one with the fix. What is snoozed counts it, and wakes when its date or
    /// its number is reached.
    pub fn arrive(&mut self, letter: Arrival<'_>, now: Timestamp) -> Option<GroupDeed> {
        match self.status {
            GroupStatus::New
            | GroupStatus::Acknowledged
            | GroupStatus::Fixing
            | GroupStatus::Regressed
            | GroupStatus::Ignored => None,
            GroupStatus::Resolved => {
                let fixed = self.resolved_in.as_deref();
                let older =
                    fixed.zip(letter.version).is_some_and(|(fix, found)| version::is_older(found, fix));
                let before = self.since.is_some_and(|since| letter.failed_at < since);
                if older || before {
                    return None;
                }
                // The version stays: it says in which one the fix did not hold.
                self.status = GroupStatus::Regressed;
                self.since = Some(now);
                self.regressed_at = Some(now);
                Some(GroupDeed::Regressed)
            }
            GroupStatus::Snoozed => {
                if let Some(Snooze { letters: Some(left), .. }) = &mut self.snooze {
                    *left = left.saturating_sub(1);
                }
                self.wake(now)
            }
        }
    }

    /// Wakes a group whose snooze is over.
    pub fn wake(&mut self, now: Timestamp) -> Option<GroupDeed> {
        let snooze =
            self.snooze.filter(|snooze| self.status == GroupStatus::Snoozed && snooze.is_over(now))?;
        self.status = snooze.from;
        self.since = Some(now);
        self.snooze = None;
        Some(GroupDeed::Woken)
    }
}

impl Snooze {
    pub fn is_over(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now) || self.letters == Some(0)
    }
}

#[cfg(test)]
mod tests;
