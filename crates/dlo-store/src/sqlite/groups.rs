//! Groups and numbers: answered from the catalog, which holds what is kept at write time.

use std::borrow::Cow;
use std::collections::BTreeMap;

use dlo_core::group::{Group, StatusCounts};
use dlo_core::id::GroupId;
use dlo_core::letter::Status;
use dlo_core::query::complete::Known;
use dlo_core::query::{Named, ShownBy};
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};

use super::catalog::{Catalog, Edit, GroupRow, Staged};
use super::read_error;
use super::write::Tools;
use super::writer::Shared;
use crate::names::Names;
use crate::place::Place;
use crate::triage::{GroupOrder, Listed, cursor_of, from_cursor, holds, is_named, order_key};
use crate::{CauseCount, GroupFilter, GroupPage, Page, SourceStats, Stats, StoreError};

pub(super) fn page(
    db: &Connection,
    shared: &Shared,
    filter: &GroupFilter,
    page: &Page,
) -> Result<GroupPage, StoreError> {
    let before = page.cursor.as_ref().map(|cursor| from_cursor(filter.order, cursor)).transpose()?;
    let aged = filter.order == GroupOrder::OldestOpen || filter.open_since.is_some();
    let oldest = if aged { oldest_by_head(db, shared)? } else { BTreeMap::new() };
    let young = |row: &GroupRow| {
        filter.open_since.is_some_and(|before| oldest.get(row).is_none_or(|oldest| *oldest >= before))
    };
    Ok(shared.catalog(|catalog| {
        let named = |row: GroupRow, group: &Group| {
            let mut members = catalog.members(row).iter().filter_map(|member| catalog.groups.get(member));
            is_named(filter, group) || members.any(|member| is_named(filter, member))
        };
        let heads = catalog
            .groups
            .iter()
            .filter(|(row, group)| group.merged_into.is_none() && !young(row) && named(**row, group));
        let mut listed: Vec<(Listed, GroupRow)> = heads
            .filter_map(|(row, group)| {
                // Most groups have no members: they are looked at where they stand.
                let whole = if catalog.members(*row).is_empty() {
                    Cow::Borrowed(group)
                } else {
                    Cow::Owned(catalog.shown(*row)?)
                };
                let key = order_key(filter.order, &whole, oldest.get(row).copied())?;
                let place = (key, group.id);
                (holds(filter, &whole) && before.is_none_or(|before| place < before)).then_some((place, *row))
            })
            .collect();
        listed.sort_unstable_by(|one, other| other.cmp(one));
        let more = listed.len() > page.limit;
        listed.truncate(page.limit);
        let next = listed.last().filter(|_| more).map(|(place, _)| cursor_of(filter.order, *place));
        GroupPage { groups: listed.iter().filter_map(|(_, row)| catalog.shown(*row)).collect(), next }
    }))
}

/// When the oldest open letter of each head, or of its members, failed.
fn oldest_by_head(db: &Connection, shared: &Shared) -> Result<BTreeMap<GroupRow, Timestamp>, StoreError> {
    let open = shared.catalog(|catalog| {
        let open = catalog.groups.iter().filter(|(_, group)| group.counts.get(Status::Open) > 0);
        open.map(|(row, _)| (*row, catalog.head_of(*row))).collect::<Vec<_>>()
    });
    let mut oldest = BTreeMap::new();
    for (row, head) in open {
        if let Some(time) = oldest_open(db, row)? {
            let known = oldest.entry(head).or_insert(time);
            *known = time.min(*known);
        }
    }
    Ok(oldest)
}

/// When the oldest open letter of one group, without its members, failed: one look into an index.
pub(super) fn oldest_open(db: &Connection, row: GroupRow) -> Result<Option<Timestamp>, StoreError> {
    db.prepare_cached(
        "SELECT place FROM letters INDEXED BY letters_by_group WHERE group_id = ?1 AND status = ?2
          ORDER BY place LIMIT 1",
    )
    .and_then(|mut oldest| {
        oldest.query_row(params![row, Status::Open.number()], |row| row.get(0).map(Place)).optional()
    })
    .map(|place| place.map(Place::time))
    .map_err(read_error)
}

pub(super) fn one(shared: &Shared, id: GroupId) -> Result<Group, StoreError> {
    shared
        .catalog(|catalog| catalog.head(id).and_then(|row| catalog.shown(row)))
        .ok_or(StoreError::NoGroup(id))
}

