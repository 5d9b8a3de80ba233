//! How connections are made: address, TLS, limits of TCP; and what is asked of the server about one of them.

use std::pin::Pin;
use std::time::Duration;

use deadpool_postgres::ClientWrapper;
use tokio_postgres::{Client, Config, Error, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

/// What has to run for a connection to work; ends with it.
pub(super) type Running = Pin<Box<dyn Future<Output = Result<(), Error>> + Send>>;

/// Whether the server works on a statement of this process (waiting for a lock is work), or ended one within some seconds.
const WORKS: &str = "SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1
    AND (state NOT LIKE 'idle%' OR state_change > clock_timestamp() - make_interval(secs => $2)))";

#[derive(Clone)]
pub(super) struct Dial {
    pub(super) config: Config,
    pub(super) tls: Option<MakeRustlsConnect>,
    /// The deadline of a call.
    pub(super) deadline: Duration,
}

impl std::fmt::Debug for Dial {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Dial").field("deadline", &self.deadline).finish_non_exhaustive()
    }
}

impl Dial {
    pub(super) async fn open(&self) -> Result<(Client, Running), Error> {
        Ok(match &self.tls {
            None => {
                let (client, connection) = self.config.connect(NoTls).await?;
                (client, Box::pin(connection) as Running)
            }
            Some(tls) => {
                let (client, connection) = self.config.connect(tls.clone()).await?;
                (client, Box::pin(connection) as Running)
            }
        })
    }

    /// Asks over a connection of its own. No answer within half the deadline means no.
    pub(super) async fn works(&self, backend: i32) -> bool {
        let asked = async {
            let (client, connection) = self.open().await?;
            // The wrapper ends the task when it is dropped.
            let task = tokio::spawn(async move { drop(connection.await) });
            let client = ClientWrapper::new(client, task);
            let recent = self.deadline.as_secs_f64();
            client.query_one(WORKS, &[&backend, &recent]).await.map(|row| row.get::<_, bool>(0))
        };
        matches!(tokio::time::timeout(self.deadline / 2, asked).await, Ok(Ok(true)))
    }
}
