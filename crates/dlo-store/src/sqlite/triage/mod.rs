//! Triage in the embedded store. Groups are answered from the catalog; what people wrote and the trends from the database.

use async_trait::async_trait;
use dlo_core::deploy::{Deploy, NewDeploy};
use dlo_core::group::{Change, Group, Similar, similar};
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use dlo_core::trend::Window;
use dlo_core::view::{View, ViewOf};

use super::catalog::{Catalog, GroupRow};
use super::writer::Shared;
use super::{SqliteStore, audit, groups};
use crate::triage::{
    AgeCount, Changed, ClassTrend, GroupTally, Link, NewLink, NewView, Note, Runbook, Sampled, Triage,
};
use crate::{AuditEntry, Deed, Page, StoreError};

mod ages;
mod beside;
mod changes;
mod deploys;
mod family;
mod readable;
mod runbooks;
mod sample;
mod trends;
mod verify;
mod views;

pub(super) use changes::flush;
pub(super) use family::merge;
pub(super) use readable::read_all;
pub(super) use verify::problems;

/// The head that speaks for a group.
fn head(shared: &Shared, id: GroupId) -> Result<GroupRow, StoreError> {
    shared.catalog(|catalog| catalog.head(id)).ok_or(StoreError::NoGroup(id))
}

/// The head with its members, each with the id it goes by.
fn family(shared: &Shared, id: GroupId) -> Result<Vec<(GroupRow, GroupId)>, StoreError> {
    let named = |catalog: &Catalog| {
        let rows = catalog.family(catalog.head(id)?);
        Some(
            rows.into_iter()
                .filter_map(|row| catalog.groups.get(&row).map(|group| (row, group.id)))
                .collect(),
        )
    };
    shared.catalog(named).ok_or(StoreError::NoGroup(id))
}

fn bounded(ids: &[GroupId]) -> Result<(), StoreError> {
    if ids.len() > Page::MOST {
        return Err(StoreError::Unsupported(format!("at most {} groups at once", Page::MOST)));
    }
    Ok(())
}

