//! The schema of a backup is exactly the one that the migrations up to its version make.
//!
//! Definitions are compared as tokens: comments and spaces may differ, names, types and constraints may not.

use std::collections::BTreeMap;

use rusqlite::Connection;

use super::super::{open, read_error};
use super::{printable, refused, said};
use crate::StoreError;

/// A table, index, trigger or view by its kind and name.
type Key = (String, String);

/// What it belongs to, and its definition; an index that a constraint makes has none.
type Definition = (String, Option<String>);

pub(super) fn check(backup: &Connection) -> Result<(), StoreError> {
    let unread = |error: rusqlite::Error| refused(format!("its schema cannot be read: {}", said(&error)));
    let version: i64 = backup.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(unread)?;
    if version > open::known_version() {
        return Err(StoreError::Newer { found: version, known: open::known_version() });
    }
    if version < 1 {
        return Err(refused(format!("its schema version is {version}: no office wrote it")));
    }
    let found = definitions(backup).map_err(unread)?;
    let expected_db = open::empty(version)?;
    let expected = definitions(&expected_db).map_err(read_error)?;
    for (key, definition) in &expected {
        match found.get(key) {
            None => return Err(refused(format!("the {} `{}` is missing", key.0, key.1))),
            Some(found) if found != definition => {
                return Err(refused(difference(backup, &expected_db, key).map_err(unread)?));
            }
            Some(_) => {}
        }
    }
    if let Some((kind, name)) = found.keys().find(|key| !expected.contains_key(*key)) {
        let (kind, name) = (printable(kind), printable(name));
        return Err(refused(format!(
            "its schema has the {kind} `{name}`, which an office of version {version} does not have"
        )));
    }
    Ok(())
}

/// Statistics that somebody had SQLite gather change no answer.
fn definitions(db: &Connection) -> rusqlite::Result<BTreeMap<Key, Definition>> {
    let sql = "SELECT type, name, tbl_name, sql FROM sqlite_master WHERE name NOT IN ('sqlite_stat1', 'sqlite_stat4')";
    let mut statement = db.prepare(sql)?;
    let rows = statement.query_map([], |row| {
        let sql: Option<String> = row.get(3)?;
        Ok(((row.get(0)?, row.get(1)?), (row.get(2)?, sql.as_deref().map(tokens))))
    })?;
    rows.collect()
}

/// What differs, by column where it is a column.
fn difference(backup: &Connection, expected: &Connection, (kind, name): &Key) -> rusqlite::Result<String> {
    let (found, expected) = (columns(backup, name)?, columns(expected, name)?);
    if kind == "table" {
        for (column, kept) in &expected {
            match found.get(column) {
                None => return Ok(format!("the table `{name}` lacks the column `{column}`")),
                Some(other) if other != kept => {
                    let other = printable(other);
                    return Ok(format!("the column `{name}.{column}` is `{other}`, not `{kept}`"));
                }
                Some(_) => {}
            }
        }
        if let Some(column) = found.keys().find(|column| !expected.contains_key(*column)) {
            let column = printable(column);
            return Ok(format!("the table `{name}` has a column `{column}` that the office does not know"));
        }
    }
    Ok(format!("the {kind} `{name}` is defined differently"))
}

/// Columns with their type and what is required of them.
fn columns(db: &Connection, table: &str) -> rusqlite::Result<BTreeMap<String, String>> {
    let mut statement = db.prepare(
        "SELECT name, type || iif(\"notnull\", ' NOT NULL', '') || iif(pk, ' PRIMARY KEY', '') FROM pragma_table_xinfo(?1)",
    )?;
    let rows = statement.query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// A definition as its tokens with one space between them. What is quoted stays as it is.
fn tokens(sql: &str) -> String {
    let mut tokens = String::with_capacity(sql.len());
    let mut rest = sql.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '-' if rest.starts_with("--") => {
                rest = rest.find('\n').map_or("", |end| &rest[end..]).trim_start();
                continue;
            }
            '/' if rest.starts_with("/*") => {
                rest = rest.find("*/").map_or("", |end| &rest[end + 2..]).trim_start();
                continue;
            }
            '\'' | '"' | '`' => 1 + rest[1..].find(first).map_or(rest.len() - 1, |end| end + 1),
            '[' => rest.find(']').map_or(rest.len(), |end| end + 1),
            _ if is_word(first) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            _ => first.len_utf8(),
        };
        let (token, behind) = rest.split_at(length);
        tokens.push_str(token);
        tokens.push(' ');
        rest = behind.trim_start();
    }
    tokens
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_spaces_make_no_difference_and_what_is_quoted_does() {
        let same =
            ["CREATE TABLE a (b TEXT, c INTEGER)", "CREATE TABLE  a(\n b TEXT, -- why\n c /* x */INTEGER )"];
        assert_eq!(tokens(same[0]), tokens(same[1]));
        for other in
            ["CREATE TABLE a (b TEXT, c TEXT)", "CREATE TABLE a (b TEXT)", "CREATE TABLE a (b TEXT, 'c  x')"]
        {
            assert_ne!(tokens(same[0]), tokens(other));
        }
        assert_ne!(tokens("DEFAULT 'a -- b'"), tokens("DEFAULT 'a '"));
        assert_ne!(tokens("DEFAULT 'a  b'"), tokens("DEFAULT 'a b'"));
        for open in ["'", "\"a", "[a", "/* a", "-- a", "a ''"] {
            tokens(open);
        }
    }
}
