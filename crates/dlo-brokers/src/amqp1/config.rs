//! What `[brokers.<name>]` may say of AMQP 1.0.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Amqp1Config {}
