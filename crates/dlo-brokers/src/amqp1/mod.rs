//! AMQP 1.0, `kind = "amqp1"`.

mod config;

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};

pub use config::Amqp1Config;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &Amqp1Config) -> Result<Arc<dyn Broker>, BrokerError> {
    Err(BrokerError::Refused(format!("AMQP 1.0 is not in this build yet: {config:?}")))
}
