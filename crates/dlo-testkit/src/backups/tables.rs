//! Changes of the schema, and of what holds for the whole file.

use std::path::Path;

use rand::RngExt;
use rand::rngs::StdRng;
use rusqlite::{Connection, params};

use super::{Kind, columns, names, pick};

const TYPES: [&str; 3] = [" INTEGER", " TEXT", " BLOB"];
const VERSIONS: [i64; 10] = [-1, 0, 1, 3, 5, 6, 7, 8, 1_000, i32::MAX as i64];

/// What was done; `None` if this choice changes nothing.
pub(super) fn change(kind: Kind, db: &Connection, random: &mut StdRng) -> rusqlite::Result<Option<String>> {
    let tables = names(db, "table")?;
    let Some(table) = pick(&tables, random) else { return Ok(None) };
    let all = columns(db, table)?;
    let Some((column, _)) = pick(&all, random) else { return Ok(None) };
    let sql = match kind {
        Kind::Vacuumed => "VACUUM".to_owned(),
        Kind::DropTable => format!("DROP TABLE \"{table}\""),
        Kind::RetypeColumn => return retype(db, table, random),
        Kind::DropColumn => format!("ALTER TABLE \"{table}\" DROP COLUMN \"{column}\""),
        Kind::RenameColumn => format!("ALTER TABLE \"{table}\" RENAME COLUMN \"{column}\" TO strange"),
        Kind::AddColumn => format!("ALTER TABLE \"{table}\" ADD COLUMN strange TEXT"),
        Kind::AddTable => {
            let name = ["strange", "letters2", "sqlean", "quick_strange"][random.random_range(0..4)];
            format!("CREATE TABLE {name} (id INTEGER PRIMARY KEY, words TEXT)")
        }
        Kind::AddTrigger => trigger(table, &tables, random),
        Kind::AddView => format!("CREATE VIEW strange AS SELECT * FROM \"{table}\""),
        Kind::ViewForTable => format!(
            "PRAGMA legacy_alter_table = ON; ALTER TABLE \"{table}\" RENAME TO strange;
             CREATE VIEW \"{table}\" AS SELECT * FROM strange;"
        ),
        Kind::DropIndex => match pick(&names(db, "index")?, random) {
            Some(index) => format!("DROP INDEX \"{index}\""),
            None => return Ok(None),
        },
        Kind::AddIndex => format!("CREATE INDEX strange ON \"{table}\" (\"{column}\")"),
        Kind::OtherVersion => {
            let own: i64 = db.query_row("PRAGMA user_version", [], |row| row.get(0))?;
            let others: Vec<i64> = VERSIONS.into_iter().filter(|version| *version != own).collect();
            format!("PRAGMA user_version = {}", others[random.random_range(0..others.len())])
        }
        Kind::PageSize => {
            let size = [512, 1_024, 8_192, 65_536][random.random_range(0..4)];
            format!("PRAGMA page_size = {size}; VACUUM;")
        }
        Kind::AutoVacuum => format!("PRAGMA auto_vacuum = {}; VACUUM;", random.random_range(1..=2)),
        _ => return Ok(None),
    };
    db.execute_batch(&sql)?;
    Ok(Some(sql))
}

fn trigger(table: &str, tables: &[String], random: &mut StdRng) -> String {
    let event = ["AFTER INSERT", "BEFORE DELETE", "AFTER UPDATE"][random.random_range(0..3)];
    let victim = pick(tables, random).map_or("letters", String::as_str);
    let deed = match random.random_range(0..3) {
        0 => format!("DELETE FROM \"{victim}\""),
        1 => "SELECT raise(ABORT, 'no')".to_owned(),
        _ => "SELECT raise(IGNORE)".to_owned(),
    };
    format!("CREATE TRIGGER strange {event} ON \"{table}\" BEGIN {deed}; END")
}

/// Gives one column of a table another type, and leaves the rows as they are.
fn retype(db: &Connection, table: &str, random: &mut StdRng) -> rusqlite::Result<Option<String>> {
    let sql: String =
        db.query_row("SELECT sql FROM sqlite_master WHERE type = 'table' AND name = ?1", [table], |row| {
            row.get(0)
        })?;
    let found: Vec<(usize, &str)> = TYPES.iter().flat_map(|kind| sql.match_indices(kind)).collect();
    let Some((at, former)) = pick(&found, random).copied() else { return Ok(None) };
    let others: Vec<&str> = TYPES.iter().filter(|kind| **kind != former).copied().collect();
    let Some(other) = pick(&others, random) else { return Ok(None) };
    let retyped = format!("{}{other}{}", &sql[..at], &sql[at + former.len()..]);
    db.execute_batch("PRAGMA writable_schema = ON;")?;
    db.execute(
        "UPDATE sqlite_master SET sql = ?1 WHERE type = 'table' AND name = ?2",
        params![retyped, table],
    )?;
    db.execute_batch("PRAGMA writable_schema = RESET;")?;
    Ok(Some(format!("`{table}`: the type at {at} is{other} and not{former}")))
}

/// Makes the file anew: with nothing in it, or with the same tables and rows in UTF-16.
pub(super) fn rebuild(kind: Kind, file: &Path) -> String {
    if kind == Kind::EmptyDatabase {
        std::fs::remove_file(file).expect("the copy is ours");
        let db = Connection::open(file).expect("a new database");
        db.execute_batch("PRAGMA user_version = 7; CREATE TABLE t (a); DROP TABLE t;")
            .expect("an empty database");
        return "a database without a table".to_owned();
    }
    let old = file.with_extension("old");
    std::fs::rename(file, &old).expect("the copy is ours");
    in_utf_16(&Connection::open(&old).expect("the backup"), file).expect("the same in UTF-16");
    std::fs::remove_file(&old).expect("the copy is ours");
    "the same in UTF-16".to_owned()
}

fn in_utf_16(from: &Connection, file: &Path) -> rusqlite::Result<()> {
    let to = Connection::open(file)?;
    to.execute_batch("PRAGMA encoding = 'UTF-16le';")?;
    let version: i64 = from.query_row("PRAGMA user_version", [], |row| row.get(0))?;
    to.pragma_update(None, "user_version", version)?;
    // Tables before their indexes, and the token index with its own tables.
    let sql = "SELECT m.sql FROM sqlite_master m LEFT JOIN pragma_table_list l ON l.name = m.name
                WHERE m.sql IS NOT NULL AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND ifnull(l.type, '') <> 'shadow'
                ORDER BY m.type DESC, m.name";
    let made: Vec<String> = from.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    made.iter().try_for_each(|sql| to.execute_batch(sql))?;
    let sql = "SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'
                AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'";
    let tables: Vec<String> =
        from.prepare(sql)?.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    for table in tables {
        let mut read = from.prepare(&format!("SELECT * FROM \"{table}\""))?;
        let count = read.column_count();
        let marks = vec!["?"; count].join(", ");
        let mut write = to.prepare(&format!("INSERT INTO \"{table}\" VALUES ({marks})"))?;
        let mut rows = read.query([])?;
        while let Some(row) = rows.next()? {
            let values: Vec<rusqlite::types::Value> =
                (0..count).map(|column| row.get(column)).collect::<Result<_, _>>()?;
            write.execute(rusqlite::params_from_iter(values))?;
        }
    }
    Ok(())
}
