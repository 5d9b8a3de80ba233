//! Merging and splitting. Logical: letters stay where they are, and their group points to the head that speaks for it.

use deadpool_postgres::Transaction;
use dlo_core::group::{Group, GroupDeed};
use dlo_core::id::GroupId;
use dlo_core::limits;
use dlo_core::time::Timestamp;

use super::super::rows::{self, GROUP, GroupRow};
use super::super::{audit, groups, read_error};
use super::changes::write_group;
use crate::triage::{mergeable, not_merged, too_many};
use crate::{Deed, StoreError};

/// Merges groups, and whatever was merged into them, into a head.
pub(in super::super) async fn merge(
    db: &Transaction<'_>,
    head: GroupId,
    members: &[GroupId],
    deed: &Deed,
    now: Timestamp,
) -> Result<Group, StoreError> {
    let family = groups::family(db, head).await?;
    let head = family.first().map(|(_, group)| group.clone()).ok_or(StoreError::NoGroup(head))?;
    let mut joining: Vec<(GroupRow, Group)> = Vec::new();
    for member in members {
        let others = groups::family(db, *member).await?;
        let known = others.first().is_none_or(|(row, group)| {
            group.id == head.id || joining.iter().any(|(joined, _)| joined == row)
        });
        if !known {
            joining.extend(others);
        }
    }
    if family.len() - 1 + joining.len() > limits::MEMBERS {
        return Err(too_many("groups merged into one", limits::MEMBERS));
    }
    mergeable(&head, joining.iter().map(|(_, group)| group))?;
    // In one order with the letters that lock groups.
    joining.sort_by_key(|(row, _)| *row);
    let mut log = Vec::new();
    for (row, group) in &joining {
        let sql = format!("SELECT {GROUP} FROM groups g WHERE g.id = $1 FOR UPDATE");
        let (_, mut member) = rows::group(&db.query_one(&sql, &[row]).await.map_err(read_error)?)?;
        member.merged_into = Some(head.id);
        member.owner.clone_from(&head.owner);
        member.owner_by_hand = head.owner_by_hand;
        write_group(db, *row, &member).await?;
        let into = Some(format!("into {}", head.id));
        log.push(audit::Row::of_group(now, GroupDeed::Merged, group.id, deed, into));
    }
    audit::append(db, &log).await?;
    groups::one(db, head.id).await
}

/// Lets a member go its own way, standing where its head stands.
pub(super) async fn split(
    db: &Transaction<'_>,
    member: GroupId,
    deed: &Deed,
    now: Timestamp,
) -> Result<Group, StoreError> {
    let sql = format!("SELECT {GROUP} FROM groups g WHERE g.uid = $1 FOR UPDATE");
    let found = db.query_opt(&sql, &[&member.0]).await.map_err(read_error)?;
    let (row, mut group) = rows::group(&found.ok_or(StoreError::NoGroup(member))?)?;
    let Some(head) = group.merged_into else { return Err(not_merged(member)) };
    group.life = groups::one(db, head).await?.life;
    group.merged_into = None;
    write_group(db, row, &group).await?;
    let from = Some(format!("from {head}"));
    audit::append(db, &[audit::Row::of_group(now, GroupDeed::Split, member, deed, from)]).await?;
    groups::one(db, member).await
}

pub(super) async fn members(db: &Transaction<'_>, head: GroupId) -> Result<Vec<Group>, StoreError> {
    let family = groups::family(db, head).await?;
    let mut members: Vec<Group> = family.into_iter().skip(1).map(|(_, group)| group).collect();
    members.sort_by_key(|group| std::cmp::Reverse((group.last_seen, group.id)));
    Ok(members)
}
