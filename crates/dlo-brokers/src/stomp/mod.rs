//! STOMP, `kind = "stomp"`.

mod config;

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};

pub use config::StompConfig;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &StompConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    Err(BrokerError::Refused(format!("STOMP is not in this build yet: {config:?}")))
}
