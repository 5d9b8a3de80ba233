//! Triage in the shared store.

use async_trait::async_trait;
use dlo_core::deploy::{Deploy, NewDeploy};
use dlo_core::group::{Change, Group, Similar};
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;
use dlo_core::trend::Window;
use dlo_core::view::{View, ViewOf};

use super::PostgresStore;
use crate::triage::{
    AgeCount, Changed, ClassTrend, GroupTally, Link, NewLink, NewView, Note, Runbook, Sampled, Triage,
};
use crate::{AuditEntry, Deed, StoreError};

fn later() -> StoreError {
    StoreError::Unsupported("not kept in PostgreSQL yet".into())
}

#[async_trait]
impl Triage for PostgresStore {
    async fn change_groups(
        &self,
        _ids: &[GroupId],
        _change: &Change,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Vec<Changed>, StoreError> {
        Err(later())
    }

    async fn tend_groups(&self, _now: Timestamp) -> Result<u64, StoreError> {
        Err(later())
    }

    async fn tally_groups(&self, _assignee: Option<&str>) -> Result<GroupTally, StoreError> {
        Err(later())
    }

    async fn oldest_open(&self, _ids: &[GroupId]) -> Result<Vec<Option<Timestamp>>, StoreError> {
        Err(later())
    }

    async fn similar_groups(&self, _id: GroupId) -> Result<Vec<(Group, Similar)>, StoreError> {
        Err(later())
    }

    async fn group_history(&self, _id: GroupId, _most: usize) -> Result<Vec<AuditEntry>, StoreError> {
        Err(later())
    }

    async fn add_note(
        &self,
        _id: GroupId,
        _text: &str,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Note, StoreError> {
        Err(later())
    }

    async fn notes(&self, _id: GroupId) -> Result<Vec<Note>, StoreError> {
        Err(later())
    }

    async fn add_link(
        &self,
        _id: GroupId,
        _link: &NewLink,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Link, StoreError> {
        Err(later())
    }

    async fn remove_link(
        &self,
        _id: GroupId,
        _number: i64,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<bool, StoreError> {
        Err(later())
    }

    async fn links(&self, _id: GroupId) -> Result<Vec<Link>, StoreError> {
        Err(later())
    }

    async fn runbook(&self, _id: GroupId) -> Result<Option<Runbook>, StoreError> {
        Err(later())
    }

    async fn write_runbook(
        &self,
        _id: GroupId,
        _text: &str,
        _known: i64,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Runbook, StoreError> {
        Err(later())
    }

    async fn merge_groups(
        &self,
        _head: GroupId,
        _members: &[GroupId],
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Group, StoreError> {
        Err(later())
    }

    async fn split_group(
        &self,
        _member: GroupId,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Group, StoreError> {
        Err(later())
    }

    async fn members(&self, _head: GroupId) -> Result<Vec<Group>, StoreError> {
        Err(later())
    }

    async fn trends(&self, _ids: &[GroupId], _window: Window) -> Result<Vec<Vec<u64>>, StoreError> {
        Err(later())
    }

    async fn trend_by_class(
        &self,
        _source: Option<&str>,
        _window: Window,
    ) -> Result<Vec<ClassTrend>, StoreError> {
        Err(later())
    }

    async fn open_ages(&self, _now: Timestamp) -> Result<Vec<AgeCount>, StoreError> {
        Err(later())
    }

    async fn mark_deploy(
        &self,
        _what: &NewDeploy,
        _at: Timestamp,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Deploy, StoreError> {
        Err(later())
    }

    async fn deploys(
        &self,
        _from: Option<Timestamp>,
        _until: Option<Timestamp>,
        _most: usize,
    ) -> Result<Vec<Deploy>, StoreError> {
        Err(later())
    }

    async fn save_view(&self, _view: &NewView, _deed: &Deed, _now: Timestamp) -> Result<View, StoreError> {
        Err(later())
    }

    async fn views(&self, _person: Option<&str>) -> Result<Vec<View>, StoreError> {
        Err(later())
    }

    async fn remove_view(
        &self,
        _name: &str,
        _of: ViewOf,
        _owner: Option<&str>,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<bool, StoreError> {
        Err(later())
    }

    async fn sample(&self, _id: GroupId, _most: usize) -> Result<Vec<Sampled>, StoreError> {
        Err(later())
    }
}
