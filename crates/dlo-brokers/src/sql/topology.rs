//! What should be there for one table: itself, its columns, the rights of our user, an index for what is pending.
//!
//! The table belongs to the application, so nothing is created or changed: the plan holds the SQL, `apply` only repeats it.

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{BrokerError, Gravity, Topology, TopologyChange, TopologySpec};
use tokio_postgres::Client;

use super::Tables;
use super::config::TableConfig;
use super::connection::{Connector, answer};
use super::table::{absent, columns, faults, name, quoted};

const RIGHT: &str = "SELECT has_any_column_privilege(to_regclass($1)::oid, $2)";
const RIGHT_TO_DELETE: &str = "SELECT has_table_privilege(to_regclass($1)::oid, $2)";
/// Whether an index begins with the id and, where `$3`, holds a part of the rows only.
const INDEX: &str = "SELECT EXISTS (SELECT FROM pg_index JOIN pg_attribute ON attrelid = indrelid \
    AND attnum = indkey[0] WHERE indrelid = to_regclass($1)::oid AND indisvalid AND attname = $2 \
    AND (indpred IS NOT NULL) = $3)";

#[derive(Debug)]
pub(super) struct SqlTopology {
    pub(super) connector: Arc<Connector>,
    pub(super) tables: Arc<Tables>,
}

#[async_trait]
impl Topology for SqlTopology {
    async fn plan(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        let Ok(table) = self.tables.get(&spec.dlq) else {
            return Ok(vec![missing(format!("no table is named for `{0}`: add `tables.{0}`", spec.dlq))]);
        };
        let client = self.connector.open().await?;
        let Some(there) = columns(&client, table).await? else {
            return Ok(vec![missing(absent(&spec.dlq, table))]);
        };
        let mut plan: Vec<TopologyChange> =
            faults(&spec.dlq, table, &there).into_iter().map(missing).collect();
        plan.extend(self.rights(&client, table).await?);
        if there.contains_key(&table.id) {
            plan.extend(index(&client, table).await?);
        }
        Ok(plan)
    }

    async fn apply(&self, spec: &TopologySpec) -> Result<Vec<TopologyChange>, BrokerError> {
        self.plan(spec).await
    }
}

impl SqlTopology {
    async fn rights(&self, client: &Client, table: &TableConfig) -> Result<Vec<TopologyChange>, BrokerError> {
        // To lock a row takes the right to update it.
        let mut needed = vec![(RIGHT, "SELECT"), (RIGHT, "UPDATE")];
        if table.delete {
            needed.push((RIGHT_TO_DELETE, "DELETE"));
        }
        let mut plan = Vec::new();
        for (question, right) in needed {
            let row = answer(client.query_one(question, &[&name(table), &right]), &table.table).await?;
            if !row.get::<_, bool>(0) {
                let user = self.connector.user();
                let grant = format!("GRANT {right} ON {} TO {}", name(table), quoted(user));
                plan.push(missing(format!("`{user}` has no right to {right} `{}`", table.table)).by(grant));
            }
        }
        Ok(plan)
    }
}

async fn index(client: &Client, table: &TableConfig) -> Result<Option<TopologyChange>, BrokerError> {
    let (from, partial) = (name(table), table.pending.is_some());
    let known = answer(client.query_one(INDEX, &[&from, &table.id, &partial]), &table.table).await?;
    if known.get(0) {
        return Ok(None);
    }
    let condition = table.pending.as_ref().map(|pending| format!(" WHERE {pending}")).unwrap_or_default();
    let create = format!("CREATE INDEX CONCURRENTLY ON {} ({}){condition}", name(table), quoted(&table.id));
    let what = format!("`{}` has no index for the rows that wait: each look scans the table", table.table);
    Ok(Some(TopologyChange::warn(what).by(create)))
}

fn missing(what: String) -> TopologyChange {
    TopologyChange { what, gravity: Gravity::Missing, appliable: false, command: None }
}
