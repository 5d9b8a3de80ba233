//! The connections that only read, lent to one call at a time.
//!
//! A call that may take long has a blocking thread. One that looks at a page of letters at most stays where it is: to go to
//! another thread and come back takes about as long as it does itself, and longer on a machine that sleeps.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dlo_core::query::Query;
use rusqlite::{Connection, InterruptHandle};
use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::sync::Semaphore;

use super::deadline::Steps;
use super::writer::Shared;
use super::{closed, deadline, open};
use crate::StoreError;
use crate::filter::Filter;

/// Calls that read at the same time.
const READERS: usize = 4;

pub(super) struct Readers {
    pool: Arc<Pool>,
    permits: Arc<Semaphore>,
    deadline: Duration,
}

struct Pool {
    database: PathBuf,
    shared: Arc<Shared>,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    pub(super) fn new(database: &Path, shared: &Arc<Shared>, deadline: Duration) -> Self {
        let (database, shared) = (database.to_path_buf(), Arc::clone(shared));
        let pool = Pool { database, shared, idle: Mutex::default() };
        Self { pool: Arc::new(pool), permits: Arc::new(Semaphore::new(READERS)), deadline }
    }

    /// Runs `work` with a connection on a blocking thread. Work that is not done by the deadline is interrupted.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let running = Running::default();
        let answer = deadline::within(self.deadline, self.on_thread(running.clone().noted(work))).await;
        running.interrupt();
        answer
    }

    /// The same for work that grows with the store, which has the deadline between two of its steps.
    pub(super) async fn read_long<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (running, steps) = (Running::default(), Steps::default());
        let counted = steps.clone();
        let work = move |db: &Connection, shared: &Shared| counted.during(|| work(db, shared));
        let answer = steps.within(self.deadline, self.on_thread(running.clone().noted(work))).await;
        running.interrupt();
        answer
    }

    async fn on_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let permit = Arc::clone(&self.permits).acquire_owned().await.map_err(|_| closed())?;
        let pool = Arc::clone(&self.pool);
        let task = tokio::task::spawn_blocking(move || {
            let _permit = permit;
            pool.lend(work)
        });
        task.await.map_err(|e| StoreError::Refused(format!("a read did not finish: {e}")))?
    }

    /// Runs `work` with a connection on this thread. Whatever else the thread had to do is done by others meanwhile; a
    /// runtime that has no others runs it as any read.
    pub(super) async fn glance<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Shared) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        if Handle::current().runtime_flavor() != RuntimeFlavor::MultiThread {
            return self.read(work).await;
        }
        let permit = async { self.permits.acquire().await.map_err(|_| closed()) };
        let _permit = deadline::within(self.deadline, permit).await?;
        tokio::task::block_in_place(|| self.pool.lend(work))
    }

    /// Gives up the connections that nobody has.
    pub(super) fn close(&self) {
        self.pool.idle().clear();
    }
}

/// The statement that runs for a call, if one does.
#[derive(Clone, Default)]
struct Running(Arc<Mutex<Option<InterruptHandle>>>);

impl Running {
    /// `work`, known here while it runs.
    fn noted<T>(
        self,
        work: impl FnOnce(&Connection, &Shared) -> T + Send + 'static,
    ) -> impl FnOnce(&Connection, &Shared) -> T + Send + 'static {
        move |db: &Connection, shared: &Shared| {
            self.set(Some(db.get_interrupt_handle()));
            let result = work(db, shared);
            self.set(None);
            result
        }
    }

    fn set(&self, handle: Option<InterruptHandle>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = handle;
    }

    /// Under the lock, so that it is never the next call that is interrupted.
    fn interrupt(&self) {
        if let Some(handle) = self.0.lock().unwrap_or_else(PoisonError::into_inner).as_ref() {
            handle.interrupt();
        }
    }
}

/// Whether groups and statuses alone say which letters are meant, so that a page of them is soon read.
pub(super) fn is_brief(query: &Query) -> bool {
    !Filter::new(query).concerns_rows()
}

impl Pool {
    fn lend<T>(
        &self,
        work: impl FnOnce(&Connection, &Shared) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let idle = self.idle().pop();
        let connection = match idle {
            Some(connection) => connection,
            None => open::reader(&self.database)?,
        };
        let result = work(&connection, &self.shared);
        self.idle().push(connection);
        result
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::thread::{self, ThreadId};

    use dlo_core::time::Timestamp;

    use super::super::SqliteStore;
    use super::*;
    use crate::StoreLimits;

    #[test]
    fn a_question_is_brief_if_groups_and_statuses_answer_it() {
        let is_brief = |text| is_brief(&Query::parse(text, Timestamp::from_millis(0)).unwrap());
        assert!(is_brief("") && is_brief("status:open type:order.paid -owner:none"));
        assert!(!is_brief("status:open timeout") && !is_brief("attempts:>3") && !is_brief("key:7"));
    }

    /// The thread of a glance, and the one that asked.
    async fn threads() -> (ThreadId, ThreadId) {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(directory.path(), StoreLimits::default()).unwrap();
        let at = store.readers.glance(|_, _| Ok(thread::current().id())).await.unwrap();
        (at, thread::current().id())
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_glance_stays_where_it_is() {
        let (at, asked) = tokio::spawn(threads()).await.unwrap();
        assert_eq!(at, asked);
    }

    #[tokio::test]
    async fn a_glance_holds_up_no_runtime_of_a_single_thread() {
        let (at, asked) = threads().await;
        assert_ne!(at, asked);
    }
}