pub(super) fn causes(shared: &Shared, source: Option<&str>) -> Vec<CauseCount> {
    let mut causes: BTreeMap<(Option<String>, Option<String>), StatusCounts> = BTreeMap::new();
    shared.catalog(|catalog| {
        for group in
            catalog.groups.values().filter(|group| source.is_none_or(|wanted| group.source == wanted))
        {
            let cause = (group.event_type.clone(), group.error_class.clone());
            causes.entry(cause).or_default().merge(&group.counts);
        }
    });
    let shown = causes.into_iter().filter(|(_, counts)| counts.total() > 0);
    shown.map(|((event_type, error_class), counts)| CauseCount { event_type, error_class, counts }).collect()
}

pub(super) fn names(
    shared: &Shared,
    named: &[Named],
    typed: &str,
    shown_by: Option<&ShownBy>,
    most: usize,
) -> Vec<Known> {
    shared.catalog(|catalog| {
        let mut names = Names::new(typed);
        for group in catalog.groups.values().filter(|group| group.counts.total() > 0) {
            for named in named {
                if let Some(name) = name_of(group, *named) {
                    names.seen(*named, name, group.counts.get(Status::Open));
                }
            }
        }
        names.best(shown_by, most)
    })
}

fn name_of(group: &Group, named: Named) -> Option<&str> {
    match named {
        Named::Source => Some(&group.source),
        // An overflow group speaks for many queues and names none.
        Named::Queue => Some(group.queue.as_str()).filter(|_| !group.overflow),
        Named::Type => group.event_type.as_deref(),
        Named::Class => group.error_class.as_deref(),
        Named::Consumer => group.consumer.as_deref(),
        Named::Owner => group.owner.as_deref(),
    }
}

pub(super) fn stats(db: &Connection, shared: &Shared, unindexed: u64) -> Result<Stats, StoreError> {
    let (mut stats, open) = shared.catalog(|catalog| (numbers(catalog, unindexed), open_groups(catalog)));
    for entry in &mut stats.sources {
        for (first_seen, row) in open.get(&entry.source).into_iter().flatten() {
            // No letter of a group is older than when it was first seen, so those behind have none that is older either.
            if entry.oldest_open.is_some_and(|oldest| first_seen.time() >= oldest) {
                break;
            }
            let time = oldest_open(db, *row)?;
            entry.oldest_open = [entry.oldest_open, time].into_iter().flatten().min();
        }
    }
    Ok(stats)
}

/// By source the groups that have open letters, those first that were seen first.
fn open_groups(catalog: &Catalog) -> BTreeMap<String, Vec<(Place, GroupRow)>> {
    let mut open: BTreeMap<String, Vec<(Place, GroupRow)>> = BTreeMap::new();
    for (row, group) in catalog.groups.iter().filter(|(_, group)| group.counts.get(Status::Open) > 0) {
        let seen = (Place::from(group.first_seen), *row);
        match open.get_mut(&group.source) {
            Some(groups) => groups.push(seen),
            None => drop(open.insert(group.source.clone(), vec![seen])),
        }
    }
    open.values_mut().for_each(|groups| groups.sort_unstable());
    open
}

fn numbers(catalog: &Catalog, unindexed: u64) -> Stats {
    let mut sources: BTreeMap<&str, SourceStats> = BTreeMap::new();
    for (name, source) in &catalog.sources {
        let entry = SourceStats {
            source: name.clone(),
            captured: source.captured,
            deaths: source.deaths,
            counts: StatusCounts::default(),
            groups: source.groups as u64,
            oldest_open: None,
            last_captured: source.last_captured,
        };
        sources.insert(name, entry);
    }
    let mut unowned = 0;
    for group in catalog.groups.values() {
        if let Some(source) = sources.get_mut(group.source.as_str()) {
            source.counts.merge(&group.counts);
        }
        if group.owner.is_none() {
            unowned += group.counts.get(Status::Open);
        }
    }
    Stats {
        letters: catalog.totals(),
        groups: catalog.groups.values().filter(|group| group.merged_into.is_none()).count() as u64,
        unowned,
        unindexed,
        sources: sources.into_values().collect(),
    }
}

/// Writes owners that rules decided; a head's members follow it. Returns how many groups changed.
pub(super) fn set_owners(
    staged: &mut Staged,
    tools: &Tools<'_>,
    owners: Vec<(GroupRow, Option<String>)>,
) -> Result<u64, StoreError> {
    tools.shared.catalog(|catalog| {
        for (head, owner) in owners {
            // Somebody may have said whose it is since the rules were asked.
            if catalog.groups.get(&head).is_none_or(|group| group.owner_by_hand) {
                continue;
            }
            for row in catalog.family(head) {
                let changed = catalog.groups.get(&row).filter(|group| group.owner != owner);
                if let Some(group) = changed {
                    staged.edits.insert(row, Edit { owner: owner.clone(), ..Edit::of(group) });
                }
            }
        }
    });
    Ok(staged.edits.len() as u64)
}
