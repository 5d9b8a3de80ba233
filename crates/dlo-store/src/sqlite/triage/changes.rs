//! Changes of groups by people, wakings by the office, and how both are written.

use std::collections::HashMap;

use dlo_core::group::{Change, Illegal};
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use rusqlite::{Connection, params};

use super::super::catalog::{Edit, GroupRow, Staged};
use super::super::write::Tools;
use super::super::writer::Shared;
use super::super::{audit, read_error};
use super::trends;
use crate::triage::Changed;
use crate::{Deed, StoreError};

/// What became of a group, before the commit.
#[derive(Clone)]
pub(super) enum Decided {
    Changed(GroupRow),
    Illegal { status: dlo_core::group::GroupStatus, why: Illegal },
    Missing,
}

pub(super) fn shown(shared: &Shared, decided: Decided) -> Changed {
    match decided {
        Decided::Changed(row) => match shared.catalog(|catalog| catalog.shown(row)) {
            Some(group) => Changed::Changed(Box::new(group)),
            None => Changed::Missing,
        },
        Decided::Illegal { status, why } => Changed::Illegal { status, why },
        Decided::Missing => Changed::Missing,
    }
}

pub(super) fn change(
    db: &Connection,
    staged: &mut Staged,
    tools: &Tools<'_>,
    ids: &[GroupId],
    change: &Change,
    deed: &Deed,
    now: Timestamp,
) -> Result<Vec<Decided>, StoreError> {
    let mut decided: HashMap<GroupRow, Decided> = HashMap::new();
    let mut results = Vec::with_capacity(ids.len());
    for id in ids {
        let known = tools.shared.catalog(|catalog| {
            let row = catalog.head(*id)?;
            catalog.groups.get(&row).cloned().map(|group| (row, group))
        });
        let Some((row, mut group)) = known else {
            results.push(Decided::Missing);
            continue;
        };
        // A head that is named twice is changed once, and both names hear the same.
        if let Some(before) = decided.get(&row) {
            results.push(before.clone());
            continue;
        }
        let result = match group.change(change, now) {
            Err(why) => Decided::Illegal { status: group.life.status, why },
            Ok(()) => {
                if let Change::Own { .. } = change {
                    own_members(staged, tools, row, (group.owner.clone(), group.owner_by_hand));
                }
                staged.edits.insert(row, Edit::of(&group));
                audit::append(
                    db,
                    &audit::Row::of_group(now, change.deed(), group.id, deed, change.detail()),
                )?;
                Decided::Changed(row)
            }
        };
        decided.insert(row, result.clone());
        results.push(result);
    }
    Ok(results)
}

/// Letters of members are found by the owner of their head.
fn own_members(staged: &mut Staged, tools: &Tools<'_>, head: GroupRow, owner: (Option<String>, bool)) {
    tools.shared.catalog(|catalog| {
        for row in catalog.members(head) {
            if let Some(group) = catalog.groups.get(row) {
                let (owner, owner_by_hand) = owner.clone();
                staged.edits.insert(*row, Edit { owner, owner_by_hand, ..Edit::of(group) });
            }
        }
    });
}

/// Wakes what has slept long enough; returns how many.
pub(super) fn wake(
    db: &Connection,
    staged: &mut Staged,
    tools: &Tools<'_>,
    now: Timestamp,
) -> Result<u64, StoreError> {
    let over = tools.shared.catalog(|catalog| {
        // Members stand where their head stands; what they were before is of no account.
        let heads = catalog.groups.iter().filter(|(_, group)| group.merged_into.is_none());
        let asleep = heads.filter(|(_, group)| group.life.snooze.is_some());
        asleep.map(|(row, group)| (*row, group.id, Edit::of(group))).collect::<Vec<_>>()
    });
    let mut woken = 0;
    for (row, id, mut edit) in over {
        if let Some(deed) = edit.life.wake(now) {
            audit::append(db, &audit::Row::by_office(now, deed, id, None))?;
            staged.edits.insert(row, edit);
            woken += 1;
        }
    }
    Ok(woken)
}

/// Writes what a transaction staged of groups beside their numbers, and the trends.
pub(in super::super) fn flush(db: &Connection, staged: &Staged) -> Result<(), StoreError> {
    for (row, edit) in &staged.edits {
        write_edit(db, *row, edit)?;
    }
    for (id, deed, at) in &staged.deeds {
        audit::append(db, &audit::Row::by_office(*at, *deed, *id, None))?;
    }
    match staged.at {
        Some(now) => trends::write(db, &staged.minutes, now),
        None => Ok(()),
    }
}

fn write_edit(db: &Connection, row: GroupRow, edit: &Edit) -> Result<(), StoreError> {
    let micros = |at: Option<Timestamp>| at.map(Timestamp::as_micros);
    let life = &edit.life;
    db.prepare_cached(
        "UPDATE groups SET status = ?2, since = ?3, resolved_in = ?4, regressed_at = ?5, snooze_until = ?6,
                snooze_letters = ?7, snooze_from = ?8, owner = ?9, owner_by_hand = ?10, assignee = ?11, merged_into = ?12
          WHERE id = ?1",
    )
    .and_then(|mut update| {
        update.execute(params![
            row,
            life.status.number(),
            micros(life.since),
            life.resolved_in,
            micros(life.regressed_at),
            micros(life.snooze.and_then(|snooze| snooze.until)),
            life.snooze.and_then(|snooze| snooze.letters).map(|left| i64::try_from(left).unwrap_or(i64::MAX)),
            life.snooze.map(|snooze| snooze.from.number()),
            edit.owner,
            edit.owner_by_hand,
            edit.assignee,
            edit.merged_into.map(|head| head.0.as_bytes().to_vec()),
        ])
    })
    .map(drop)
    .map_err(read_error)
}
