//! What `[brokers.<name>]` may say of a database whose tables are dead-letter queues, and which settings cannot work.
//!
//! Names of tables and columns are quoted by us. `pending` and `mark` are SQL, run as written: they are trusted as the
//! rest of the configuration is.

use std::collections::BTreeMap;

use dlo_core::broker::BrokerError;
use serde::Deserialize;

use crate::secret::Secret;
use crate::tls::TlsConfig;

/// How a PostgreSQL is reached, and which of its tables are queues.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SqlConfig {
    /// `postgres://user:password@host:5432/name`.
    pub url: Secret,
    #[serde(default)]
    pub tls: TlsConfig,
    /// The queues, by name.
    pub tables: BTreeMap<String, TableConfig>,
}

/// One table as a queue.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableConfig {
    /// `dead_letters` or `schema.dead_letters`.
    pub table: String,
    /// The column that names a row; unique. Rows are taken in its order.
    pub id: String,
    /// The column with the body: `bytea` as it is, everything else as its text.
    pub payload: String,
    #[serde(default)]
    pub key: Option<String>,
    /// Columns that become headers of the same name, as text.
    #[serde(default)]
    pub headers: Vec<String>,
    /// When the message died: a date or a timestamp.
    #[serde(default)]
    pub at: Option<String>,
    /// The condition, in SQL, under which a row waits to be captured. Without it every row does.
    #[serde(default)]
    pub pending: Option<String>,
    /// What is `SET`, in SQL, once a row is captured; afterwards `pending` must no longer hold.
    #[serde(default)]
    pub mark: Option<String>,
    /// Rows are deleted once they are captured.
    #[serde(default)]
    pub delete: bool,
}

impl TableConfig {
    /// The columns that must be there, each with its setting.
    pub(super) fn columns(&self) -> impl Iterator<Item = (&'static str, &str)> {
        [("id", self.id.as_str()), ("payload", self.payload.as_str())]
            .into_iter()
            .chain(self.key.as_deref().map(|column| ("key", column)))
            .chain(self.at.as_deref().map(|column| ("at", column)))
            .chain(self.headers.iter().map(|column| ("headers", column.as_str())))
    }

    fn check(&self, queue: &str) -> Result<(), BrokerError> {
        let refused = |why: &str| Err(BrokerError::Refused(format!("`tables.{queue}`: {why}")));
        if self.table.split('.').count() > 2 {
            return refused("`table` is the name of a table, or `schema.table`");
        }
        if self.table.split('.').any(str::is_empty) || self.columns().any(|(_, column)| column.is_empty()) {
            return refused("names of tables and columns must not be empty");
        }
        match (&self.mark, self.delete, &self.pending) {
            (None, false, _) => refused("say what becomes of captured rows: `mark`, or `delete = true`"),
            (Some(_), true, _) => refused("`mark` and `delete = true` exclude each other"),
            (Some(_), false, None) => refused("`mark` needs `pending`, the condition that it ends"),
            (Some(_), false, Some(_)) | (None, true, _) => Ok(()),
        }
    }
}

impl SqlConfig {
    /// Refuses what can never work, naming the setting.
    pub(super) fn check(&self) -> Result<(), BrokerError> {
        self.tables.iter().try_for_each(|(queue, table)| table.check(queue))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(more: &str) -> Result<(), String> {
        let text = format!("table = \"dead\"\nid = \"id\"\npayload = \"body\"\n{more}");
        let table: TableConfig = toml::from_str(&text).map_err(|refusal| refusal.message().to_owned())?;
        table.check("orders").map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn what_becomes_of_captured_rows_must_be_said_once() {
        table("delete = true").unwrap();
        table("pending = \"taken IS NULL\"\nmark = \"taken = now()\"").unwrap();
        assert!(table("").unwrap_err().contains("delete = true"));
        assert!(table("mark = \"taken = now()\"").unwrap_err().contains("`pending`"));
        assert!(table("mark = \"taken = now()\"\ndelete = true").unwrap_err().contains("exclude"));
        assert!(table("delet = true").unwrap_err().contains("delet"));
    }

    #[test]
    fn the_url_is_never_shown() {
        let config: SqlConfig = toml::from_str("url = \"postgres://me:hunter2@x/db\"\ntables = {}").unwrap();
        assert!(!format!("{config:?}").contains("hunter2"));
    }
}
