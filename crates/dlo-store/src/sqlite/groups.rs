//! Groups and numbers: answered from the catalog, which holds what is kept at write time.

use std::collections::BTreeMap;

use dlo_core::group::{Group, StatusCounts};
use dlo_core::id::GroupId;
use dlo_core::letter::Status;
use dlo_core::query::Named;
use dlo_core::query::complete::Known;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, OptionalExtension, params};
use uuid::Uuid;

use super::catalog::{Catalog, GroupRow};
use super::read_error;
use super::writer::{Shared, Writer};
use crate::names::Names;
use crate::place::Place;
use crate::{CauseCount, Cursor, GroupFilter, GroupPage, Page, SourceStats, Stats, StoreError};

pub(super) fn page(shared: &Shared, filter: &GroupFilter, page: &Page) -> Result<GroupPage, StoreError> {
    let before = page.cursor.as_ref().map(from_cursor).transpose()?;
    let mut groups: Vec<Group> = shared.catalog(|catalog| {
        let wanted = |group: &&Group| {
            holds(filter, group) && before.is_none_or(|before| (group.last_seen, group.id) < before)
        };
        catalog.groups.values().filter(wanted).cloned().collect()
    });
    groups.sort_unstable_by_key(|group| std::cmp::Reverse((group.last_seen, group.id)));
    let more = groups.len() > page.limit;
    groups.truncate(page.limit);
    let next = groups
        .last()
        .filter(|_| more)
        .map(|last| Cursor(format!("{}.{}", last.last_seen.as_micros(), last.id)));
    Ok(GroupPage { groups, next })
}

fn from_cursor(cursor: &Cursor) -> Result<(Timestamp, GroupId), StoreError> {
    let (micros, id) = cursor.0.split_once('.').ok_or(StoreError::BadCursor)?;
    let micros = micros.parse().map_err(|_| StoreError::BadCursor)?;
    let id = Uuid::try_parse(id).map_err(|_| StoreError::BadCursor)?;
    Ok((Timestamp::from_micros(micros), GroupId(id)))
}

fn holds(filter: &GroupFilter, group: &Group) -> bool {
    let is = |wanted: &Option<String>, found: Option<&String>| wanted.is_none() || wanted.as_ref() == found;
    group.counts.total() > 0
        && is(&filter.source, Some(&group.source))
        && is(&filter.event_type, group.event_type.as_ref())
        && is(&filter.error_class, group.error_class.as_ref())
        && is(&filter.consumer, group.consumer.as_ref())
        && filter.owner.as_ref().is_none_or(|wanted| *wanted == group.owner)
        && filter.holding.is_none_or(|status| group.counts.get(status) > 0)
}

pub(super) fn one(shared: &Shared, id: GroupId) -> Result<Group, StoreError> {
    shared
        .catalog(|catalog| catalog.row(id).and_then(|row| catalog.groups.get(&row)).cloned())
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

pub(super) fn names(shared: &Shared, named: &[Named], typed: &str, most: usize) -> Vec<Known> {
    shared.catalog(|catalog| {
        let mut names = Names::new(typed);
        for group in catalog.groups.values().filter(|group| group.counts.total() > 0) {
            for named in named {
                if let Some(name) = name_of(group, *named) {
                    names.seen(*named, name, group.counts.get(Status::Open));
                }
            }
        }
        names.best(most)
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
    let mut oldest = db
        .prepare_cached(
            "SELECT place FROM letters INDEXED BY letters_by_group WHERE group_id = ?1 AND status = ?2
              ORDER BY place LIMIT 1",
        )
        .map_err(read_error)?;
    for (row, source) in open {
        let place = oldest
            .query_row(params![row, Status::Open.number()], |row| row.get(0).map(Place))
            .optional()
            .map_err(read_error)?;
        let entry = stats.sources.iter_mut().find(|entry| entry.source == source);
        if let (Some(place), Some(entry)) = (place, entry) {
            let time = place.time();
            entry.oldest_open = Some(entry.oldest_open.map_or(time, |known| known.min(time)));
        }
    }
    Ok(stats)
}

fn open_groups(catalog: &Catalog) -> Vec<(GroupRow, String)> {
    let open = catalog.groups.iter().filter(|(_, group)| group.counts.get(Status::Open) > 0);
    open.map(|(row, group)| (*row, group.source.clone())).collect()
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
        groups: catalog.groups.len() as u64,
        unowned,
        unindexed,
        sources: sources.into_values().collect(),
    }
}

/// Writes owners that were decided outside; returns how many changed.
pub(super) fn set_owners(
    writer: &mut Writer,
    owners: Vec<(GroupId, Option<String>)>,
) -> Result<u64, StoreError> {
    let changed: Vec<(GroupRow, Option<String>)> = writer.shared.catalog(|catalog| {
        let rows = owners.into_iter().filter_map(|(id, owner)| catalog.row(id).map(|row| (row, owner)));
        rows.filter(|(row, owner)| catalog.groups.get(row).is_some_and(|group| group.owner != *owner))
            .collect()
    });
    let transaction = writer.connection.transaction().map_err(read_error)?;
    {
        let mut update =
            transaction.prepare("UPDATE groups SET owner = ?2 WHERE id = ?1").map_err(read_error)?;
        for (row, owner) in &changed {
            update.execute(params![row, owner]).map_err(read_error)?;
        }
    }
    transaction.commit().map_err(read_error)?;
    let count = changed.len() as u64;
    writer.shared.change(|catalog| {
        for (row, owner) in changed {
            if let Some(group) = catalog.groups.get_mut(&row) {
                group.owner = owner;
            }
        }
    });
    Ok(count)
}
