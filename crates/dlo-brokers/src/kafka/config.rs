//! What `[brokers.<name>]` may say of Kafka.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct KafkaConfig {}
