//! Merging and splitting. Logical: letters stay where they are, and their group points to the head that speaks for it.

use dlo_core::group::{Group, GroupDeed};
use dlo_core::id::GroupId;
use dlo_core::limits;
use dlo_core::time::Timestamp;
use rusqlite::Connection;

use super::super::audit;
use super::super::catalog::{Edit, GroupRow, Staged};
use super::super::write::Tools;
use super::super::writer::Shared;
use crate::triage::too_many;
use crate::{Deed, StoreError};

/// Merges groups, and whatever was merged into them, into a head.
pub(in super::super) fn merge(
    db: &Connection,
    staged: &mut Staged,
    tools: &Tools<'_>,
    (head, members): (GroupId, &[GroupId]),
    deed: &Deed,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (head, joining) = tools.shared.catalog(|catalog| {
        let row = catalog.head(head).ok_or(StoreError::NoGroup(head))?;
        let mut joining: Vec<GroupRow> = Vec::new();
        for member in members {
            let member = catalog.head(*member).ok_or(StoreError::NoGroup(*member))?;
            if member != row && !joining.contains(&member) {
                joining.extend(catalog.family(member));
            }
        }
        if catalog.members(row).len() + joining.len() > limits::MEMBERS {
            return Err(too_many("groups merged into one", limits::MEMBERS));
        }
        let group = |row: &GroupRow| catalog.groups.get(row).cloned().map(|group| (*row, group));
        let joining: Vec<(GroupRow, Group)> = joining.iter().filter_map(group).collect();
        let head = catalog.groups.get(&row).cloned().ok_or(StoreError::NoGroup(head))?;
        Ok((head, joining))
    })?;
    crate::triage::mergeable(&head, joining.iter().map(|(_, group)| group))?;
    for (row, member) in joining {
        let edit = Edit {
            merged_into: Some(head.id),
            owner: head.owner.clone(),
            owner_by_hand: head.owner_by_hand,
            ..Edit::of(&member)
        };
        staged.edits.insert(row, edit);
        let into = Some(format!("into {}", head.id));
        audit::append(db, &audit::Row::of_group(now, GroupDeed::Merged, member.id, deed, into))?;
    }
    Ok(())
}

/// Lets a member go its own way, standing where its head stands.
pub(super) fn split(
    db: &Connection,
    staged: &mut Staged,
    tools: &Tools<'_>,
    member: GroupId,
    deed: &Deed,
    now: Timestamp,
) -> Result<(), StoreError> {
    let (row, group, head) = tools.shared.catalog(|catalog| {
        let row = catalog.row(member).ok_or(StoreError::NoGroup(member))?;
        let group = catalog.groups.get(&row).cloned().ok_or(StoreError::NoGroup(member))?;
        let head =
            group.merged_into.and_then(|head| catalog.row(head)).and_then(|row| catalog.groups.get(&row));
        match head.cloned() {
            Some(head) => Ok((row, group, head)),
            None => Err(crate::triage::not_merged(member)),
        }
    })?;
    let edit = Edit { life: head.life.clone(), merged_into: None, ..Edit::of(&group) };
    staged.edits.insert(row, edit);
    let from = Some(format!("from {}", head.id));
    audit::append(db, &audit::Row::of_group(now, GroupDeed::Split, member, deed, from))
}

pub(super) fn members(shared: &Shared, id: GroupId) -> Result<Vec<Group>, StoreError> {
    shared.catalog(|catalog| {
        let head = catalog.head(id).ok_or(StoreError::NoGroup(id))?;
        let mut members: Vec<Group> =
            catalog.members(head).iter().filter_map(|row| catalog.groups.get(row)).cloned().collect();
        members.sort_by_key(|group| std::cmp::Reverse((group.last_seen, group.id)));
        Ok(members)
    })
}
