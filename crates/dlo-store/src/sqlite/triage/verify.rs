//! What must hold of triage beside the numbers: whatever points to a group finds it.

use rusqlite::Connection;

use super::super::read_error;
use crate::StoreError;

pub(in super::super) fn problems(db: &Connection) -> Result<Vec<String>, StoreError> {
    let mut problems = Vec::new();
    for (sql, what) in crate::triage::CHECKS {
        let found: i64 = db.query_row(sql, [], |row| row.get(0)).map_err(read_error)?;
        if found > 0 {
            problems.push(format!("{found} {what}"));
        }
    }
    Ok(problems)
}
