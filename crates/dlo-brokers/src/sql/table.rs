//! One table as a queue: what is there by the server's catalogue, and the statements made of it.
//!
//! Rows are named by the text of their id on our side, and compared in the column's own type on the server's, so that
//! its index is used.

use std::collections::BTreeMap;

use dlo_core::broker::BrokerError;
use tokio_postgres::Client;

use super::config::TableConfig;
use super::connection::answer;

const COLUMNS: &str = "SELECT attname::text, format_type(atttypid, -1) FROM pg_attribute \
    WHERE attrelid = to_regclass($1)::oid AND attnum > 0 AND NOT attisdropped";

/// The columns of a table with their types; `None` where there is no such table.
pub(super) async fn columns(
    client: &Client,
    table: &TableConfig,
) -> Result<Option<BTreeMap<String, String>>, BrokerError> {
    let rows = answer(client.query(COLUMNS, &[&name(table)]), &table.table).await?;
    let columns: BTreeMap<String, String> = rows.iter().map(|row| (row.get(0), row.get(1))).collect();
    Ok((!columns.is_empty()).then_some(columns))
}

/// What is wrong with the columns, each with what to do.
pub(super) fn faults(queue: &str, table: &TableConfig, there: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (setting, column) in table.columns() {
        match there.get(column) {
            None => faults.push(format!(
                "table `{}` has no column `{column}`: add it, or correct `tables.{queue}.{setting}`",
                table.table
            )),
            Some(kind) if setting == "at" && !(kind.starts_with("timestamp") || kind == "date") => {
                faults.push(format!(
                    "column `{column}` is {kind}: `tables.{queue}.at` must name a date or a timestamp"
                ));
            }
            Some(_) => {}
        }
    }
    faults
}

pub(super) fn absent(queue: &str, table: &TableConfig) -> String {
    format!(
        "there is no table `{}`, or no right to its schema: create it, or correct `tables.{queue}.table`",
        table.table
    )
}

/// The statements of a queue.
#[derive(Debug, Clone)]
pub(super) struct Statements {
    /// Locks up to `$1` rows that nobody else has.
    pub(super) take: String,
    /// Ends the rows `$1`; returns for each whether it is pending still.
    pub(super) end: String,
    /// Locks those of the rows `$1` that nobody else has by now.
    pub(super) keep: String,
}

impl Statements {
    pub(super) fn new(table: &TableConfig, there: &BTreeMap<String, String>) -> Self {
        let kind = |column: &str| there.get(column).map_or("text", String::as_str);
        let bytes = |column: &str| match kind(column) {
            "bytea" => quoted(column),
            _ => format!("convert_to({}::text, 'UTF8')", quoted(column)),
        };
        let (from, id, pending) = (name(table), quoted(&table.id), pending(table));
        let key = table.key.as_deref().map_or_else(|| "NULL::bytea".to_owned(), bytes);
        let at = table.at.as_deref().map_or_else(|| "NULL::bigint".to_owned(), micros);
        let mut columns = vec![format!("{id}::text"), bytes(&table.payload), key, at];
        columns.extend(table.headers.iter().map(|column| format!("{}::text", quoted(column))));
        let these = format!("{id} = ANY($1::text[]::{}[])", kind(&table.id));
        let end = match &table.mark {
            Some(mark) => format!("UPDATE {from} SET {mark} WHERE {these} RETURNING ({pending}) IS TRUE"),
            None => format!("DELETE FROM {from} WHERE {these} RETURNING false"),
        };
        Self {
            take: format!(
                "SELECT {} FROM {from} WHERE ({pending}) ORDER BY {id} LIMIT $1 FOR UPDATE SKIP LOCKED",
                columns.join(", ")
            ),
            end,
            keep: format!(
                "SELECT {id}::text FROM {from} WHERE {these} AND ({pending}) FOR UPDATE SKIP LOCKED"
            ),
        }
    }
}

/// A moment as microseconds; infinity, which SQL knows and calendars do not, as none.
pub(super) fn micros(column: &str) -> String {
    let column = quoted(column);
    format!("CASE WHEN isfinite({column}) THEN (extract(epoch FROM {column}) * 1000000)::bigint END")
}

pub(super) fn pending(table: &TableConfig) -> &str {
    table.pending.as_deref().unwrap_or("true")
}

/// The table's name for statements, each part quoted.
pub(super) fn name(table: &TableConfig) -> String {
    table.table.split('.').map(quoted).collect::<Vec<_>>().join(".")
}

pub(super) fn quoted(identifier: &str) -> String {
    format!("\"{}\"", identifier.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_leave_its_quotes() {
        assert_eq!(quoted("a\"; DROP TABLE b"), "\"a\"\"; DROP TABLE b\"");
    }
}
