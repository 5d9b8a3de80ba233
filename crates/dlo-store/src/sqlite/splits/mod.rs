//! Splits by a condition in the embedded store. Conditions are in the catalog, so that the writer asks no table for them.
//!
//! `make.rs` makes and forgets them, `sort.rs` holds letters against them that arrive, `moving.rs` those that are here.

use async_trait::async_trait;
use dlo_core::group::Group;
use dlo_core::id::GroupId;
use dlo_core::time::Timestamp;

use super::{SqliteStore, groups};
use crate::triage::{NewSplit, Split, Splits};
use crate::{Deed, StoreError};

mod make;
mod moving;
mod sort;

pub(super) use make::list;
pub(super) use sort::{sort_again, sort_new};

#[async_trait]
impl Splits for SqliteStore {
    async fn split_by(
        &self,
        id: GroupId,
        split: &NewSplit,
        deed: &Deed,
        now: Timestamp,
    ) -> Result<Group, StoreError> {
        let (split, deed) = (split.clone(), deed.clone());
        let made = self
            .write(move |writer| {
                writer.transact(|db, staged, tools| make::split(db, staged, tools, (id, &split), &deed, now))
            })
            .await?;
        groups::one(&self.shared, made)
    }

    async fn unsplit(&self, split: GroupId, deed: &Deed, now: Timestamp) -> Result<Group, StoreError> {
        let deed = deed.clone();
        self.write(move |writer| {
            writer.transact(|db, staged, tools| make::unsplit(db, staged, tools, split, &deed, now))
        })
        .await?;
        groups::one(&self.shared, split)
    }

    async fn splits(&self, id: GroupId) -> Result<Vec<Split>, StoreError> {
        self.readers.read(move |db, shared| make::list(db, shared, id)).await
    }

    async fn move_split_letters(&self, now: Timestamp) -> Result<bool, StoreError> {
        self.write(move |writer| {
            writer.transact(|db, staged, tools| moving::batch(db, staged, tools.shared, now))
        })
        .await
    }
}
