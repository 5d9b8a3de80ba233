//! Every value has the type of its column. SQLite keeps any value in any column, and a page that reads text where a number
//! is declared fails.

use rusqlite::Connection;
use rusqlite::types::{Type, ValueRef};

use super::super::read_error;
use super::refused;
use crate::StoreError;

struct Column {
    name: String,
    declared: String,
    required: bool,
}

pub(super) fn check(db: &Connection) -> Result<(), StoreError> {
    // The tables of the token index belong to FTS5; the integrity check reads them.
    let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let tables: Vec<String> = db
        .prepare(sql)
        .and_then(|mut list| list.query_map([], |row| row.get(0))?.collect())
        .map_err(read_error)?;
    tables.iter().try_for_each(|table| check_table(db, table))
}

/// The names come from the schema, which is the office's own by now.
fn check_table(db: &Connection, table: &str) -> Result<(), StoreError> {
    let columns = columns(db, table).map_err(read_error)?;
    let mut statement = db.prepare(&format!("SELECT * FROM \"{table}\"")).map_err(read_error)?;
    let mut rows = statement.query([]).map_err(read_error)?;
    while let Some(row) = rows.next().map_err(read_error)? {
        for (index, column) in columns.iter().enumerate() {
            let value = row.get_ref(index).map_err(read_error)?;
            if !fits(value, column) {
                let (name, declared, found) = (&column.name, &column.declared, word(value));
                return Err(refused(format!(
                    "a row of `{table}` has {found} in `{name}`, which is {declared}"
                )));
            }
        }
    }
    Ok(())
}

fn columns(db: &Connection, table: &str) -> rusqlite::Result<Vec<Column>> {
    let sql = "SELECT name, type, \"notnull\" OR pk FROM pragma_table_xinfo(?1) ORDER BY cid";
    let mut statement = db.prepare(sql)?;
    let rows = statement.query_map([table], |row| {
        Ok(Column { name: row.get(0)?, declared: row.get(1)?, required: row.get(2)? })
    })?;
    rows.collect()
}

fn fits(value: ValueRef<'_>, column: &Column) -> bool {
    match value {
        ValueRef::Null => !column.required,
        ValueRef::Integer(_) => column.declared == "INTEGER",
        ValueRef::Text(text) => column.declared == "TEXT" && std::str::from_utf8(text).is_ok(),
        ValueRef::Blob(_) => column.declared == "BLOB",
        ValueRef::Real(_) => false,
    }
}

fn word(value: ValueRef<'_>) -> &'static str {
    match value.data_type() {
        Type::Null => "nothing",
        Type::Integer => "a whole number",
        Type::Real => "a fraction",
        Type::Text => "text",
        Type::Blob => "bytes",
    }
}
