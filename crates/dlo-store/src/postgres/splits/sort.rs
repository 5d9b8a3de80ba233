//! Letters that arrive in a group with conditions: which of its groups they go to.

use std::collections::HashMap;

use deadpool_postgres::Transaction;
use dlo_core::id::LetterId;
use dlo_core::time::Timestamp;

use super::super::grouping::Grouping;
use super::super::letters::Row;
use super::super::rows::{self, Found, GroupRow};
use super::super::{read, read_error};
use crate::StoreError;
use crate::block::{Block, Cold};
use crate::triage::rules::{self, Rule, Sorter, as_stored};

/// The conditions of groups that have some, in the order of their making.
pub(in super::super) type Rules = HashMap<GroupRow, Vec<Rule>>;

/// The conditions of these groups. Nothing is asked where none has any.
pub(in super::super) async fn rules<'g>(
    db: &Transaction<'_>,
    groups: impl Iterator<Item = &'g Grouping>,
) -> Result<Rules, StoreError> {
    let split: Vec<GroupRow> = groups.filter(|group| group.split).map(|group| group.row).collect();
    if split.is_empty() { Ok(Rules::new()) } else { of_rows(db, &split).await }
}

pub(super) async fn of_rows(db: &Transaction<'_>, groups: &[GroupRow]) -> Result<Rules, StoreError> {
    let sql = "SELECT s.group_id, s.number, s.split_id, g.split_where FROM splits s JOIN groups g ON g.id = s.split_id
                WHERE s.group_id = ANY($1) AND g.split_where IS NOT NULL ORDER BY s.number";
    let statement = db.prepare_cached(sql).await.map_err(read_error)?;
    let mut found = Rules::new();
    for row in db.query(&statement, &[&groups]).await.map_err(read_error)? {
        let rule = Rule::read(row.get(1), row.get(2), &rows::text(&row, 3));
        found.entry(row.get(0)).or_default().extend(rule);
    }
    Ok(found)
}

/// Has a new letter go to the group it belongs to, if its fingerprint leads to one with conditions.
pub(in super::super) fn sort_new(rules: &Rules, sorter: &mut Sorter<'_>, row: &mut Row<'_>, now: Timestamp) {
    let Some(rules) = rules.get(&row.group.row).filter(|_| !row.again) else { return };
    let letter = as_stored(row.letter, row.id, u64::try_from(row.size).unwrap_or(0), now);
    if let Some(target) = sorter.target(rules, &letter) {
        row.group.row = target;
    }
}

/// The group of a letter that died again and stands in the group `row`: it keeps its payload, so it is held against the
/// conditions as it is stored. Its row is locked by whoever calls.
pub(in super::super) async fn sort_again(
    db: &Transaction<'_>,
    rules: &Rules,
    row: GroupRow,
    id: LetterId,
) -> Result<GroupRow, StoreError> {
    let Some(rules) = rules.get(&row) else { return Ok(row) };
    let found = read::find(db, id).await?;
    let asked = rules::needs_block(rules, &found.letter);
    let cold = if asked { cold(db, &mut HashMap::new(), &found).await? } else { None };
    let Some(target) = rules::target(rules, &found.letter, cold.as_ref()) else { return Ok(row) };
    db.execute("UPDATE letters SET group_id = $2 WHERE id = $1", &[&id.0, &target])
        .await
        .map_err(read_error)?;
    Ok(target)
}

/// What stands in the block of a letter; `None` if it cannot be read.
pub(super) async fn cold(
    db: &Transaction<'_>,
    blocks: &mut HashMap<i64, Block>,
    found: &Found,
) -> Result<Option<Cold>, StoreError> {
    let block = read::held(blocks, db, found.block).await;
    match block.and_then(|block| block.cold(found.slot)) {
        Err(StoreError::Unreadable(_)) => Ok(None),
        cold => cold.map(Some),
    }
}