#[async_trait]
impl Triage for SqliteStore {
    async fn change_groups(
        &self,
        ids: &[GroupId],
        change: &Change,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Vec<Changed>, StoreError> {
        bounded(ids)?;
        let (ids, change, deed) = (ids.to_vec(), change.clone(), deed.clone());
        let decided = self
            .write(move |writer| {
                writer.transact(|db, staged, tools| {
                    changes::change(db, staged, tools, &ids, &change, &deed, now)
                })
            })
            .await?;
        // Shown as it stands behind the commit.
        Ok(decided.into_iter().map(|decided| changes::shown(&self.shared, decided)).collect())
    }

    async fn tend_groups(&self, now: Timestamp) -> Result<u64, StoreError> {
        self.write(move |writer| writer.transact(|db, staged, tools| changes::wake(db, staged, tools, now)))
            .await
    }

    async fn forget_trends(&self, now: Timestamp) -> Result<(), StoreError> {
        let mut rows = self.shared.catalog(|catalog| catalog.groups.keys().copied().collect::<Vec<_>>());
        while !rows.is_empty() {
            let chunk = rows.split_off(rows.len().saturating_sub(trends::PRUNED));
            self.write(move |writer| writer.transact(|db, _, _| trends::prune(db, &chunk, now))).await?;
        }
        Ok(())
    }

    async fn tally_groups(&self, assignee: Option<&str>) -> Result<GroupTally, StoreError> {
        Ok(self.shared.catalog(|catalog| {
            let mut tally = GroupTally::default();
            for (row, group) in catalog.groups.iter().filter(|(_, group)| group.merged_into.is_none()) {
                match catalog.members(*row) {
                    [] => tally.add(group, assignee),
                    _ => catalog.shown(*row).iter().for_each(|whole| tally.add(whole, assignee)),
                }
            }
            tally
        }))
    }

    async fn oldest_open(&self, ids: &[GroupId]) -> Result<Vec<Option<Timestamp>>, StoreError> {
        bounded(ids)?;
        let ids = ids.to_vec();
        self.readers
            .read(move |db, shared| {
                let oldest = |id: &GroupId| {
                    let rows = family(shared, *id).unwrap_or_default();
                    rows.iter().try_fold(None, |oldest: Option<Timestamp>, (row, _)| {
                        let found = groups::oldest_open(db, *row)?;
                        Ok(oldest.into_iter().chain(found).min())
                    })
                };
                ids.iter().map(oldest).collect()
            })
            .await
    }

    async fn similar_groups(&self, id: GroupId) -> Result<Vec<(Group, Similar)>, StoreError> {
        self.readers
            .read(move |_, shared| {
                // Copied, so that capture does not wait for the catalog while every template is compared.
                let (asked, heads) = shared.catalog(|catalog| {
                    let asked = catalog.head(id).and_then(|row| catalog.groups.get(&row)).cloned();
                    let heads = catalog.groups.values().filter(|group| group.merged_into.is_none());
                    (asked, heads.cloned().collect::<Vec<Group>>())
                });
                let found = similar(&asked.ok_or(StoreError::NoGroup(id))?, &heads);
                Ok(shared.catalog(|catalog| {
                    let shown = |like: Similar| Some((catalog.shown(catalog.row(like.id)?)?, like));
                    found.into_iter().filter_map(shown).collect()
                }))
            })
            .await
    }

    async fn group_history(&self, id: GroupId, most: usize) -> Result<Vec<AuditEntry>, StoreError> {
        self.readers
            .read(move |db, shared| {
                let ids: Vec<GroupId> = family(shared, id)?.into_iter().map(|(_, id)| id).collect();
                audit::of_groups(db, &ids, most.min(Page::MOST))
            })
            .await
    }

    async fn add_note(
        &self,
        id: GroupId,
        text: &str,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Note, StoreError> {
        let (text, deed) = (crate::triage::bounded_note(text)?.to_string(), deed.clone());
        self.write(move |writer| {
            writer.transact(|db, _, tools| beside::add_note(db, tools.shared, id, &text, &deed, now))
        })
        .await
    }

    async fn notes(&self, id: GroupId) -> Result<Vec<Note>, StoreError> {
        self.readers.read(move |db, shared| beside::notes(db, &family(shared, id)?)).await
    }

    async fn add_link(
        &self,
        id: GroupId,
        link: &NewLink,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Link, StoreError> {
        let (link, deed) = (crate::triage::bounded_link(link)?, deed.clone());
        self.write(move |writer| {
            writer.transact(|db, _, tools| beside::add_link(db, tools.shared, id, link, &deed, now))
        })
        .await
    }

    async fn remove_link(
        &self,
        id: GroupId,
        number: i64,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let deed = deed.clone();
        self.write(move |writer| {
            writer.transact(|db, _, tools| beside::remove_link(db, tools.shared, (id, number), &deed, now))
        })
        .await
    }

    async fn links(&self, id: GroupId) -> Result<Vec<Link>, StoreError> {
        self.readers.read(move |db, shared| beside::links(db, &family(shared, id)?)).await
    }

    async fn runbook(&self, id: GroupId) -> Result<Option<Runbook>, StoreError> {
        self.readers.read(move |db, shared| runbooks::read(db, &family(shared, id)?)).await
    }

    async fn write_runbook(
        &self,
        id: GroupId,
        text: &str,
        known: i64,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Runbook, StoreError> {
        crate::triage::bounded_runbook(text)?;
        let (text, deed) = (text.to_string(), deed.clone());
        self.write(move |writer| {
            writer.transact(|db, _, tools| {
                runbooks::write(db, &family(tools.shared, id)?, (&text, known), &deed, now)
            })
        })
        .await
    }

    async fn merge_groups(
        &self,
        head: GroupId,
        members: &[GroupId],
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Group, StoreError> {
        bounded(members)?;
        let (members, deed) = (members.to_vec(), deed.clone());
        self.write(move |writer| {
            writer
                .transact(|db, staged, tools| family::merge(db, staged, tools, (head, &members), &deed, now))
        })
        .await?;
        groups::one(&self.shared, head)
    }

    async fn split_group(&self, member: GroupId, deed: &Deed, now: Timestamp) -> Result<Group, StoreError> {
        let deed = deed.clone();
        self.write(move |writer| {
            writer.transact(|db, staged, tools| family::split(db, staged, tools, member, &deed, now))
        })
        .await?;
        groups::one(&self.shared, member)
    }

    async fn members(&self, head: GroupId) -> Result<Vec<Group>, StoreError> {
        family::members(&self.shared, head)
    }

    async fn trends(&self, ids: &[GroupId], window: Window) -> Result<Vec<Vec<u64>>, StoreError> {
        bounded(ids)?;
        let ids = ids.to_vec();
        self.readers
            .read(move |db, shared| ids.iter().map(|id| trends::of_group(db, shared, *id, window)).collect())
            .await
    }

    async fn trend_by_class(
        &self,
        source: Option<&str>,
        window: Window,
    ) -> Result<Vec<ClassTrend>, StoreError> {
        let source = source.map(String::from);
        self.readers.read(move |db, shared| trends::by_class(db, shared, source.as_deref(), window)).await
    }

    async fn open_ages(&self, now: Timestamp) -> Result<Vec<AgeCount>, StoreError> {
        self.readers.read_long(move |db, _| ages::open_ages(db, now)).await
    }

    async fn mark_deploy(
        &self,
        what: &NewDeploy,
        at: Timestamp,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Deploy, StoreError> {
        let (what, deed) = (what.clone(), deed.clone());
        self.write(move |writer| writer.transact(|db, _, _| deploys::mark(db, what, at, &deed, now))).await
    }

    async fn deploys(
        &self,
        from: Option<Timestamp>,
        until: Option<Timestamp>,
        most: usize,
    ) -> Result<Vec<Deploy>, StoreError> {
        self.readers.read(move |db, _| deploys::list(db, from, until, most)).await
    }

    async fn save_view(&self, view: &NewView, deed: &Deed, now: Timestamp) -> Result<View, StoreError> {
        let (view, deed) = (view.clone(), deed.clone());
        self.write(move |writer| writer.transact(|db, _, _| views::save(db, view, &deed, now))).await
    }

    async fn views(&self, person: Option<&str>) -> Result<Vec<View>, StoreError> {
        let person = person.map(String::from);
        self.readers.read(move |db, _| views::list(db, person.as_deref())).await
    }

    async fn remove_view(
        &self,
        name: &str,
        of: ViewOf,
        owner: Option<&str>,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (name, owner, deed) = (name.to_string(), owner.map(String::from), deed.clone());
        self.write(move |writer| {
            writer.transact(|db, _, _| views::remove(db, &name, of, owner.as_deref(), &deed, now))
        })
        .await
    }

    async fn sample(&self, id: GroupId, most: usize) -> Result<Vec<Sampled>, StoreError> {
        self.readers
            .read(move |db, shared| sample::sample(db, shared, head(shared, id).map(|_| id)?, most))
            .await
    }
}
