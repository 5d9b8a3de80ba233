//! NATS JetStream, `kind = "nats"`.

mod config;

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};

pub use config::NatsConfig;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &NatsConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    Err(BrokerError::Refused(format!("NATS JetStream is not in this build yet: {config:?}")))
}
