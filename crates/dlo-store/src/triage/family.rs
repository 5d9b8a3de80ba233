//! Families of groups: what may be merged, and what must hold of what was.

use dlo_core::group::Group;
use dlo_core::id::GroupId;

use crate::StoreError;

/// An overflow group stands for many causes: it would hide them in a head, or the head in them.
pub(crate) fn mergeable<'g>(
    head: &Group,
    mut members: impl Iterator<Item = &'g Group>,
) -> Result<(), StoreError> {
    if head.overflow || members.any(|member| member.overflow) {
        return Err(StoreError::Unsupported(
            "a group that holds what is past the cap of groups stands for many causes; it is merged with none".into(),
        ));
    }
    Ok(())
}

pub(crate) fn not_merged(id: GroupId) -> StoreError {
    StoreError::Unsupported(format!("the group {id} was not merged into another; there is nothing to split"))
}

/// Rows that should not be there, counted, and what they are. The same in both dialects.
pub(crate) const CHECKS: &[(&str, &str)] = &[
    (
        "SELECT count(*) FROM groups m WHERE m.merged_into IS NOT NULL AND NOT EXISTS
         (SELECT 1 FROM groups h WHERE h.uid = m.merged_into AND h.merged_into IS NULL)",
        "groups are merged into a group that is not there, or not a head",
    ),
    (
        "SELECT count(*) FROM splits s WHERE NOT EXISTS (SELECT 1 FROM groups g WHERE g.id = s.group_id) OR NOT EXISTS
         (SELECT 1 FROM groups g JOIN groups b ON b.uid = g.split_from
           WHERE g.id = s.split_id AND b.id = s.group_id AND g.split_where IS NOT NULL)",
        "conditions lead from or to a group that is not there",
    ),
    (
        "SELECT count(*) FROM notes n WHERE NOT EXISTS (SELECT 1 FROM groups g WHERE g.id = n.group_id)",
        "notes have no group",
    ),
    (
        "SELECT count(*) FROM links l WHERE NOT EXISTS (SELECT 1 FROM groups g WHERE g.id = l.group_id)",
        "links have no group",
    ),
    (
        "SELECT count(*) FROM runbooks r WHERE NOT EXISTS (SELECT 1 FROM groups g WHERE g.id = r.group_id)",
        "runbooks have no group",
    ),
    (
        "SELECT count(*) FROM trend t WHERE NOT EXISTS (SELECT 1 FROM groups g WHERE g.id = t.group_id)",
        "buckets of trends have no group",
    ),
];
