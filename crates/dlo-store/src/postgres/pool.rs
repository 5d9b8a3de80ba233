//! Connections, lent to one call at a time and checked before they are.
//!
//! A connection that has not answered within the last half second is asked by an empty query first. If it does not answer,
//! the others that have not answered since are closed with it: what made one silent made them silent too.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use deadpool::Runtime;
use deadpool::managed::{self, Metrics, Object, PoolError, RecycleError, RecycleResult, Timeouts};
use deadpool_postgres::ClientWrapper;
use tokio::time::Instant;
use tokio_postgres::{Error, SimpleQueryMessage};

use super::dial::Dial;
use super::pool_error;
use super::watch::{self, Watch};
use crate::StoreError;

/// Connections of one process; also the number of its transactions at the same time.
const CONNECTIONS: usize = 16;
/// How long a connection is trusted after it answered.
const TRUSTED: Duration = Duration::from_millis(500);
/// PostgreSQL ends a transaction of a stopped process after this long, because its locks keep other processes from taking
/// over. A second transaction of that process may wait for the first: it is ended this long after the first. Twice this is
/// less than the 15 s within which another server takes a replay over. No call of ours pauses so long between statements.
const STANDSTILL: &str =
    "SET idle_in_transaction_session_timeout = '5s'; SELECT pg_catalog.pg_backend_pid() AS backend";
/// The server ends a statement whose connection we have closed. Servers on Windows cannot see that, and refuse the setting.
const NOTICE: &str = "SET client_connection_check_interval = '2s'";

/// The connections of one process. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Pool {
    inner: managed::Pool<Connections>,
    deadline: Duration,
}

impl Pool {
    /// Connects to nothing yet.
    pub(super) fn new(dial: Dial) -> Result<Self, StoreError> {
        let deadline = dial.deadline;
        // A call may have to check one connection and to make another, all before its deadline.
        let timeouts = Timeouts { wait: Some(deadline), create: Some(deadline / 2), recycle: None };
        let begun = Instant::now();
        let connections = Connections { dial: Arc::new(dial), begun, doubted: AtomicU64::new(0) };
        let inner = managed::Pool::builder(connections)
            .max_size(CONNECTIONS)
            .timeouts(timeouts)
            .runtime(Runtime::Tokio1)
            .build()
            .map_err(|e| StoreError::Refused(format!("the connection pool: {e}")))?;
        Ok(Self { inner, deadline })
    }

    /// When a call that begins now is overdue.
    pub(super) fn due(&self) -> Instant {
        Instant::now() + self.deadline
    }

    /// A connection for a call that is overdue at `due`.
    pub(super) async fn client_until(&self, due: Instant) -> Result<Client, StoreError> {
        let connection = match tokio::time::timeout_at(due, self.inner.get()).await {
            Ok(connection) => connection.map_err(pool_error)?,
            Err(_) => return Err(pool_error(PoolError::Timeout(managed::TimeoutType::Wait))),
        };
        connection.watch.begin_call(due, false);
        Ok(Client { connection })
    }

    pub(super) async fn client(&self) -> Result<Client, StoreError> {
        self.client_until(self.due()).await
    }

    /// A connection for a call whose work grows with the store: it may go on for as long as the server works on it.
    pub(super) async fn long_client(&self) -> Result<Client, StoreError> {
        let begun = Instant::now();
        let client = self.client_until(begun + self.deadline).await?;
        // The other half of the deadline is for the server to say whether it works.
        client.connection.watch.begin_call(begun + self.deadline / 2, true);
        Ok(client)
    }

    /// Those who hold a connection finish; nobody gets a new one.
    pub(super) fn close(&self) {
        self.inner.close();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.inner.is_closed()
    }
}

/// A connection, lent to one call.
pub(super) struct Client {
    connection: Object<Connections>,
}

impl std::ops::Deref for Client {
    type Target = ClientWrapper;

    fn deref(&self) -> &ClientWrapper {
        &self.connection.client
    }
}

impl std::ops::DerefMut for Client {
    fn deref_mut(&mut self) -> &mut ClientWrapper {
        &mut self.connection.client
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.watch.end_call();
    }
}

#[derive(Debug)]
struct Connection {
    client: ClientWrapper,
    watch: Arc<Watch>,
}

/// Makes and checks connections.
#[derive(Debug)]
struct Connections {
    dial: Arc<Dial>,
    begun: Instant,
    /// When a connection last failed its check, in microseconds since `begun`.
    doubted: AtomicU64,
}

impl Connections {
    fn doubted(&self) -> Instant {
        self.begun + Duration::from_micros(self.doubted.load(Ordering::Relaxed))
    }

    fn set_doubted(&self) {
        let micros = u64::try_from(self.begun.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.doubted.store(micros, Ordering::Relaxed);
    }
}

impl managed::Manager for Connections {
    type Type = Connection;
    type Error = Error;

    async fn create(&self) -> Result<Connection, Error> {
        let watch = Arc::new(Watch::default());
        let (client, connection) = self.dial.open().await?;
        let task = tokio::spawn(watch::run(connection, Arc::clone(&watch), Arc::clone(&self.dial)));
        let client = ClientWrapper::new(client, task);
        let rows = client.simple_query(STANDSTILL).await?;
        let backend = rows.iter().find_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get("backend")?.parse().ok(),
            _ => None,
        });
        watch.set_backend(backend.unwrap_or(0));
        if client.batch_execute(NOTICE).await.is_err() {
            tracing::debug!("the server does not notice closed connections while a statement runs");
        }
        watch.set_checked();
        Ok(Connection { client, watch })
    }

    async fn recycle(&self, connection: &mut Connection, _: &Metrics) -> RecycleResult<Error> {
        if connection.client.is_closed() {
            return Err(RecycleError::message("it is closed"));
        }
        let checked = connection.watch.checked();
        if checked < self.doubted() {
            return Err(RecycleError::message("another one has not answered since"));
        }
        if checked.elapsed() < TRUSTED {
            return Ok(());
        }
        let asked = connection.client.simple_query("");
        if !matches!(tokio::time::timeout(self.dial.deadline / 5, asked).await, Ok(Ok(_))) {
            self.set_doubted();
            return Err(RecycleError::message("it does not answer"));
        }
        connection.watch.set_checked();
        Ok(())
    }
}
