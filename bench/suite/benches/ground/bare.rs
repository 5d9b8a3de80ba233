//! The peer: a bare loop that inserts the same rows in batches of 1,000 into SQLite (WAL, FULL), with a unique
//! origin key, (status, failed_at) and (group, failed_at). It parses nothing, groups nothing, counts nothing.

use std::path::Path;
use std::time::{Duration, Instant};

use rusqlite::{Connection, params};

use crate::letters;

/// One row, made before the clock starts.
struct Row {
    origin: String,
    source: &'static str,
    event_type: String,
    class: &'static str,
    consumer: &'static str,
    group: i64,
    message: String,
    key: String,
    correlation: String,
    failed_at: i64,
    headers: String,
    payload: String,
}

fn row(n: u64) -> Row {
    let event_type = letters::event_type(n);
    Row {
        origin: format!("{}/{}/{}", letters::source(n), n % 12, n / 12),
        source: letters::source(n),
        class: letters::class(n),
        consumer: letters::consumer(n),
        group: (letters::mix(n ^ 0x5a) % letters::TYPES) as i64 * 8 + (letters::mix(n) % 4) as i64,
        event_type,
        message: letters::message(n),
        key: letters::key(n),
        correlation: letters::correlation(n),
        failed_at: letters::failed_at(n).as_micros(),
        headers: format!(r#"[["x-tenant","acme"],["traceparent","00-{:032x}-01"]]"#, letters::mix(n)),
        payload: letters::payload(n),
    }
}

/// Inserts `count` rows from `first` on; returns the time spent inserting.
pub(crate) fn run(database: &Path, first: u64, count: u64) -> Duration {
    insert(&mut open(database), first, count)
}

/// The database with its table, made if it is not there.
pub(crate) fn open(database: &Path) -> Connection {
    let connection = Connection::open(database).expect("open the bare database");
    connection
        .execute_batch(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;
             CREATE TABLE IF NOT EXISTS dead_letters (id INTEGER PRIMARY KEY, origin TEXT NOT NULL UNIQUE, source TEXT,
               event_type TEXT, error_class TEXT, consumer TEXT, group_id INTEGER, error_message TEXT, message_key TEXT,
               correlation_id TEXT, attempts INTEGER, status TEXT, failed_at INTEGER, headers TEXT, payload TEXT);
             CREATE INDEX IF NOT EXISTS by_status ON dead_letters (status, failed_at);
             CREATE INDEX IF NOT EXISTS by_group ON dead_letters (group_id, failed_at);",
        )
        .expect("make the bare table");
    connection
}

/// Inserts `count` rows from `first` on, a thousand a transaction; returns the time spent inserting.
pub(crate) fn insert(connection: &mut Connection, first: u64, count: u64) -> Duration {
    let mut spent = Duration::ZERO;
    let mut next = first;
    while next < first + count {
        let rows: Vec<Row> = (next..(next + 1_000).min(first + count)).map(row).collect();
        next += rows.len() as u64;
        let start = Instant::now();
        let transaction = connection.transaction().expect("begin");
        {
            let mut insert = transaction
                .prepare_cached(
                    "INSERT INTO dead_letters (origin, source, event_type, error_class, consumer, group_id,
                     error_message, message_key, correlation_id, attempts, status, failed_at, headers, payload)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, 3, 'open', ?10, ?11, ?12)",
                )
                .expect("prepare");
            for r in &rows {
                insert
                    .execute(params![
                        r.origin,
                        r.source,
                        r.event_type,
                        r.class,
                        r.consumer,
                        r.group,
                        r.message,
                        r.key,
                        r.correlation,
                        r.failed_at,
                        r.headers,
                        r.payload
                    ])
                    .expect("insert");
            }
        }
        transaction.commit().expect("commit");
        spent += start.elapsed();
    }
    spent
}
