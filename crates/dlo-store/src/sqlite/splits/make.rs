//! Making a split, taking it back, and listing what is remembered.

use std::sync::Arc;

use dlo_core::group::{Group, GroupDeed, SplitOff};
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::super::catalog::{Catalog, Edit, GroupRow, Staged};
use super::super::triage::merge;
use super::super::write::Tools;
use super::super::writer::Shared;
use super::super::{audit, read_error};
use crate::place::Place;
use crate::triage::rules::{Rule, new_id};
use crate::triage::{NewSplit, Split, no_room, not_split, splittable};
use crate::{Deed, StoreError};

/// Makes the group and remembers the condition; the letters follow behind. Returns the new group.
pub(super) fn split(
    db: &Connection,
    staged: &mut Staged,
    tools: &Tools<'_>,
    (id, split): (GroupId, &NewSplit),
    deed: &Deed,
    now: Timestamp,
) -> Result<GroupId, StoreError> {
    let (base, head, rules, row) = tools.shared.catalog(|catalog| {
        let base = catalog.head(id).ok_or(StoreError::NoGroup(id))?;
        let head = catalog.groups.get(&base).cloned().ok_or(StoreError::NoGroup(id))?;
        let rules = catalog.rules(base).unwrap_or_default();
        let members = catalog.members(base).iter().filter_map(|row| catalog.groups.get(row));
        splittable(&head, members, rules.len())?;
        let cap = tools.limits.groups_per_source;
        if catalog.sources.get(&head.source).is_some_and(|source| source.groups >= cap) {
            return Err(no_room(&head.source, cap));
        }
        Ok((base, head, rules, catalog.last_row() + 1))
    })?;
    let condition = split.condition.as_str().to_string();
    let made = Group {
        id: new_id(),
        split: Some(SplitOff { from: head.id, condition, title: split.title()? }),
        ..Group { first_seen: now, last_seen: now, counts: Default::default(), ..head.clone() }
    };
    let sql = "INSERT INTO splits (group_id, split_id, at, author, next) VALUES (?1, ?2, ?3, ?4, ?5)";
    db.execute(sql, params![base, row, now.as_micros(), deed.author, Place::END.0]).map_err(read_error)?;
    let rule = Rule::new(db.last_insert_rowid(), row, &split.condition);
    staged.rules.insert(base, rules.iter().cloned().chain([rule]).collect());
    for (id, what) in [(head.id, format!("into {}", made.id)), (made.id, format!("from {}", head.id))] {
        audit::append(db, &audit::Row::of_group(now, GroupDeed::SplitBy, id, deed, Some(what)))?;
    }
    let id = made.id;
    staged.edits.insert(row, Edit::of(&made));
    staged.new_rows.insert(id, row);
    staged.new_groups.insert(row, made);
    Ok(id)
}

/// Forgets the condition; the group goes back to where it came from, unless somebody merged it elsewhere.
pub(super) fn unsplit(
    db: &Connection,
    staged: &mut Staged,
    tools: &Tools<'_>,
    id: GroupId,
    deed: &Deed,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (row, group, base, rules) = tools.shared.catalog(|catalog| {
        let row = catalog.row(id).ok_or(StoreError::NoGroup(id))?;
        let group = catalog.groups.get(&row).cloned().ok_or(StoreError::NoGroup(id))?;
        let from = group.split.as_ref().map(|split| split.from).ok_or_else(|| not_split(id))?;
        let base = catalog.row(from).ok_or(StoreError::NoGroup(from))?;
        Ok((row, group, base, catalog.rules(base).unwrap_or_default()))
    })?;
    if db.execute("DELETE FROM splits WHERE split_id = ?1", [row]).map_err(read_error)? == 0 {
        return Err(not_split(id));
    }
    let left: Arc<[Rule]> = rules.iter().filter(|rule| rule.target != row).cloned().collect();
    staged.rules.insert(base, left);
    let from = group.split.map(|split| format!("from {}", split.from));
    audit::append(db, &audit::Row::of_group(now, GroupDeed::Unsplit, id, deed, from))?;
    match (group.merged_into, tools.shared.catalog(|catalog| catalog.groups.get(&base).map(Group::head))) {
        (None, Some(head)) => merge(db, staged, tools, (head, &[id]), deed, now),
        _ => Ok(()),
    }
}

/// The conditions that lead away from a group and its members.
pub(in super::super) fn list(
    db: &Connection,
    shared: &Shared,
    id: GroupId,
) -> Result<Vec<Split>, StoreError> {
    let family = |catalog: &Catalog| catalog.head(id).map(|head| catalog.family(head));
    let rows: Vec<GroupRow> = shared.catalog(family).ok_or(StoreError::NoGroup(id))?;
    let sql = "SELECT number, at, author, split_id, next IS NOT NULL FROM splits WHERE group_id = ?1";
    let mut statement = db.prepare_cached(sql).map_err(read_error)?;
    let mut splits = Vec::new();
    for row in rows {
        let mut found = statement.query([row]).map_err(read_error)?;
        while let Some(found) = found.next().map_err(read_error)? {
            let split: GroupRow = found.get(3).map_err(read_error)?;
            let Some(group) = shared.catalog(|catalog| catalog.groups.get(&split).cloned()) else { continue };
            splits.push(Split {
                number: found.get(0).map_err(read_error)?,
                at: Timestamp::from_micros(found.get(1).map_err(read_error)?),
                author: found.get(2).map_err(read_error)?,
                group,
                moving: found.get(4).map_err(read_error)?,
            });
        }
    }
    splits.sort_by_key(|split| split.number);
    Ok(splits)
}
