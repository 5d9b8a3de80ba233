//! A database table, `kind = "sql"`: an application's own dead letters in PostgreSQL.
//!
//! Rows are locked in an open transaction while they are captured (`FOR UPDATE SKIP LOCKED`), then marked or deleted
//! as the settings say. There is no position to keep, so rows that commit late are not missed and several offices share
//! a table. Tables are only captured: publishing, looking and positions are refused with what to do instead.

mod batch;
mod config;
mod connection;
mod errors;
mod inspect;
mod publisher;
mod source;
mod table;
mod topology;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{
    Broker, BrokerError, Capabilities, HeaderRules, Inspect, LostConfirm, Order, Position, Publisher, Reader,
    Seen, Source, Topology,
};
use dlo_core::origin::{BrokerKind, Origin};

pub use config::{SqlConfig, TableConfig};
use connection::{Connector, answer};
use inspect::SqlInspector;
use publisher::SqlPublisher;
use source::SqlSource;
use topology::SqlTopology;

const NOT_FREE: &str = "a table has no positions, since rows may commit in another order than their ids; use mode `drain` \
    with `mark`, which leaves the rows where they are";
/// The largest value of a column in PostgreSQL.
const LARGEST_VALUE: usize = 1 << 30;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &SqlConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    config.check()?;
    Ok(Arc::new(SqlBroker {
        connector: Arc::new(Connector::new(config)?),
        capabilities: Arc::new(capabilities()),
        tables: Arc::new(Tables(config.tables.clone())),
    }))
}

fn capabilities() -> Capabilities {
    Capabilities {
        kind: BrokerKind::Sql,
        order: Order::None,
        groups: false,
        delivery_count: false,
        delay: None,
        delayed_publish: None,
        again_carries: false,
        waiting_keeps_order: false,
        looking_is_free: false,
        drain_removes: true,
        offsets: false,
        cumulative_ack: false,
        dedupe_window: None,
        lost_confirm: LostConfirm::Unknown,
        headers: HeaderRules {
            binary_values: false,
            repeated_names: false,
            absent_values: true,
            keeps_order: true,
        },
        max_message: LARGEST_VALUE,
    }
}

/// The tables that are queues, by the queue's name.
#[derive(Debug)]
struct Tables(BTreeMap<String, TableConfig>);

impl Tables {
    fn get(&self, queue: &str) -> Result<&TableConfig, BrokerError> {
        self.0.get(queue).ok_or_else(|| BrokerError::Missing(queue.to_owned()))
    }
}

#[derive(Debug)]
struct SqlBroker {
    connector: Arc<Connector>,
    capabilities: Arc<Capabilities>,
    tables: Arc<Tables>,
}

#[async_trait]
impl Broker for SqlBroker {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn ping(&self) -> Result<Option<String>, BrokerError> {
        let client = self.connector.open().await?;
        let row = answer(client.query_one("SELECT current_setting('server_version')", &[]), "ping").await?;
        Ok(Some(format!("PostgreSQL {}", row.get::<_, String>(0))))
    }

    async fn source(&self, queue: &str, _group: &str) -> Result<Box<dyn Source>, BrokerError> {
        let table = self.tables.get(queue)?;
        Ok(Box::new(SqlSource::join(&self.connector, &self.capabilities, queue, table).await?))
    }

    async fn partitions(&self, queue: &str) -> Result<Vec<i32>, BrokerError> {
        self.tables.get(queue).map(|_| vec![0])
    }

    async fn reader(
        &self,
        _queue: &str,
        _partition: i32,
        _from: Option<&Position>,
    ) -> Result<Box<dyn Reader>, BrokerError> {
        Err(BrokerError::Refused(NOT_FREE.to_owned()))
    }

    async fn fetch(&self, _origin: &Origin) -> Result<Option<Seen>, BrokerError> {
        Err(BrokerError::Refused(NOT_FREE.to_owned()))
    }

    fn publisher(&self) -> Arc<dyn Publisher> {
        Arc::new(SqlPublisher { capabilities: Arc::clone(&self.capabilities) })
    }

    fn inspector(&self) -> Arc<dyn Inspect> {
        Arc::new(SqlInspector { connector: Arc::clone(&self.connector), tables: Arc::clone(&self.tables) })
    }

    fn topology(&self) -> Arc<dyn Topology> {
        Arc::new(SqlTopology { connector: Arc::clone(&self.connector), tables: Arc::clone(&self.tables) })
    }
}
