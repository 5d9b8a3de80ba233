//! Replays on the shared store are being written.
use std::time::Duration;

use async_trait::async_trait;
use dlo_core::id::{LetterId, ReplayId};
use dlo_core::replay::{Item, ItemState, Replay, ReplayState, Settings};
use dlo_core::time::Timestamp;

use super::PostgresStore;
use crate::replays::{
    Claimed, Conclusion, ItemPage, NewReplay, ReplayPage, Replays, Return, Run, SendEnd, Settling, ToSend,
    Turn,
};
use crate::{Deed, NewRepair, Page, Repair, Repaired, StoreError};

fn not_yet<T>() -> Result<T, StoreError> {
    Err(StoreError::Unsupported(
        "replays need the embedded store for now; leave out `server.database`".into(),
    ))
}

#[async_trait]
impl Replays for PostgresStore {
    async fn plan(&self, _plan: NewReplay, _now: Timestamp) -> Result<Replay, StoreError> {
        not_yet()
    }
    async fn replay(&self, _id: ReplayId) -> Result<Replay, StoreError> {
        not_yet()
    }
    async fn children(&self, _id: ReplayId) -> Result<Vec<Replay>, StoreError> {
        not_yet()
    }
    async fn replays(&self, _state: Option<ReplayState>, _page: &Page) -> Result<ReplayPage, StoreError> {
        not_yet()
    }
    async fn active(&self) -> Result<Vec<Replay>, StoreError> {
        not_yet()
    }
    async fn items(
        &self,
        _id: ReplayId,
        _state: Option<ItemState>,
        _page: &Page,
    ) -> Result<ItemPage, StoreError> {
        not_yet()
    }
    async fn turn(
        &self,
        _id: ReplayId,
        _turn: Turn,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Replay, StoreError> {
        not_yet()
    }
    async fn adjust(
        &self,
        _id: ReplayId,
        _settings: Settings,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Replay, StoreError> {
        not_yet()
    }
    async fn approve(&self, _id: ReplayId, _deed: &Deed, _now: Timestamp) -> Result<Replay, StoreError> {
        not_yet()
    }
    async fn claim(&self, _run: &Run<'_>, _most: usize, _now: Timestamp) -> Result<Claimed, StoreError> {
        not_yet()
    }
    async fn intend(&self, _run: &Run<'_>, _most: usize, _now: Timestamp) -> Result<Vec<ToSend>, StoreError> {
        not_yet()
    }
    async fn intend_again(
        &self,
        _run: &Run<'_>,
        _numbers: &[u64],
        _now: Timestamp,
    ) -> Result<Vec<ToSend>, StoreError> {
        not_yet()
    }
    async fn record(
        &self,
        _run: &Run<'_>,
        _ends: Vec<(u64, SendEnd)>,
        _now: Timestamp,
    ) -> Result<(), StoreError> {
        not_yet()
    }
    async fn doubt(&self, _run: &Run<'_>, _now: Timestamp) -> Result<u64, StoreError> {
        not_yet()
    }
    async fn settle(
        &self,
        _id: ReplayId,
        _numbers: &[u64],
        _how: Settling,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<u64, StoreError> {
        not_yet()
    }
    async fn mark(&self, _run: &Run<'_>, _mark: String, _now: Timestamp) -> Result<(), StoreError> {
        not_yet()
    }
    async fn marked(&self, _id: ReplayId) -> Result<Option<String>, StoreError> {
        not_yet()
    }
    async fn waiting(
        &self,
        _id: ReplayId,
        _before: Timestamp,
        _most: usize,
    ) -> Result<Vec<Item>, StoreError> {
        not_yet()
    }
    async fn returns(
        &self,
        _id: ReplayId,
        _since: Timestamp,
        _most: usize,
    ) -> Result<Vec<Return>, StoreError> {
        not_yet()
    }
    async fn conclude(
        &self,
        _run: &Run<'_>,
        _numbers: &[u64],
        _how: Conclusion,
        _now: Timestamp,
    ) -> Result<u64, StoreError> {
        not_yet()
    }
    async fn give_back(&self, _run: &Run<'_>, _most: usize, _now: Timestamp) -> Result<u64, StoreError> {
        not_yet()
    }
    async fn receipts(
        &self,
        _receipts: &[(ReplayId, u64)],
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Vec<bool>, StoreError> {
        not_yet()
    }
    async fn usual_death(&self, _id: ReplayId) -> Result<Option<Duration>, StoreError> {
        not_yet()
    }
    async fn repair_many(
        &self,
        _repairs: Vec<(LetterId, NewRepair)>,
        _deed: &Deed,
        _now: Timestamp,
    ) -> Result<Vec<Repaired>, StoreError> {
        not_yet()
    }
    async fn repairs(&self, _letter: LetterId) -> Result<Vec<Repair>, StoreError> {
        not_yet()
    }
}
