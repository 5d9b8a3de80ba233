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

pub(crate) async fn filled(url: &str, count: u64) -> Client {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await.expect("connect");
    tokio::spawn(connection);
    client.batch_execute(MAKE).await.expect("the table");
    let mut next = 0;
    while next < count {
        let end = (next + PIECE).min(count);
        let sink = client.copy_in("COPY dead_letters FROM STDIN").await.expect("copy");
        let mut sink = std::pin::pin!(sink);
        let mut rows = String::new();
        for n in next..end {
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
        sink.send(Bytes::from(rows)).await.expect("rows");
        sink.finish().await.expect("copied");
        next = end;
    }
    client.batch_execute("VACUUM ANALYZE dead_letters").await.expect("vacuum");
    client
}
