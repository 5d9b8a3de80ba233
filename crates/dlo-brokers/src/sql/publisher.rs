//! Nothing is written to a table here: its rows are the application's, and so is what belongs in them.

use std::sync::Arc;

use async_trait::async_trait;
use dlo_core::broker::{Capabilities, Confirmed, Outgoing, PublishError, Publisher};

const REFUSAL: &str = "a table is only read: the application writes its own rows; replay to the broker or the address \
    where it takes messages";

#[derive(Debug)]
pub(super) struct SqlPublisher {
    pub(super) capabilities: Arc<Capabilities>,
}

#[async_trait]
impl Publisher for SqlPublisher {
    fn capabilities(&self) -> &Capabilities {
        &self.capabilities
    }

    async fn publish(&self, messages: Vec<Outgoing>) -> Vec<Result<Confirmed, PublishError>> {
        messages.iter().map(|_| Err(PublishError::Refused(REFUSAL.to_owned()))).collect()
    }
}
