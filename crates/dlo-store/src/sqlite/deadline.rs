//! How long a call waits for the writing thread or for a reader: until its deadline.
//!
//! Work that grows with the store has the deadline between two steps: SQLite reports while it runs, copies report each piece.
//! A thread cannot be stopped while the disk does not answer. The caller gets an error, and what was not begun by then is not
//! done later.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rusqlite::Connection;

use super::read_error;
use crate::StoreError;

/// Instructions of SQLite between two reports: some milliseconds.
const INSTRUCTIONS: i32 = 100_000;

thread_local! {
    /// The steps of the work that this thread does now.
    static STEPS: RefCell<Option<Steps>> = const { RefCell::new(None) };
}

/// The answer, if it comes within `deadline`.
pub(super) async fn within<T>(
    deadline: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(deadline, answer).await.unwrap_or_else(|_| Err(late(deadline)))
}

/// The same for a batch. If the answer is late, nobody knows whether the batch is stored.
pub(super) async fn confirmed_within<T>(
    deadline: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    let unconfirmed =
        || Err(StoreError::Unconfirmed(format!("no answer within {} s", deadline.as_secs_f64())));
    tokio::time::timeout(deadline, answer).await.unwrap_or_else(|_| unconfirmed())
}

fn late(deadline: Duration) -> StoreError {
    StoreError::Unavailable(format!("no answer within {} s", deadline.as_secs_f64()))
}

/// Has a connection report the steps of what it does.
pub(super) fn report_steps(connection: &mut Connection) -> Result<(), StoreError> {
    let report = || {
        step();
        false
    };
    connection.progress_handler(INSTRUCTIONS, Some(report)).map_err(read_error)
}

/// A piece of work is done.
pub(super) fn step() {
    STEPS.with_borrow(|steps| {
        if let Some(Steps(made)) = steps {
            made.fetch_add(1, Ordering::Relaxed);
        }
    });
}

/// The steps that a piece of work has made.
#[derive(Debug, Clone, Default)]
pub(super) struct Steps(Arc<AtomicU64>);

impl Steps {
    /// Does `work` on this thread, and counts its steps.
    pub(super) fn during<T>(&self, work: impl FnOnce() -> T) -> T {
        STEPS.set(Some(self.clone()));
        let done = work();
        STEPS.set(None);
        done
    }

    /// The answer, if no two steps lie further apart than `deadline`.
    pub(super) async fn within<T>(
        &self,
        deadline: Duration,
        answer: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let mut answer = std::pin::pin!(answer);
        let mut made = self.0.load(Ordering::Relaxed);
        loop {
            if let Ok(answer) = tokio::time::timeout(deadline, &mut answer).await {
                return answer;
            }
            let now = self.0.load(Ordering::Relaxed);
            if now == made {
                return Err(late(deadline));
            }
            made = now;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn work_has_the_deadline_between_two_of_its_steps() {
        let (steps, deadline) = (Steps::default(), Duration::from_secs(10));
        let slow = async {
            for _ in 0..5 {
                tokio::time::sleep(deadline / 2).await;
                steps.during(step);
            }
            Ok(())
        };
        steps.within(deadline, slow).await.unwrap();
        let begun = tokio::time::Instant::now();
        let stuck = steps.within(deadline, std::future::pending::<Result<(), _>>()).await;
        assert!(matches!(stuck, Err(StoreError::Unavailable(_))), "{stuck:?}");
        assert!(begun.elapsed() <= deadline * 2);
    }

    #[test]
    fn a_long_query_reports_its_steps() {
        let mut connection = Connection::open_in_memory().unwrap();
        report_steps(&mut connection).unwrap();
        let sql = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) SELECT count(*) FROM n";
        let steps = Steps::default();
        let counted = steps.during(|| connection.query_row(sql, [], |row| row.get::<_, i64>(0)));
        assert_eq!(counted.unwrap(), 1_000_000);
        assert!(steps.0.load(Ordering::Relaxed) > 10, "{steps:?}");
    }
}
