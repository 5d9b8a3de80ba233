//! What the store promises of triage: the life of groups, what people write beside them, merges, trends, deployments; of
//! splits by a condition in `triage/splits.rs`.
//!
//! A group that was merged is spoken for by its head: wherever its id is named, the head is meant, and what the head says
//! (counts, first and last seen, trends, notes, links) is that of the whole family. Each change is one transaction with its
//! author, its reason and an audit row. Nothing here is touched by a replay: notes outlive their letters.

use std::time::Duration;

use async_trait::async_trait;
use dlo_core::deploy::{Deploy, NewDeploy};
pub use dlo_core::group::GroupOrder;
use dlo_core::group::{Change, Group, GroupStatus, Illegal, Similar};
use dlo_core::id::{GroupId, LetterId};
use dlo_core::letter::Status;
use dlo_core::time::Timestamp;
use dlo_core::trend::Window;
use dlo_core::view::{View, ViewOf};
use serde::Serialize;

use crate::{AuditEntry, Deed, StoreError};

mod bounds;
mod buckets;
mod family;
mod listing;
pub(crate) mod rules;
mod splits;
mod stack;

pub(crate) use bounds::{bounded_link, bounded_note, bounded_runbook, too_many};
pub(crate) use buckets::buckets;
pub(crate) use family::{CHECKS, mergeable, not_merged};
pub(crate) use listing::{Listed, cursor_of, from_cursor, holds, is_named, order_key};
pub(crate) use splits::{BATCH, no_room, not_split, splittable};
pub use splits::{NewSplit, Split, Splits};
pub(crate) use stack::stacked;

