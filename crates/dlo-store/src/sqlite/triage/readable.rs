//! Reading everything once, before a backup replaces what is there.

use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use rusqlite::Connection;

use super::super::writer::Shared;
use super::super::{audit, read_error, splits};
use super::{ages, beside, deploys, family, runbooks, views};
use crate::{Page, StoreError};

/// What people wrote beside each group, the deployments, and everybody's views.
pub(in super::super) fn read_all(db: &Connection, shared: &Shared) -> Result<(), StoreError> {
    let heads: Vec<GroupId> = shared.catalog(|catalog| {
        catalog.groups.values().filter(|group| group.merged_into.is_none()).map(|group| group.id).collect()
    });
    for head in heads {
        let family = family(shared, head)?;
        beside::notes(db, &family)?;
        beside::links(db, &family)?;
        runbooks::read(db, &family)?;
        splits::list(db, shared, head)?;
        let ids: Vec<GroupId> = family.iter().map(|(_, id)| *id).collect();
        audit::of_groups(db, &ids, Page::MOST)?;
    }
    deploys::list(db, None, None, Page::MOST)?;
    ages::open_ages(db, Timestamp::EPOCH)?;
    let owners: Vec<String> = db
        .prepare("SELECT DISTINCT owner FROM views")
        .and_then(|mut list| list.query_map([], |row| row.get(0))?.collect())
        .map_err(read_error)?;
    owners.iter().try_for_each(|owner| views::list(db, Some(owner)).map(drop))
}
