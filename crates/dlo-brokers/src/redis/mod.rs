//! Redis Streams, `kind = "redis"`.

mod config;

use std::sync::Arc;

use dlo_core::broker::{Broker, BrokerError};

pub use config::RedisConfig;

/// Makes the broker that `config` describes; reaches for no server.
pub(crate) fn connect(config: &RedisConfig) -> Result<Arc<dyn Broker>, BrokerError> {
    Err(BrokerError::Refused(format!("Redis Streams is not in this build yet: {config:?}")))
}
