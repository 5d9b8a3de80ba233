//! The table that people make by hand: PostgreSQL, a row a letter, the payload as jsonb, indexes for its lists.

use std::fmt::Write;

use bytes::Bytes;
use futures::SinkExt;
use tokio_postgres::{Client, NoTls};

use crate::letters;

/// Rows of one COPY.
const PIECE: u64 = 20_000;

const MAKE: &str = "
    CREATE TABLE dead_letters (id bigint PRIMARY KEY, source text, event_type text, error_class text, error_message text,
        status text, payload jsonb, created_at timestamptz);
    CREATE INDEX dead_letters_status ON dead_letters (status, created_at);
    CREATE INDEX dead_letters_type ON dead_letters (event_type, created_at)";

/// For texts, by pg_trgm. Each question is planned with its words in view: a common one is not looked up as if it were rare.
pub(crate) const TRIGRAMS: &str = "
    SET maintenance_work_mem = '512MB';
    CREATE INDEX dead_letters_trigrams ON dead_letters USING gin (error_message gin_trgm_ops);
    RESET maintenance_work_mem;
    SET plan_cache_mode = force_custom_plan";

/// For lists and counts: each list is one range of an index, in its order; counts need an index and no rows.
pub(crate) const COMPOSITE: &str = "
    RESET plan_cache_mode;
    CREATE INDEX dead_letters_open ON dead_letters (status, created_at DESC, id DESC);
    CREATE INDEX dead_letters_open_type ON dead_letters (event_type, status, created_at DESC, id DESC);
    CREATE INDEX dead_letters_open_class ON dead_letters (event_type, error_class, status, created_at DESC, id DESC)";

pub(crate) async fn filled(url: &str, count: u64) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
    tokio::spawn(connection);
    client.batch_execute(MAKE).await.expect("the table");
    for first in (0..count).step_by(PIECE as usize) {
        copy(&client, first, (first + PIECE).min(count)).await.expect("copied");
    }
    settled(&client).await;
    client
}

/// Letters `first` to `end`, in one transaction.
pub(crate) async fn copy(client: &Client, first: u64, end: u64) -> Result<(), tokio_postgres::Error> {
    let sink = client.copy_in("COPY dead_letters FROM STDIN").await?;
    let mut sink = std::pin::pin!(sink);
    let mut rows = String::new();
    for n in first..end {
        let _ = writeln!(
            rows,
            "{n}\t{}\t{}\t{}\t{}\topen\t{}\t{}",
            letters::source(n),
            letters::event_type(n),
            letters::class(n),
            letters::message(n),
            letters::payload(n),
            letters::failed_at(n)
        );
    }
    sink.send(Bytes::from(rows)).await?;
    sink.finish().await?;
    Ok(())
}

/// Indexes can answer without the rows, and the planner knows what is there.
pub(crate) async fn settled(client: &Client) {
    client.batch_execute("VACUUM ANALYZE dead_letters").await.expect("vacuum");
}

/// Its version, and how much it holds in memory by itself.
pub(crate) async fn said(client: &Client) -> String {
    let sql = "SELECT current_setting('server_version') || ', shared_buffers ' || current_setting('shared_buffers')";
    client.query_one(sql, &[]).await.expect("its settings").get(0)
}

/// What an index takes on disk.
pub(crate) async fn bytes(client: &Client, index: &str) -> f64 {
    let sql = "SELECT pg_relation_size($1::text::regclass)";
    client.query_one(sql, &[&index]).await.expect("its size").get::<_, i64>(0) as f64
}
