//! The bare store of the peers written in Rust: one SQLite table with the three indexes of the ground floor's bench,
//! batches of 1,000, WAL, fully durable. It groups nothing, counts nothing, searches nothing.

use std::path::Path;

use rusqlite::{Connection, params};

/// What a bare loop keeps of a message.
pub(crate) struct Row {
    pub(crate) origin: String,
    pub(crate) event_type: String,
    pub(crate) class: String,
    pub(crate) error: String,
    pub(crate) payload: Vec<u8>,
}

pub(crate) struct Sink(Connection);

impl Sink {
    pub(crate) fn open(database: &Path) -> Self {
        let connection = Connection::open(database).expect("open the bare database");
        connection
            .execute_batch(
                "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
                 CREATE TABLE IF NOT EXISTS dead_letters (id INTEGER PRIMARY KEY, origin TEXT NOT NULL UNIQUE,
                   event_type TEXT, error_class TEXT, error_message TEXT, group_id INTEGER, status TEXT,
                   failed_at INTEGER, payload BLOB);
                 CREATE INDEX IF NOT EXISTS by_status ON dead_letters (status, failed_at);
                 CREATE INDEX IF NOT EXISTS by_group ON dead_letters (group_id, failed_at);",
            )
            .expect("make the bare table");
        Self(connection)
    }

    pub(crate) fn put(&mut self, rows: &[Row]) {
        let transaction = self.0.transaction().expect("begin");
        {
            let mut insert = transaction
                .prepare_cached(
                    "INSERT INTO dead_letters (origin, event_type, error_class, error_message, group_id, status,
                     failed_at, payload) VALUES (?1, ?2, ?3, ?4, ?5, 'open', ?6, ?7)",
                )
                .expect("prepare");
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
            for row in rows {
                // A number for the pair stands in for a group.
                let group = row.event_type.len() as i64 * 100 + row.class.len() as i64;
                let at = now.as_micros() as i64;
                let values =
                    params![row.origin, row.event_type, row.class, row.error, group, at, row.payload];
                insert.execute(values).expect("insert");
            }
        }
        transaction.commit().expect("commit");
    }

    /// The number of the newest row, which is found without a walk through all of them.
    pub(crate) fn newest(&self) -> u64 {
        let newest: i64 = self
            .0
            .query_row("SELECT coalesce(max(id), 0) FROM dead_letters", [], |row| row.get(0))
            .expect("the newest");
        newest.unsigned_abs()
    }

    pub(crate) fn count(&self) -> u64 {
        let count: i64 =
            self.0.query_row("SELECT count(*) FROM dead_letters", [], |row| row.get(0)).expect("count");
        count.unsigned_abs()
    }
}
