//! A look at a table: how many rows wait, and since when.
//!
//! Counted up to [`COUNTED`] rows: a count of a large table is a scan, and somebody else's database pays for it.

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Inspect, QueueState};
use dlo_core::time::Timestamp;

use super::Tables;
use super::connection::{Connector, answer};
use super::table::{micros, name, pending};

/// A larger depth is told as this one, and without the oldest row.
pub(super) const COUNTED: i64 = 100_000;

#[derive(Debug)]
pub(super) struct SqlInspector {
    pub(super) connector: Arc<Connector>,
    pub(super) tables: Arc<Tables>,
}

#[async_trait]
impl Inspect for SqlInspector {
    async fn inspect(&self, queue: &str, _group: Option<&str>) -> Result<QueueState, BrokerError> {
        let table = self.tables.get(queue)?;
        let client = self.connector.open().await?;
        let at = table.at.as_deref().map_or_else(|| "NULL::bigint".to_owned(), micros);
        let count = format!(
            "SELECT count(*), min(at) FROM (SELECT {at} AS at FROM {} WHERE ({}) LIMIT {COUNTED}) AS waiting",
            name(table),
            pending(table)
        );
        let row = answer(client.query_one(&count, &[]), &table.table).await?;
        let (depth, oldest): (i64, Option<i64>) = (row.get(0), row.get(1));
        Ok(QueueState {
            depth: u64::try_from(depth).ok(),
            oldest: oldest.filter(|_| depth < COUNTED).map(Timestamp::from_micros),
            ..QueueState::default()
        })
    }
}
