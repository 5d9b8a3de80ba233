//! What PostgreSQL says, as something to do. Read by SQLSTATE, never by text.
//!
//! Only the code and the message are shown: a server's detail line may quote what was stored.

use std::error::Error as _;

use deadpool::managed::PoolError;
use tokio_postgres::error::SqlState;

use crate::{Disk, StoreError};

/// The text of transactions that crossed; see [`crossed`].
const CROSSED: &str = "it was busy with others who wrote the same rows";

/// Whether a transaction came to nothing only because another one was in its way: nothing of it was written.
pub(super) fn crossed(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(text) if text == CROSSED)
}

pub(super) fn read_error(error: tokio_postgres::Error) -> StoreError {
    if error.is_closed() {
        return StoreError::Unavailable("the connection was lost, or no answer came in time".into());
    }
    let Some(said) = error.as_db_error() else {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        return if error.source().is_some_and(|cause| cause.is::<std::io::Error>()) {
            StoreError::Unavailable(format!("{error}{cause}"))
        } else {
            StoreError::Refused(format!("{error}{cause}"))
        };
    };
    let told = format!("{} ({})", said.message(), said.code().code());
    by_state(said.code(), told)
}

/// An error of a commit: without the word of the server nobody knows whether it took place.
pub(super) fn commit_error(error: tokio_postgres::Error) -> StoreError {
    let is_answer = error.as_db_error().is_some();
    match read_error(error) {
        StoreError::Unavailable(text) if !is_answer => StoreError::Unconfirmed(text),
        error => error,
    }
}

fn by_state(state: &SqlState, told: String) -> StoreError {
    match *state {
        // A place or a group that another transaction took between our look and our write is found by the next attempt.
        SqlState::T_R_SERIALIZATION_FAILURE
        | SqlState::T_R_DEADLOCK_DETECTED
        | SqlState::UNIQUE_VIOLATION => StoreError::Unavailable(CROSSED.into()),
        SqlState::DISK_FULL => StoreError::DiskFull(Disk::Database),
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            StoreError::Refused(format!("{told}; check user and password in `server.database`"))
        }
        SqlState::UNDEFINED_DATABASE => {
            StoreError::Refused(format!("{told}; create it, or name another in `server.database`"))
        }
        SqlState::INSUFFICIENT_PRIVILEGE => StoreError::Refused(format!(
            "{told}; the user must own its schema: GRANT CREATE ON SCHEMA public TO it"
        )),
        _ => match &state.code()[..2] {
            // Connection lost, out of resources, stopped or restarting, a lock or a time limit.
            "08" | "53" | "57" | "55" | "25" => StoreError::Unavailable(told),
            _ => StoreError::Refused(told),
        },
    }
}

pub(super) fn pool_error(error: PoolError<tokio_postgres::Error>) -> StoreError {
    match error {
        PoolError::Closed => StoreError::Unavailable("the store is closed".into()),
        PoolError::Timeout(_) => StoreError::Unavailable(
            "no connection became free in time; it is out of reach or overloaded".into(),
        ),
        PoolError::Backend(error) => match read_error(error) {
            // What fails before a connection stands can succeed when the server is back, unless the server said why not.
            StoreError::Refused(text) if !text.contains('(') => StoreError::Unavailable(text),
            other => other,
        },
        other => StoreError::Unavailable(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_decides_what_to_do() {
        let read = |code: &str| by_state(&SqlState::from_code(code), "told".into());
        for code in ["40001", "40P01", "23505"] {
            assert!(crossed(&read(code)), "{code}");
        }
        for code in ["57P01", "57P03", "53300", "53100", "08006", "55P03", "25006"] {
            let error = read(code);
            assert!(error.is_transient() && !crossed(&error), "{code}");
        }
        assert!(read("53100").is_disk_full());
        for code in ["28P01", "3D000", "42501", "42P01", "22021", "23502"] {
            assert!(!read(code).is_transient(), "{code}");
        }
    }
}
