//! a database table, `kind = "sql"`.

mod config;

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};

pub use config::SqlConfig;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &SqlConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    Err(BrokerError::Refused(format!("a database table is not in this build yet: {config:?}")))
}