/// Everything that is kept for triage. Every method has a conformance test that runs on both engines.
#[async_trait]
pub trait Triage: Send + Sync + std::fmt::Debug {
    /// Changes groups, each with an audit row. At most [`crate::Page::MOST`] ids a call; more is
    /// [`StoreError::Unsupported`]. Each group stands for itself: what is illegal or missing is said in its result and does
    /// not stop the others. A head named twice, by itself or by its members, is changed once. An owner that is set by hand is
    /// not overwritten by rules; one that is given back to them stays until [`crate::Store::assign_owners`] runs.
    async fn change_groups(
        &self,
        ids: &[GroupId],
        change: &Change,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<Changed>, StoreError>;

    /// Wakes groups whose snooze is over. Called now and then by every server; returns how many groups woke.
    async fn tend_groups(&self, now: Timestamp) -> Result<u64, StoreError>;

    /// Forgets buckets of trends that are older than what is kept. Looks at every group: called seldom.
    async fn forget_trends(&self, now: Timestamp) -> Result<(), StoreError>;

    /// How many groups (heads) have open letters, by where people stand with them; with those of `assignee`.
    async fn tally_groups(&self, assignee: Option<&str>) -> Result<GroupTally, StoreError>;

    /// When the oldest open letter of each of these groups failed, in the order given.
    async fn oldest_open(&self, ids: &[GroupId]) -> Result<Vec<Option<Timestamp>>, StoreError>;

    /// The groups most like this one, most like first, with what they have in common.
    async fn similar_groups(&self, id: GroupId) -> Result<Vec<(Group, Similar)>, StoreError>;

    /// What was done with a group and its members, newest first, at most `most`.
    async fn group_history(&self, id: GroupId, most: usize) -> Result<Vec<AuditEntry>, StoreError>;

    /// Appends a note. Bounded by `limits::NOTE` and `limits::NOTES`; past that [`StoreError::Unsupported`].
    async fn add_note(
        &self,
        id: GroupId,
        text: &str,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Note, StoreError>;

    /// The notes of a group and its members, oldest first.
    async fn notes(&self, id: GroupId) -> Result<Vec<Note>, StoreError>;

    /// Adds a link, `http` or `https` only. Bounded by `limits::URL` and `limits::LINKS`.
    async fn add_link(
        &self,
        id: GroupId,
        link: &NewLink,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Link, StoreError>;

    /// Takes a link away; says whether it was there.
    async fn remove_link(
        &self,
        id: GroupId,
        number: i64,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// The links of a group and its members, oldest first.
    async fn links(&self, id: GroupId) -> Result<Vec<Link>, StoreError>;

    /// The runbook of a group; if it never had one, the one of its members that was written last.
    async fn runbook(&self, id: GroupId) -> Result<Option<Runbook>, StoreError>;

    /// Writes the runbook of a group. `known` is the version that the author has read (`0`: there was none); another one
    /// was written meanwhile: [`StoreError::Stale`], and nothing is changed. Empty text takes it away.
    async fn write_runbook(
        &self,
        id: GroupId,
        text: &str,
        known: i64,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Runbook, StoreError>;

    /// Merges groups into `head`, remembered: letters that come later for any of them count for the head. Members of a
    /// merged head come along. Returns the head. An overflow group is merged with none.
    async fn merge_groups(
        &self,
        head: GroupId,
        members: &[GroupId],
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Group, StoreError>;

    /// Takes a member out again, with its own letters, standing as its head does. Returns it.
    async fn split_group(&self, member: GroupId, deed: &Deed, now: Timestamp) -> Result<Group, StoreError>;

    /// The groups that were merged into this one, each with its own numbers, last seen first.
    async fn members(&self, head: GroupId) -> Result<Vec<Group>, StoreError>;

    /// How many letters arrived in each bucket of the window, for each group, in the order given. A group that is not here
    /// has none. At most [`crate::Page::MOST`] ids.
    async fn trends(&self, ids: &[GroupId], window: Window) -> Result<Vec<Vec<u64>>, StoreError>;

    /// The same for everything, or for a source, stacked by error class: the most frequent classes first, and behind
    /// [`ClassTrend::SHOWN`] the others together.
    async fn trend_by_class(
        &self,
        source: Option<&str>,
        window: Window,
    ) -> Result<Vec<ClassTrend>, StoreError>;

    /// How old open letters are. Looks at an index entry of every open letter: ask behind, and keep the answer a while.
    async fn open_ages(&self, now: Timestamp) -> Result<Vec<AgeCount>, StoreError>;

    /// Marks a deployment. The newest `limits::DEPLOYS` are kept.
    async fn mark_deploy(
        &self,
        what: &NewDeploy,
        at: Timestamp,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Deploy, StoreError>;

    /// Deployments from one time up to another, newest first, at most `most`.
    async fn deploys(
        &self,
        from: Option<Timestamp>,
        until: Option<Timestamp>,
        most: usize,
    ) -> Result<Vec<Deploy>, StoreError>;

    /// Saves a view, replacing the one of the same name, kind and owner. Bounded by `limits::VIEWS`.
    async fn save_view(&self, view: &NewView, deed: &Deed, now: Timestamp) -> Result<View, StoreError>;

    /// Shared views, and those of `person`, by name.
    async fn views(&self, person: Option<&str>) -> Result<Vec<View>, StoreError>;

    /// Takes a view away; says whether it was there.
    async fn remove_view(
        &self,
        name: &str,
        of: ViewOf,
        owner: Option<&str>,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<bool, StoreError>;

    /// The newest letters of a group with key and payload, at most `most` (up to `limits::SAMPLE`). Payloads larger than
    /// `sample::LOOKED_INTO`, and those that cannot be read, come empty.
    async fn sample(&self, id: GroupId, most: usize) -> Result<Vec<Sampled>, StoreError>;
}

/// What became of one group of a change.
#[derive(Debug, Clone, PartialEq)]
pub enum Changed {
    /// As it stands now.
    Changed(Box<Group>),
    /// Not legal from where it stood; it stays there.
    Illegal {
        status: GroupStatus,
        why: Illegal,
    },
    Missing,
}

/// Groups with open letters, counted for the views that everybody has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct GroupTally {
    by_status: [u64; 7],
    /// Without an owner, of those that wait for somebody.
    pub unowned: u64,
    /// Of the person that was asked for, of those that wait for somebody.
    pub mine: u64,
}

impl GroupTally {
    pub const fn get(&self, status: GroupStatus) -> u64 {
        self.by_status[status as usize - 1]
    }

    pub fn total(&self) -> u64 {
        self.by_status.iter().sum()
    }

    /// Counts heads that have open letters and stand there.
    pub(crate) fn add_heads(&mut self, status: GroupStatus, heads: u64, unowned: u64, mine: u64) {
        self.by_status[status as usize - 1] += heads;
        if status.is_active() {
            self.unowned += unowned;
            self.mine += mine;
        }
    }

    /// Counts a head, if it has open letters.
    pub(crate) fn add(&mut self, group: &Group, assignee: Option<&str>) {
        if group.counts.get(Status::Open) == 0 {
            return;
        }
        let mine = assignee.is_some() && group.assignee.as_deref() == assignee;
        self.add_heads(group.life.status, 1, u64::from(group.owner.is_none()), u64::from(mine));
    }
}

/// What somebody wrote about a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Note {
    pub number: i64,
    /// The group it was written for: the one asked for, or one that was merged into it.
    pub group: GroupId,
    pub at: Timestamp,
    pub author: String,
    pub text: String,
}

/// A link beside a group: a ticket, a dashboard, a change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Link {
    pub number: i64,
    pub group: GroupId,
    pub at: Timestamp,
    pub author: String,
    #[serde(flatten)]
    pub link: NewLink,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NewLink {
    pub title: String,
    pub url: String,
}

/// How to handle a group, in Markdown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Runbook {
    pub group: GroupId,
    /// Grows by one with every writing.
    pub version: i64,
    pub at: Timestamp,
    pub author: String,
    pub text: String,
}

/// Letters of one error class over a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ClassTrend {
    /// `None`: the letters name none, or it stands for the `others`.
    pub error_class: Option<String>,
    /// How many classes it stands for together; zero for one class.
    pub others: usize,
    pub counts: Vec<u64>,
    pub total: u64,
}

impl ClassTrend {
    /// Classes that are told one by one.
    pub const SHOWN: usize = 12;
}

/// Open letters of an age.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AgeCount {
    /// `None`: older than all.
    pub younger_than: Option<Duration>,
    pub count: u64,
}

/// The ages that open letters are counted by, in hours; what is older is counted last.
pub const AGE_HOURS: [u64; 7] = [1, 6, 24, 3 * 24, 7 * 24, 14 * 24, 30 * 24];

/// A view to save.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewView {
    pub name: String,
    pub of: ViewOf,
    pub query: String,
    /// Whose it is; `None`: everybody's.
    pub owner: Option<String>,
}

/// One letter of a sample.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sampled {
    pub letter: LetterId,
    pub key: Option<Vec<u8>>,
    pub payload: bytes::Bytes,
}
