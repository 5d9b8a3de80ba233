//! Owners by rules: asked of every head that nobody gave to a team by hand; members follow their head.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use dlo_core::group::Group;
use dlo_core::id::GroupId;

use super::super::rows::GroupRow;
use super::super::text::escape_option;
use super::super::{groups, read_error};
use super::OwnerOf;
use crate::StoreError;

/// Locked in the order of rows, as letters that arrive lock them.
const SET: &str = "
    UPDATE groups g SET owner = t.owner
      FROM (SELECT o.id, r.owner FROM UNNEST($1::bigint[], $2::text[]) AS r (id, owner) JOIN groups o ON o.id = r.id
             WHERE o.owner IS DISTINCT FROM r.owner AND NOT o.owner_by_hand ORDER BY o.id FOR UPDATE OF o) t
     WHERE g.id = t.id";

/// Returns how many groups changed.
pub(super) async fn own_by_rules(db: &Transaction<'_>, owner_of: &OwnerOf<'_>) -> Result<u64, StoreError> {
    let all = groups::all(db).await?;
    let ruled = all.values().filter(|group| group.merged_into.is_none() && !group.owner_by_hand);
    let ruled: HashMap<GroupId, Option<String>> = ruled.map(|group| (group.id, owner_of(group))).collect();
    let follows = |(row, group): (&GroupRow, &Group)| {
        ruled.get(&group.head()).map(|owner| (*row, escape_option(owner)))
    };
    let (ids, owners): (Vec<GroupRow>, Vec<_>) = all.iter().filter_map(follows).unzip();
    db.execute(SET, &[&ids, &owners]).await.map_err(read_error)
}
