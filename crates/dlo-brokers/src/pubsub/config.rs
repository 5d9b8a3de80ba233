//! What `[brokers.<name>]` may say of Google Pub/Sub.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PubsubConfig {}
