//! Which group a letter belongs to, and what its arrival changes of group and source.
//!
//! Everything here is staged: groups are made and touched in memory, and written once a transaction by `write::flush`.

use dlo_core::fingerprint::Fingerprint;
use dlo_core::group::{Arrival, Group, GroupStatus};
use dlo_core::id::GroupId;
use dlo_core::letter::NewLetter;
use dlo_core::time::Timestamp;
use dlo_core::trend::Resolution;

use super::catalog::{Arrived, Catalog, Edit, GroupRow, Staged, Touch};
use super::write::Tools;

/// The group a letter belongs to; in an overflow group the letter keeps its own words.
#[derive(Debug, Clone, Copy)]
pub(super) struct Grouping {
    pub(super) row: GroupRow,
    pub(super) overflow: bool,
}

pub(super) fn group_of(
    staged: &mut Staged,
    tools: &Tools<'_>,
    letter: &NewLetter,
    now: Timestamp,
) -> Grouping {
    if let Some(row) = find_group(staged, tools, letter.fingerprint.group) {
        return Grouping { row, overflow: false };
    }
    let before = tools.shared.catalog(|catalog| catalog.sources.get(&letter.source).map_or(0, |s| s.groups));
    let here = staged.sources.get(&letter.source).map_or(0, |arrived| arrived.new_groups);
    if before + here < tools.limits.groups_per_source {
        let row = new_group(staged, tools, letter, &letter.fingerprint, now);
        return Grouping { row, overflow: false };
    }
    let overflow = Fingerprint::overflow(&letter.source);
    let row = match find_group(staged, tools, overflow.group) {
        Some(row) => row,
        None => new_group(staged, tools, letter, &overflow, now),
    };
    Grouping { row, overflow: true }
}

fn find_group(staged: &Staged, tools: &Tools<'_>, id: GroupId) -> Option<GroupRow> {
    staged.new_rows.get(&id).copied().or_else(|| tools.shared.catalog(|catalog| catalog.row(id)))
}

fn new_group(
    staged: &mut Staged,
    tools: &Tools<'_>,
    letter: &NewLetter,
    fingerprint: &Fingerprint,
    now: Timestamp,
) -> GroupRow {
    let overflow = fingerprint.group != letter.fingerprint.group;
    let known = tools.shared.catalog(Catalog::last_row);
    let row = staged.new_groups.last_key_value().map_or(known, |(row, _)| *row) + 1;
    let own = |word: &Option<String>| if overflow { None } else { word.clone() };
    let group = Group {
        queue: if overflow { String::new() } else { letter.origin.queue.clone() },
        consumer: own(&letter.consumer),
        event_type: own(&letter.event_type),
        error_class: own(&letter.error_class),
        template: fingerprint.template.clone(),
        overflow,
        owner: own(&letter.owner),
        ..Group::begun(fingerprint.group, fingerprint.version, &letter.source, letter.failed_at)
    };
    staged.new_rows.insert(group.id, row);
    staged.new_groups.insert(row, group);
    arrived(staged, &letter.source, now).new_groups += 1;
    row
}

pub(super) fn arrived<'s>(staged: &'s mut Staged, source: &str, at: Timestamp) -> &'s mut Arrived {
    let none = Arrived { captured: 0, deaths: 0, new_groups: 0, at };
    let arrived = staged.sources.entry(source.to_string()).or_insert(none);
    arrived.at = at;
    arrived
}

/// A letter of the group `from` is one of source `to` from now on, and so is its capture.
pub(super) fn went_over(staged: &mut Staged, tools: &Tools<'_>, from: GroupRow, to: &str, at: Timestamp) {
    let known = tools.shared.catalog(|catalog| catalog.groups.get(&from).map(|group| group.source.clone()));
    let from = known.or_else(|| staged.new_groups.get(&from).map(|group| group.source.clone()));
    if let Some(from) = from.filter(|from| from != to) {
        // Nothing was captured there now.
        let none = Arrived { captured: 0, deaths: 0, new_groups: 0, at: Timestamp::EPOCH };
        staged.sources.entry(from).or_insert(none).captured -= 1;
        arrived(staged, to, at).captured += 1;
    }
}

/// A letter arrived in the group: seen later, counted in its minute, and back again if it was resolved.
pub(super) fn touch(
    staged: &mut Staged,
    tools: &Tools<'_>,
    row: GroupRow,
    letter: &NewLetter,
    now: Timestamp,
) {
    let at = letter.failed_at;
    let touch = staged.touched.entry(row).or_insert_with(|| Touch {
        first: at,
        last: at,
        watched: tools.shared.catalog(|catalog| watched(catalog, row)),
    });
    touch.first = touch.first.min(at);
    touch.last = touch.last.max(at);
    let watched = touch.watched;
    *staged.minutes.entry((row, Resolution::Minute.bucket(at))).or_default() += 1;
    staged.at = Some(now);
    if let Some(head) = watched {
        let letter = Arrival { version: letter.consumer_version.as_deref(), failed_at: at };
        arrive(staged, tools, head, letter, now);
    }
}

/// The head of a group, if an arrival may change where it stands.
fn watched(catalog: &Catalog, row: GroupRow) -> Option<GroupRow> {
    let head = catalog.head_of(row);
    let status = catalog.groups.get(&head)?.life.status;
    matches!(status, GroupStatus::Resolved | GroupStatus::Snoozed).then_some(head)
}

fn arrive(staged: &mut Staged, tools: &Tools<'_>, head: GroupRow, letter: Arrival<'_>, now: Timestamp) {
    let known =
        tools.shared.catalog(|catalog| catalog.groups.get(&head).map(|group| (group.id, Edit::of(group))));
    let Some((id, edit)) = known else { return };
    let edit = staged.edits.entry(head).or_insert(edit);
    if let Some(deed) = edit.life.arrive(letter, now) {
        staged.deeds.push((id, deed, now));
    }
}
