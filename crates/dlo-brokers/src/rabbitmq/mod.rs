//! RabbitMQ, `kind = "rabbitmq"`.

mod config;

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};

pub use config::RabbitmqConfig;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &RabbitmqConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    Err(BrokerError::Refused(format!("RabbitMQ is not in this build yet: {config:?}")))
}
