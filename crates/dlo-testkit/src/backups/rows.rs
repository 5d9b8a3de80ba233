//! Changes of rows under a schema that stays.

use rand::RngExt;
use rand::rngs::StdRng;
use rusqlite::Connection;

use super::{Kind, columns, names, pick};

/// Where a number stood.
const NUMBERS: [&str; 8] =
    ["-1", "0", "99", "255", "9223372036854775807", "-9223372036854775808", "4294967296", "1"];
/// Where anything stood.
const VALUES: [&str; 7] = ["'strange'", "x'ff00'", "1.5", "NULL", "CAST(x'ff80fe' AS TEXT)", "''", "'-7'"];
const COUNTERS: [&str; 4] = [
    "DELETE FROM sqlite_sequence",
    "UPDATE sqlite_sequence SET seq = 9223372036854775807",
    "UPDATE sqlite_sequence SET seq = 'x'",
    "UPDATE sqlite_sequence SET seq = 0 WHERE name = 'audit'",
];

/// What was done; `None` if this choice changes nothing.
pub(super) fn change(kind: Kind, db: &Connection, random: &mut StdRng) -> rusqlite::Result<Option<String>> {
    let tables = names(db, "table")?;
    let Some(table) = pick(&tables, random) else { return Ok(None) };
    let all = columns(db, table)?;
    let Some((first, _)) = all.first() else { return Ok(None) };
    let count: i64 = db.query_row(&format!("SELECT count(*) FROM \"{table}\""), [], |row| row.get(0))?;
    if count == 0 {
        return Ok(None);
    }
    let at = random.random_range(0..count);
    let one = format!("\"{first}\" = (SELECT \"{first}\" FROM \"{table}\" ORDER BY 1 LIMIT 1 OFFSET {at})");
    let sql = match kind {
        Kind::EmptyTable => format!("DELETE FROM \"{table}\""),
        Kind::DeleteRow => format!("DELETE FROM \"{table}\" WHERE {one}"),
        Kind::ChangeNumber => {
            let numbers: Vec<&(String, String)> =
                all.iter().filter(|(_, declared)| declared == "INTEGER").collect();
            let Some((column, _)) = pick(&numbers, random) else { return Ok(None) };
            let value = match random.random_range(0..3) {
                0 => format!("\"{column}\" + {}", random.random_range(1..4)),
                _ => NUMBERS[random.random_range(0..NUMBERS.len())].to_owned(),
            };
            format!("UPDATE \"{table}\" SET \"{column}\" = {value} WHERE {one}")
        }
        Kind::WrongType => {
            let Some((column, _)) = pick(&all, random) else { return Ok(None) };
            let value = VALUES[random.random_range(0..VALUES.len())];
            format!("UPDATE \"{table}\" SET \"{column}\" = {value} WHERE {one}")
        }
        _ => COUNTERS[random.random_range(0..COUNTERS.len())].to_owned(),
    };
    Ok((db.execute(&sql, [])? > 0).then_some(sql))
}
