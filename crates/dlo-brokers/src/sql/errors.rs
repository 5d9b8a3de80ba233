//! What PostgreSQL says, as something to do. Read by SQLSTATE, never by text.
//!
//! Only code and message are shown: a server's detail line may quote what is stored.

use std::error::Error as _;

use dlo_core::broker::BrokerError;
use tokio_postgres::error::SqlState;

/// The error of a statement on `what`, a table or a setting as the operator knows it.
pub(super) fn told(error: &tokio_postgres::Error, what: &str) -> BrokerError {
    let Some(said) = error.as_db_error() else {
        let cause = error.source().map(|cause| format!(": {cause}")).unwrap_or_default();
        // Without an answer of the server there are only lost connections, and names or files of our own that are wrong.
        return BrokerError::Unavailable(format!("{what}: {error}{cause}"));
    };
    let told = format!("{what}: {} ({})", said.message(), said.code().code());
    match *said.code() {
        SqlState::INVALID_PASSWORD | SqlState::INVALID_AUTHORIZATION_SPECIFICATION => {
            BrokerError::Refused(format!("{told}; check user and password in `url`"))
        }
        SqlState::UNDEFINED_DATABASE => {
            BrokerError::Refused(format!("{told}; name the application's database in `url`"))
        }
        SqlState::INSUFFICIENT_PRIVILEGE => BrokerError::Refused(format!(
            "{told}; `dlo topology plan` shows the rights that are missing, and the GRANT for them"
        )),
        _ => match &said.code().code()[..2] {
            // Connection lost, out of resources, stopped or restarting, a lock, a time limit, transactions that crossed.
            "08" | "53" | "57" | "55" | "25" | "40" => BrokerError::Unavailable(told),
            _ => BrokerError::Refused(told),
        },
    }
}
