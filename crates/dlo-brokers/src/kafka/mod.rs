//! Kafka, `kind = "kafka"`.

mod config;

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};

pub use config::KafkaConfig;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &KafkaConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    Err(BrokerError::Refused(format!("Kafka is not in this build yet: {config:?}")))
}
