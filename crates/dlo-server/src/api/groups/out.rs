//! A group as JSON: as lists show it, and whole.

use dlo_core::deploy::BeganAfter;
use dlo_core::group::{Group, GroupStatus, Part, Snooze, SplitOff, StatusCounts, why};
use dlo_core::id::GroupId;
use dlo_core::known::Known;
use dlo_core::letter::Status;
use dlo_core::teams::{Standing, Team};
use dlo_core::time::Timestamp;
use dlo_store::AuditEntry;
use dlo_store::triage::{Link, Note, Runbook, Split};
use serde::Serialize;

use crate::triage::Whole;

#[derive(Debug, Serialize)]
pub(crate) struct GroupOut<'a> {
    id: GroupId,
    title: String,
    source: &'a str,
    queue: &'a str,
    consumer: Option<&'a str>,
    event_type: Option<&'a str>,
    error_class: Option<&'a str>,
    template: &'a str,
    fingerprint_version: u32,
    overflow: bool,
    status: GroupStatus,
    since: Option<Timestamp>,
    resolved_in: Option<&'a str>,
    regressed_at: Option<Timestamp>,
    snooze: Option<Snooze>,
    open: u64,
    total: u64,
    counts: StatusCounts,
    first_seen: Timestamp,
    last_seen: Timestamp,
    owner: Option<&'a str>,
    owner_by_hand: bool,
    assignee: Option<&'a str>,
    members: u64,
    /// What made it a group of its own, if not its fingerprint alone.
    split: Option<&'a SplitOff>,
}

impl<'a> GroupOut<'a> {
    pub(crate) fn new(group: &'a Group) -> Self {
        Self {
            id: group.id,
            title: group.title(),
            source: &group.source,
            queue: &group.queue,
            consumer: group.consumer.as_deref(),
            event_type: group.event_type.as_deref(),
            error_class: group.error_class.as_deref(),
            template: &group.template,
            fingerprint_version: group.fingerprint_version,
            overflow: group.overflow,
            status: group.life.status,
            since: group.life.since,
            resolved_in: group.life.resolved_in.as_deref(),
            regressed_at: group.life.regressed_at,
            snooze: group.life.snooze,
            open: group.counts.get(Status::Open),
            total: group.counts.total(),
            counts: group.counts,
            first_seen: group.first_seen,
            last_seen: group.last_seen,
            owner: group.owner.as_deref(),
            owner_by_hand: group.owner_by_hand,
            assignee: group.assignee.as_deref(),
            members: group.members,
            split: group.split.as_ref(),
        }
    }
}

/// A group with everything that belongs to it.
#[derive(Debug, Serialize)]
pub(super) struct WholeOut<'a> {
    #[serde(flatten)]
    group: GroupOut<'a>,
    /// The parts that made the fingerprint: all of them are the same in all letters of the group.
    why: Vec<Part<'a>>,
    merged: Vec<GroupOut<'a>>,
    /// The conditions that lead from it to other groups, in the order in which they are asked.
    splits: Vec<SplitOut<'a>>,
    oldest_open: Option<Timestamp>,
    team: Option<&'a Team>,
    sla: Option<StandingOut>,
    known: Option<&'a Known>,
    began_after: Option<BeganAfter<'a>>,
    similar: Vec<SimilarOut<'a>>,
    notes: &'a [Note],
    links: &'a [Link],
    runbook: Option<&'a Runbook>,
    history: &'a [AuditEntry],
}

#[derive(Debug, Serialize)]
struct SplitOut<'a> {
    at: Timestamp,
    author: &'a str,
    /// Letters that were here before are still being looked at.
    moving: bool,
    group: GroupOut<'a>,
}

impl<'a> SplitOut<'a> {
    fn new(split: &'a Split) -> Self {
        let group = GroupOut::new(&split.group);
        Self { at: split.at, author: &split.author, moving: split.moving, group }
    }
}

#[derive(Debug, Serialize)]
struct SimilarOut<'a> {
    likeness: f64,
    because: &'a [&'static str],
    group: GroupOut<'a>,
}

/// Seconds until the promise is broken; less than zero when it is.
#[derive(Debug, Serialize)]
pub(in super::super) struct StandingOut {
    over: bool,
    seconds_left: i64,
}

impl From<Standing> for StandingOut {
    fn from(standing: Standing) -> Self {
        let seconds = |duration: std::time::Duration| i64::try_from(duration.as_secs()).unwrap_or(i64::MAX);
        match standing {
            Standing::Within { left } => Self { over: false, seconds_left: seconds(left) },
            Standing::Over { by } => Self { over: true, seconds_left: -seconds(by) },
        }
    }
}

impl<'a> WholeOut<'a> {
    pub(super) fn new(whole: &'a Whole) -> Self {
        let similar = whole.similar.iter().map(|(group, like)| SimilarOut {
            likeness: (like.likeness * 100.0).round() / 100.0,
            because: &like.because,
            group: GroupOut::new(group),
        });
        Self {
            group: GroupOut::new(&whole.group),
            why: why(&whole.group),
            merged: whole.members.iter().map(GroupOut::new).collect(),
            splits: whole.splits.iter().map(SplitOut::new).collect(),
            oldest_open: whole.oldest_open,
            team: whole.team.as_ref(),
            sla: whole.standing.map(StandingOut::from),
            known: whole.known.as_ref(),
            began_after: whole.began_after(),
            similar: similar.collect(),
            notes: &whole.notes,
            links: &whole.links,
            runbook: whole.runbook.as_ref(),
            history: &whole.history,
        }
    }
}
