//! What `[brokers.<name>]` may say of Amazon SQS.

use serde::Deserialize;

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SqsConfig {}
