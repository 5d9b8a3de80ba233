//! PostgreSQL beside an office: the table that people make by hand, on disk at every commit, ended in the middle of a COPY.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dlo_testkit::harness::postgres::OwnPostgres;
use tokio_postgres::{Client, NoTls};

use crate::moment::Moment;
use crate::restart::MORE;
use crate::table;

/// Rows of a transaction.
const BATCH: u64 = 1_000;
/// Between two tries, and how long it may take.
const LOOK: Duration = Duration::from_millis(2);
const PATIENCE: Duration = Duration::from_secs(120);
const NEWEST: &str =
    "SELECT id, source, event_type, error_class, error_message, status, created_at FROM dead_letters
    WHERE status = 'open' ORDER BY created_at DESC LIMIT 50";

pub(crate) struct Postgres {
    server: OwnPostgres,
}

impl Postgres {
    pub(crate) async fn filled(rows: u64) -> Self {
        let server = OwnPostgres::start_new().await;
        table::filled(&server.url, rows).await;
        Self { server }
    }

    /// Seconds until a server answers that starts behind an end in the middle.
    pub(crate) async fn round(&self, moment: Moment, first: u64) -> f64 {
        let client = self.client().await.expect("connect");
        client.batch_execute("CHECKPOINT").await.expect("a checkpoint");
        let written = Arc::new(AtomicU64::new(0));
        let (count, batches) = (Arc::clone(&written), (first..first + MORE).step_by(BATCH as usize));
        let writer = tokio::spawn(async move {
            for from in batches {
                // It is refused in the middle, when the server is gone.
                if table::copy(&client, from, from + BATCH).await.is_err() {
                    return;
                }
                count.fetch_add(BATCH, Ordering::SeqCst);
            }
        });
        tokio::task::block_in_place(|| {
            moment.wait(|| written.load(Ordering::SeqCst));
            self.server.stop();
        });
        writer.await.expect("the writer");
        let began = Instant::now();
        self.server.begin();
        loop {
            if let Ok(found) = self.newest().await {
                assert_eq!(found, 50, "the newest rows");
                return began.elapsed().as_secs_f64();
            }
            assert!(began.elapsed() < PATIENCE, "PostgreSQL did not come back");
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn newest(&self) -> Result<usize, tokio_postgres::Error> {
        Ok(self.client().await?.query(NEWEST, &[]).await?.len())
    }

    async fn client(&self) -> Result<Client, tokio_postgres::Error> {
        let (client, connection) = tokio_postgres::connect(&self.server.url, NoTls).await?;
        tokio::spawn(connection);
        Ok(client)
    }
}
