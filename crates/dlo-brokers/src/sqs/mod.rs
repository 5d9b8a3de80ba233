//! Amazon SQS, `kind = "sqs"`.

mod config;

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};

pub use config::SqsConfig;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &SqsConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    Err(BrokerError::Refused(format!("Amazon SQS is not in this build yet: {config:?}")))
}
