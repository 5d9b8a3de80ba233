//! How long a call waits for the writing thread or for a reader: until its deadline.
//!
//! The thread cannot be stopped while the disk does not answer. The caller is told, and what was not begun by then is not
//! done later.

use std::time::Duration;

use crate::StoreError;

/// The answer, if it comes within `deadline`.
pub(super) async fn within<T>(
    deadline: Duration,
    answer: impl Future<Output = Result<T, StoreError>>,
) -> Result<T, StoreError> {
    tokio::time::timeout(deadline, answer).await.unwrap_or_else(|_| {
        Err(StoreError::Unavailable(format!("no answer within {} s", deadline.as_secs_f64())))
    })
}
